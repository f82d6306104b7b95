"""Frozen records that travel between stages, the error tree, and the shapes of configuration."""
