"""Releases in the formats that others load, each with the digests of its files."""
