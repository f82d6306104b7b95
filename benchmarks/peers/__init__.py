"""Peers, each run in a separate environment."""
