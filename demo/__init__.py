"""What exists only to show Loupe without a download: drawn worlds, and models that answer on them.

It is a leaf: no other package imports it; it is found by its entry points.
"""
