"""Immutable, content-addressed snapshots of a dataset: built from the store, verified without."""
