"""What plugins build on: formats and labelling pages."""

from loupe.annotate.interfaces.own_pages import OwnPage as Page
from loupe.sources.annotations import Importer as Format

__all__ = ["Format", "Page"]
