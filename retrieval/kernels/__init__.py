"""Loops compiled by numba. Imported inside functions only: numba is slow to load.

What is compiled is kept beside the module, or where `NUMBA_CACHE_DIR` says, and used again.
"""
