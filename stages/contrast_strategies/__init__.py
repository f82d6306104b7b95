"""Contrastive strategies (CCD, step 1): asked for, read, and asked for anew.

What a request tells a model is said in `schemas.strategy_request`.
"""
