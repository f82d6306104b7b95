"""What our Label Studio runs with: workspaces that are closed to each other, and their accounts.

These modules run inside Label Studio's own environment, never in ours, and import nothing of ours.
"""
