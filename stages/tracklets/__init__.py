"""From tracks to tracklets: crops and their measures, the noise filter, proposals to merge."""
