"""Releases on the Hugging Face Hub."""
