"""What every family of rendered tasks gives: a picture, and what is known of it."""

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
"""The code that draws, and its version: another one where the same seed gives other pictures."""


class RenderedImage(Record):
    """A drawn picture as PNG, and everything that is known of it."""

    truth: RenderedTruth
    png: bytes = Field(repr=False)


class Draft(NamedTuple):
    """A task that was drawn from chance but not yet as a picture.

    Attributes:
        question: what is asked; no two tasks of one draw ask the same.
        answer: the right answer; None where a program must be run to know it.
        render: the picture and its truth, from chance and the seed; or why the task turns out to
            be unusable.
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
    """A picture with its truth; `facts` are the most important first."""
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
    """`noun` behind its indefinite article: `an L-shaped figure`."""
    return ("an " if noun[0] in "aeiouAEIOL" else "a ") + noun
