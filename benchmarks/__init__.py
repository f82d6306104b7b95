"""Benchmarks of the project's performance targets; run one with `python -m benchmarks.NAME`."""
