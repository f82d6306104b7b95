"""Prompts as Markdown files with front matter, one file a prompt."""
