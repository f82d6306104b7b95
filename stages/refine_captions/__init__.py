"""Fine captions of a group of images (CCD, step 3): asked for, read, asked for anew, and checked.

What a request tells a model is said in `schemas.refinement_request`.
"""
