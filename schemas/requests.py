"""What models are given, as lines `Name: value` that a program can read, too."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self, get_origin

from pydantic import Field, ValidationError, model_validator

from schemas.base import Record
from schemas.errors import FormatError
from schemas.recos import CaptionVerdict
from schemas.retrieval_task import RetrievalTask
from schemas.taxonomy import DifferenceType


class Brief(Record):
    """What a model is given, as values.

    Attributes:
        called: what messages call a brief of this kind.
        lines: for each name of a line its field, in the order of the lines. A field that is a tuple
            has a line for each of its values; one that is None has none.
    """

    called: ClassVar[str]
    lines: ClassVar[Mapping[str, str]]

    def text(self) -> str:
        """The brief as lines. White space within a value becomes single spaces."""
        return "\n".join(
            f"{name}: {' '.join(str(value).split())}"
            for name, field in self.lines.items()
            for value in _values(getattr(self, field))
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """The brief in such lines, which may come in any order.

        Raises:
            FormatError: a line is not of the form, stands twice, or is missing.
        """
        once: dict[str, str] = {}
        repeated: dict[str, list[str]] = {f: [] for f in cls.lines.values() if cls._repeats(f)}
        for number, line in enumerate(text.split("\n"), start=1):
            name, _, value = line.partition(": ")
            field = cls.lines.get(name)
            if field in repeated:
                repeated[field].append(value)
            elif field is not None and field not in once:
                once[field] = value
            else:
                raise FormatError(f"{cls.called}, line {number}: cannot read {line!r}")
        try:
            return cls.model_validate({**once, **repeated})
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "lines"
            raise FormatError(f"{cls.called}: {place}: {first['msg']}") from error

    @classmethod
    def _repeats(cls, field: str) -> bool:
        return get_origin(cls.model_fields[field].annotation) is tuple


def _values(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


CAPTION_PURPOSE = "caption_image"
REVISION_PURPOSE = "revise_caption"

CAPTIONS_FIELD = "captions"
CAPTION_FIELD = "caption"

TASK = "Task"
CAPTIONS = "Captions"
FACT = "Fact"
CAPTION_TO_REPLACE = "Caption to replace"
DIRECTION = "Direction"
TOO_DETAILED = "Tried, too detailed"
TOO_GENERAL = "Tried, too general"
TAKEN = "Taken"

CAPTIONS_OF_AN_IMAGE = 5


class Direction(StrEnum):
    """Which way a caption is to change."""

    LESS_DETAIL = "less detail"
    MORE_DETAIL = "more detail"

    @classmethod
    def after(cls, verdict: CaptionVerdict) -> "Direction":
        """What a caption with this verdict is to change to.

        Raises:
            ValueError: the caption passed.
        """
        if verdict is CaptionVerdict.PASS:
            raise ValueError("a caption that passed is not rewritten")
        over = verdict is CaptionVerdict.OVER_DETAILED
        return cls.LESS_DETAIL if over else cls.MORE_DETAIL


class CaptionBrief(Brief):
    """What is wanted, in values; see the module for the lines.

    Attributes:
        task: what the captions are for.
        count: how many are wanted.
        facts: short statements that are true of the image, the most important first.
        caption: the caption that is to be replaced.
        direction: how the new one is to differ from it.
        too_detailed: earlier captions, of the same place, that were too detailed; oldest first.
        too_general: those that were too general.
        taken: the other captions of the image, which the new one must differ from.
    """

    called = "caption brief"
    lines: ClassVar = {
        TASK: "task",
        CAPTIONS: "count",
        FACT: "facts",
        CAPTION_TO_REPLACE: "caption",
        DIRECTION: "direction",
        TOO_DETAILED: "too_detailed",
        TOO_GENERAL: "too_general",
        TAKEN: "taken",
    }

    task: RetrievalTask
    count: int = Field(default=CAPTIONS_OF_AN_IMAGE, ge=1)
    facts: tuple[str, ...] = ()
    caption: str | None = None
    direction: Direction | None = None
    too_detailed: tuple[str, ...] = ()
    too_general: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_both_or_none(self) -> "CaptionBrief":
        if (self.caption is None) != (self.direction is None):
            raise ValueError(f"{CAPTION_TO_REPLACE!r} and {DIRECTION!r} must stand together")
        return self


CONFUSION_PURPOSE = "confuse_caption"
CONFUSION_FIELD = CAPTION_FIELD

CAPTION_TO_CONFUSE_WITH = "Caption to confuse with"


class ConfusionBrief(Brief):
    """What a confusing caption is to be made of; see the module for the lines.

    Attributes:
        task: what the captions are for.
        caption: t, whose wording is to be kept as far as x′ allows.
        facts: short statements that are true of x′, the most important first.
    """

    called = "confusion brief"
    lines: ClassVar = {TASK: "task", CAPTION_TO_CONFUSE_WITH: "caption", FACT: "facts"}

    task: RetrievalTask
    caption: str = Field(min_length=1)
    facts: tuple[str, ...] = ()


STRATEGY_PURPOSE = "propose_strategies"
REPAIR_PURPOSE = "repair_strategies"

STRATEGIES_FIELD = "strategies"
DETAIL_FIELD = "detail"
TYPE_FIELD = "type"
PLAN_FIELD = "plan"
INSTRUCTION_FIELD = "instruction"

MOST_STRATEGIES = 4
MOST_INSTRUCTION_WORDS = 100
"""Longer instructions are not given to an editing model (CCD, step 2)."""

MOST_CHARACTERS = {
    DETAIL_FIELD: 300,
    PLAN_FIELD: 400,
    CAPTION_FIELD: 400,
    INSTRUCTION_FIELD: 1500,
}
"""The longest text that is taken in each field, in characters."""


class StrategyBrief(Brief):
    """What strategies are to be made of; see the module for the lines.

    Attributes:
        count: the most that are wanted.
        caption: of the anchor.
        facts: short statements that are true of the anchor, the most important first.
    """

    called = "strategy brief"
    lines: ClassVar = {"Strategies": "count", "Caption": "caption", "Fact": "facts"}

    count: int = Field(default=MOST_STRATEGIES, ge=1)
    caption: str = Field(min_length=1)
    facts: tuple[str, ...] = ()


_LEAST_SPAN = 2.1  # of the bounds, the most pixels to the least
_FEWEST_PATCHES = 64  # of the largest image


class ProposedStrategy(Record):
    """A strategy as a model proposed it; see `schemas.proposals.Strategy` for the fields."""

    detail: str
    difference: DifferenceType
    plan: str
    contrastive_caption: str
    editing_instruction: str


class ImageArea(Record):
    """How large images are when they are shown to a model (CCD, step 1).

    Attributes:
        side_multiple_px: both sides are multiples of this, in pixels.
        least_pixels: the fewest pixels of an image.
        most_pixels: the most.
        longest_ratio: of the longer side to the shorter; longer strips are refused.
    """

    side_multiple_px: int = Field(default=28, ge=1)
    least_pixels: int = Field(default=256 * 28 * 28, ge=1)
    most_pixels: int = Field(default=840 * 504, ge=1)
    longest_ratio: float = Field(default=200, ge=1, le=10_000)

    @model_validator(mode="after")
    def _has_room(self) -> "ImageArea":
        # Sides are rounded: up, where an image is enlarged, by at most a multiple each; down, where
        # it is made smaller, a side of two multiples loses half at most.
        multiple, least = self.side_multiple_px, self.least_pixels
        narrow, wide = math.sqrt(least / self.longest_ratio), math.sqrt(least * self.longest_ratio)
        needed = max(
            (narrow + multiple) * (wide + multiple),
            _LEAST_SPAN * least,
            _FEWEST_PATCHES * multiple**2,
            self.longest_ratio * multiple**2,
        )
        if self.most_pixels < needed:
            raise ValueError(
                f"most_pixels must be at least {math.ceil(needed)}, so that every image finds a "
                f"size between the bounds; got {self.most_pixels}"
            )
        return self


REFINEMENT_PURPOSE = "refine_captions"
REFINEMENT_REQUEST_REPAIR_PURPOSE = "repair_captions"

TRANSLATIONS_FIELD = "translations"

REFINEMENT_REQUEST_MOST_CHARACTERS = 600
"""The longest caption that is taken; 60 words are about 360."""


class RefinementBrief(Brief):
    """What fine captions are to be made of; see the module for the lines.

    Attributes:
        images: how many images there are, the anchor included.
        caption: a coarse caption of the anchor.
        differences: for each image after the anchor its type of difference and its plan; empty
            where the model has to find them, as in the paper.
        second_language: the language that captions are wanted in beside English; None for none.
    """

    called = "refinement brief"
    lines: ClassVar = {
        "Images": "images",
        "Caption": "caption",
        "Second language": "second_language",
        "Difference": "differences",
    }

    images: int = Field(ge=1)
    caption: str = Field(min_length=1)
    differences: tuple[str, ...]
    second_language: str | None = Field(default=None, pattern=r"^[a-z]{2}$")

    @model_validator(mode="after")
    def _tells_of_every_image(self) -> "RefinementBrief":
        if self.differences and len(self.differences) != self.images - 1:
            raise ValueError(
                f"{self.images} images need {self.images - 1} differences; "
                f"got {len(self.differences)}"
            )
        return self


class StyleLimits(Record):
    """How far a fine caption may be from the style of its coarse one before people are warned.

    Attributes:
        shortest_ratio: its words to those of the coarse caption, at least.
        longest_ratio: at most (the paper's captions have 2.2 and 2.6 times as many on average).
        free_words: captions of no more words are never too long.
        kept_share: the share of the coarse caption's content words that it keeps, at least.
        further_sentences: how many sentences it may have beyond those of the coarse caption.
    """

    shortest_ratio: float = Field(default=0.8, ge=0)
    longest_ratio: float = Field(default=4.0, ge=1, le=10_000)
    free_words: int = Field(default=30, ge=0)
    kept_share: float = Field(default=0.25, ge=0, le=1)
    further_sentences: int = Field(default=1, ge=0)
