"""What a model is told when it is asked for contrastive strategies, as lines a program can read.

A request for strategies (CCD, step 1) has the anchor and nothing else in `images`, instructions in
`prompt`, and in `subject` a brief: one statement a line, `Name: value`, in the manner of
`schemas.caption_request`::

    Strategies: 4
    Caption: A red car stands on a street.
    Fact: The picture is a flat drawing.

`Strategies` (how many are wanted at most) and `Caption` (of the anchor) stand once, `Fact`, of what
is known to be true of the anchor, the most important first, any number of times.

The request's `purpose` is `propose_strategies`, or `repair_strategies` where an answer was no use
and is asked for anew; the answer is one JSON object: `{"strategies": [{"detail": "…", "type": "…",
"plan": "…", "caption": "…", "instruction": "…"}, …]}`, in which `type` is a value of
`schemas.taxonomy.DifferenceType`.
"""

import math
from typing import ClassVar

from pydantic import Field, model_validator

from schemas.base import Record
from schemas.briefs import Brief
from schemas.taxonomy import DifferenceType

STRATEGY_PURPOSE = "propose_strategies"
REPAIR_PURPOSE = "repair_strategies"

STRATEGIES_FIELD = "strategies"
DETAIL_FIELD = "detail"
TYPE_FIELD = "type"
PLAN_FIELD = "plan"
CAPTION_FIELD = "caption"
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
    longest_ratio: float = Field(default=200, ge=1)

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
