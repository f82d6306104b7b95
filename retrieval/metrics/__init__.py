"""The metrics of the field, one a file: exact, and independent of the order of the gallery."""
