"""Runs in the environment of LightlyStudio, where Loupe itself is not installed."""
