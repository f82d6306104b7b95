"""Confusing captions (ReCoS, section 3.3): asked for, read, and held against both images."""
