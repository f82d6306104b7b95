"""Near-duplicates of any collection of images: exact, by fingerprint, by embedding.

`fingerprints` makes of each image what it is compared by, `pairs` finds which are alike, `clusters`
which of these is kept.
"""
