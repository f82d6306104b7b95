"""Images whose truth is known by construction: calculations, programs, and signs to translate."""

from schemas.sign_pairs import SignCategory, SignPair
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
from sources.rendered.sandbox import Limits, Outcome, ProgramResult, run_program
from sources.rendered.signs import checked_pairs, shipped_pairs
from sources.rendered.task_image import GENERATOR, RenderedImage

__all__ = [
    "GENERATOR",
    "RENDERED_TASKS",
    "TRUTHS_FILE",
    "CollectionEntry",
    "FontShelf",
    "Limits",
    "Outcome",
    "ProgramResult",
    "RenderOptions",
    "RenderedImage",
    "SignCategory",
    "SignPair",
    "checked_pairs",
    "read_rendered_collection",
    "render_tasks",
    "run_program",
    "shipped_pairs",
    "task_refusal",
    "write_rendered_collection",
]
