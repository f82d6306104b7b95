"""What an edit changed, whether that is what was wanted, and how people are shown it (CCD)."""
