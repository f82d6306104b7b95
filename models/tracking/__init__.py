"""People followed through a video: detector, association, and both together."""
