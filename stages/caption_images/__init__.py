"""Captions of an image for its task (ReCoS, section 3.2): asked for, read, and asked for anew.

What a request tells a model is said in `schemas.caption_request`.
"""
