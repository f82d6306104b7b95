"""Measurements of what the project promises; run one by `python -m benchmarks.NAME`."""
