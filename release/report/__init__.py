"""The report of a release: a folder with one static page, which opens from disk.

The page describes the release as a whole: numbers, charts, terms, the differences from an earlier
release, and a small gallery. `loupe explore` shows all rows.
"""
