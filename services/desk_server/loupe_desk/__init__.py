"""Extensions of our Label Studio: mutually isolated workspaces, and their accounts.

These modules run inside Label Studio's own environment, never in ours, and import none of our code.
"""
