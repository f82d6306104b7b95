"""Searches for images: one adapter a service, and the folder that needs none."""
