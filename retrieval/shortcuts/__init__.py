"""Blind opponents: what can be scored on a benchmark without looking at what images show."""
