"""What a model is told when it is asked for captions of an image, as lines that a program can read.

A request for captions (`ChatRequest`) has the image in `images`, instructions in `prompt`, and in
`subject` a brief: one statement a line, `Name: value`, in this order. The prompt quotes the same
lines, so that models that read English and built-in ones that read only `subject` know the same::

    Task: color
    Captions: 5
    Fact: The car is red.
    Fact: The bicycle is blue.

A brief that asks for one caption anew, because of how well the first told its image from others,
has these lines, too::

    Task: color
    Captions: 1
    Fact: The car is red.
    Caption to replace: A car stands on a street.
    Direction: more detail
    Tried, too detailed: A red car with a dent stands left of a blue bicycle.
    Tried, too general: A car.
    Taken: A bicycle stands to the right of a car.

`Task` (a value of `RetrievalTask`) and `Captions` (how many are wanted) stand once; `Fact`, of what
is known to be true, the most important first, both kinds of `Tried`, and `Taken`, of what other
captions of the image say, any number of times;
`Caption to replace` and `Direction` (`less detail` or `more detail`) together or not at all. Values
are on one line. `CaptionBrief.text` writes a brief and `CaptionBrief.parse` reads it.

The answer is one JSON object: `{"captions": ["…", …]}` with as many captions as are wanted where a
request is the first (`purpose` is `caption_image`), `{"caption": "…"}` where a caption is to be
replaced (`purpose` is `revise_caption`).
"""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field, model_validator

from schemas.briefs import Brief
from schemas.recos import CaptionVerdict
from schemas.retrieval_task import RetrievalTask

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
            raise ValueError("a caption that passed is not written anew")
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
