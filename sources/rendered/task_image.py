"""The common output of all families of rendered tasks: an image and its truth."""

import io
from collections.abc import Callable
from typing import Any, NamedTuple

from PIL import Image
from pydantic import Field

from schemas.base import Record
from schemas.records import Rejection
from schemas.recos import RenderedTruth
from schemas.retrieval_task import RetrievalTask
from sources.demonstration.people import Chance

GENERATOR = "sources.rendered@2"
"""The drawing code and its version, which changes if the same seed draws other images."""


class RenderedImage(Record):
    """A drawn image as PNG, and its truth."""

    truth: RenderedTruth
    png: bytes = Field(repr=False)


class Draft(NamedTuple):
    """A task that was drawn at random but not yet rendered.

    Attributes:
        question: the question, unique within a draw.
        answer: the right answer; None if a program must be run to know it.
        render: returns the image and its truth, given a random generator and the seed; or why the
            task is unusable.
    """

    question: str
    answer: str | None
    render: Callable[[Chance, int], RenderedImage | Rejection]


def rendered(
    task: RetrievalTask,
    seed: int,
    picture: Image.Image,
    *,
    question: str,
    answer: str,
    look: dict[str, str],
    truth: dict[str, Any],
    facts: tuple[str, ...],
) -> RenderedImage:
    """Return an image with its truth; `facts` are the most important first."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=3)
    known = RenderedTruth(
        task=task,
        generator=GENERATOR,
        seed=seed,
        question=question,
        answer=answer,
        look=look,
        truth=truth,
        facts=facts,
    )
    return RenderedImage(truth=known, png=buffer.getvalue())


def with_article(noun: str) -> str:
    """Return `noun` with its indefinite article: `an L-shaped figure`."""
    return ("an " if noun[0] in "aeiouAEIOL" else "a ") + noun
