"""Follow people through a video: detector, association, and both together."""
