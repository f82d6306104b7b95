"""Labelling pages of plugins."""

from loupe.annotate.interfaces.page import Interface as Page

__all__ = ["Page"]
