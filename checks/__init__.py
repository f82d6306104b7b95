"""What a text must be before it is stored: its form, its support by a source, its language."""
