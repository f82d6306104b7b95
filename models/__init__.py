"""Models behind small protocols: real adapters, and built-in ones that need no download."""
