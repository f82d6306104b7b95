"""Images with known truth: calculations, programs, signs to translate, charts and flowcharts."""

from sources.rendered.collection import (
    TRUTHS_FILE,
    CollectionEntry,
    RenderOptions,
    read_rendered_collection,
    render_tasks,
    task_refusal,
    write_rendered_collection,
)
from sources.rendered.pen import GENERATOR, FontShelf, RenderedImage
from sources.rendered.sandbox import Limits
from sources.rendered.signs import checked_pairs, shipped_pairs

__all__ = [
    "GENERATOR",
    "TRUTHS_FILE",
    "CollectionEntry",
    "FontShelf",
    "Limits",
    "RenderOptions",
    "RenderedImage",
    "checked_pairs",
    "read_rendered_collection",
    "render_tasks",
    "shipped_pairs",
    "task_refusal",
    "write_rendered_collection",
]
