"""Reads English descriptions of persons: which facts a text states, and where it states them."""
