"""What a ReCoS-style benchmark is made of: drawn truths, and verdicts on captions."""

from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import Field

from schemas.base import EntityRecord, Record
from schemas.retrieval_task import RetrievalTask


class RenderedTruth(EntityRecord):
    """What a generator drew into an image, so that its answer is known by construction.

    Attributes:
        task: what the image is for.
        generator: the code that drew it, `name@version`.
        seed: what it was drawn from.
        question: what the image asks, as it can be read from it: `3/4 + 1/8`, a program, a sign.
        answer: the right answer.
        look: how it is drawn: `paper` or `blackboard`, the font, `editor` or `slide` …
        truth: whatever else is known, as JSON: operands, the language of a program, both texts.
        facts: short English statements that are true of the image, the most important first; a
            caption may say each of them.
    """

    kind: ClassVar[str] = "rendered_truth"
    task: RetrievalTask
    generator: str
    seed: int
    question: str
    answer: str
    look: dict[str, str] = Field(default_factory=dict)
    truth: dict[str, Any] = Field(default_factory=dict)
    facts: tuple[str, ...] = Field(min_length=3)


class CaptionVerdict(StrEnum):
    """What its discriminability says of a caption (ReCoS, section 3.2)."""

    PASS = "pass"  # noqa: S105 - no password
    OVER_DETAILED = "over_detailed"
    UNDER_DETAILED = "under_detailed"


class DiscriminabilitySettings(Record):
    """When a caption passes.

    Attributes:
        k: how many images a caption is compared with.
        eta: how much of the range from 0 to log k is accepted around its middle.
        temperature: what similarities are divided by; None for one that is calibrated.
        rounds: how often a caption may be rewritten before people are asked.
    """

    k: int = Field(default=10, ge=2)
    eta: float = Field(default=0.8, gt=0, lt=1)
    temperature: float | None = Field(default=None, gt=0)
    rounds: int = Field(default=3, ge=0)


class DiscriminabilityReport(EntityRecord):
    """How well a caption tells its image from the others, and with which settings that was seen.

    `round` counts from 0, the caption as it was first written. `embedder` is `name@revision`.
    """

    kind: ClassVar[str] = "discriminability_report"
    round: int = Field(ge=0)
    dis: float
    lower: float
    upper: float
    verdict: CaptionVerdict
    k: int
    temperature: float
    embedder: str


class TaskDraw(EntityRecord):
    """The images of a source that a task begins with: how they were found, and which came out.

    `way` is `named`, `nearest` (to `query`, by `embedder`), `categories` (at random, of those that
    have one of them) or `random`; `digest` is that of the ids of the images in their order.
    """

    kind: ClassVar[str] = "task_draw"
    task: RetrievalTask
    source: str
    way: Literal["named", "nearest", "categories", "random"]
    query: str | None
    categories: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    embedder: str | None
    seed: int
    images_wanted: int
    images_drawn: int
    digest: str
