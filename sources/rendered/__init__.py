"""Images with known truth: calculations, programs, and signs to translate."""

from sources.rendered.collection import (
    TRUTHS_FILE,
    CollectionEntry,
    read_rendered_collection,
    write_rendered_collection,
)
from sources.rendered.pen import FontShelf
from sources.rendered.rendering import (
    RENDERED_TASKS,
    RenderOptions,
    render_tasks,
    task_refusal,
)
from sources.rendered.sandbox import Limits
from sources.rendered.signs import checked_pairs, shipped_pairs
from sources.rendered.task_image import GENERATOR, RenderedImage

__all__ = [
    "GENERATOR",
    "RENDERED_TASKS",
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
