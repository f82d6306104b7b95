"""Loops compiled by numba. Imported inside functions only: numba is slow to load."""
