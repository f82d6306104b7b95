"""Image searches: one adapter per service, and a search of a local folder."""
