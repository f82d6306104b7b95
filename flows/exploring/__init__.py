"""`loupe explore`: look at a dataset or a release, and decide on what is seen."""
