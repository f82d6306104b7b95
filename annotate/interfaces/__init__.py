"""The pages that annotators work on, one module each."""
