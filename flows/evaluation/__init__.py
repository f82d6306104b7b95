"""Scores of models on releases, leaderboards, and the training of CFAM."""
