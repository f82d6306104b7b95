"""Small deterministic models that need no download."""
