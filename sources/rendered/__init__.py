"""Images with known truth: calculations, programs, signs to translate, charts and flowcharts."""

from loupe.sources.rendered.collection import (
    TRUTHS_FILE,
    CollectionEntry,
    RenderOptions,
    read_rendered_collection,
    task_refusal,
    write_rendered_collection,
)
from loupe.sources.rendered.pen import GENERATOR, FontShelf
from loupe.sources.rendered.signs import checked_pairs

__all__ = [
    "GENERATOR",
    "TRUTHS_FILE",
    "CollectionEntry",
    "FontShelf",
    "RenderOptions",
    "checked_pairs",
    "read_rendered_collection",
    "task_refusal",
    "write_rendered_collection",
]
