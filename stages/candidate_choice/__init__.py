"""The result of a search that becomes the candidate of a strategy (CCD, step 2)."""
