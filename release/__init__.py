"""Immutable, content-addressed snapshots of a dataset: built from the store, verified without.

Called as `loupe.release(test_share=0.3)`, it is the release at the end of a pipeline; its help is
that of `loupe.api.pipeline.release`.
"""
