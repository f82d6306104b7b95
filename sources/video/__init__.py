"""Videos: found in folders and lists, opened with care, decoded frame by frame."""
