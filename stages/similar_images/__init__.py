"""Similar images of the same source: one to be confused with, many to expand a gallery.

Plain functions of tables of neighbours (`retrieval.neighbours`) and of near-duplicates
(`stages.near_duplicates`), both computed by whoever calls.
"""
