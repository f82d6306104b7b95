"""From accepted tracklets to identities, the images of each, and the split that they are in."""
