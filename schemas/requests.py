"""Requests to models as a brief: lines `Name: value`, which programs can parse, too.

A request (`ChatRequest`) has instructions in `prompt`, and the brief in its `subject`. For pairs of
Chinese and English texts (purpose `write_sign_pairs`) it is, for example::

    Pairs: 20
    Taken: 出口 = Exit

`Pairs` (the most pairs wanted) occurs once, `Taken` (an existing pair) any number of times. The
answer is one JSON object, with a value of `SignCategory` as `kind`:
`{"pairs": [{"kind": "…", "chinese": "…", "english": "…"}, …]}`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self, get_origin

from pydantic import Field, ValidationError, field_validator, model_validator

from schemas.base import IF_KNOWN, EntityRecord, Record
from schemas.errors import FormatError
from schemas.recos import CaptionVerdict
from schemas.taxonomy import DifferenceType, RetrievalTask


class Brief(Record):
    """A brief for a model, as values.

    Attributes:
        called: name of this kind of brief in messages.
        lines: the field of each line's name, in the order of the lines. A field that is a tuple has
            a line for each of its values; one that is None has none.
    """

    called: ClassVar[str]
    lines: ClassVar[Mapping[str, str]]

    def text(self) -> str:
        """Return the brief as lines, with single spaces within values."""
        return "\n".join(
            f"{name}: {' '.join(str(value).split())}"
            for name, field in self.lines.items()
            for value in _values(getattr(self, field))
        )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a brief from lines in any order.

        Raises:
            FormatError: a line is malformed, repeated or missing.
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
_FACT = "Fact"
CAPTION_TO_REPLACE = "Caption to replace"
DIRECTION = "Direction"
_TOO_DETAILED = "Tried, too detailed"
_TOO_GENERAL = "Tried, too general"
TAKEN = "Taken"

CAPTIONS_OF_AN_IMAGE = 5


class Direction(StrEnum):
    """The direction in which a caption is to change."""

    LESS_DETAIL = "less detail"
    MORE_DETAIL = "more detail"

    @classmethod
    def after(cls, verdict: CaptionVerdict) -> "Direction":
        """Return the direction for a caption with this verdict.

        Raises:
            ValueError: the caption passed.
        """
        if verdict is CaptionVerdict.PASS:
            raise ValueError("a caption that passed is not rewritten")
        over = verdict is CaptionVerdict.OVER_DETAILED
        return cls.LESS_DETAIL if over else cls.MORE_DETAIL


class CaptionBrief(Brief):
    """A brief for captions; the module describes the lines.

    Attributes:
        task: task of the captions.
        count: number of captions wanted.
        facts: short true statements about the image, most important first.
        caption: caption to replace.
        direction: how the new caption should differ from it.
        too_detailed: earlier captions in the same position that were too detailed, oldest first.
        too_general: earlier captions that were too general.
        taken: other captions of the image, from which the new one must differ.
    """

    called = "caption brief"
    lines: ClassVar = {
        TASK: "task",
        CAPTIONS: "count",
        _FACT: "facts",
        CAPTION_TO_REPLACE: "caption",
        DIRECTION: "direction",
        _TOO_DETAILED: "too_detailed",
        _TOO_GENERAL: "too_general",
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
            raise ValueError(f"{CAPTION_TO_REPLACE!r} and {DIRECTION!r} must be given together")
        return self


CONFUSION_PURPOSE = "confuse_caption"
CONFUSION_FIELD = CAPTION_FIELD

CAPTION_TO_CONFUSE_WITH = "Caption to confuse with"


class ConfusionBrief(Brief):
    """A brief for a confusing caption; the module describes the lines.

    Attributes:
        task: task of the captions.
        caption: t, whose wording is kept as far as x′ permits.
        facts: short true statements about x′, most important first.
    """

    called = "confusion brief"
    lines: ClassVar = {TASK: "task", CAPTION_TO_CONFUSE_WITH: "caption", _FACT: "facts"}

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

_MOST_STRATEGIES = 4
MOST_INSTRUCTION_WORDS = 100
"""The longest instruction that an editing model is given (CCD, step 2)."""

MOST_CHARACTERS = {
    DETAIL_FIELD: 300,
    PLAN_FIELD: 400,
    CAPTION_FIELD: 400,
    INSTRUCTION_FIELD: 1500,
}
"""The maximum length of each field, in characters."""


class StrategyBrief(Brief):
    """A brief for strategies; the module describes the lines.

    Attributes:
        count: the most strategies wanted.
        caption: caption of the anchor.
        facts: short true statements about the anchor, most important first.
    """

    called = "strategy brief"
    lines: ClassVar = {"Strategies": "count", "Caption": "caption", "Fact": "facts"}

    count: int = Field(default=_MOST_STRATEGIES, ge=1)
    caption: str = Field(min_length=1)
    facts: tuple[str, ...] = ()


class ProposedStrategy(Record):
    """A strategy proposed by a model; see `schemas.proposals.Strategy` for the fields."""

    detail: str
    difference: DifferenceType
    plan: str
    contrastive_caption: str
    editing_instruction: str


REFINEMENT_PURPOSE = "refine_captions"
REFINEMENT_REQUEST_REPAIR_PURPOSE = "repair_captions"

TRANSLATIONS_FIELD = "translations"

REFINEMENT_REQUEST_MOST_CHARACTERS = 600
"""The maximum length of a caption in characters; 60 words are about 360."""


class RefinementBrief(Brief):
    """A brief for fine captions; the module describes the lines.

    Attributes:
        images: number of images including the anchor.
        caption: coarse caption of the anchor.
        differences: type of difference and plan of each image after the anchor; empty if the model
            has to find them, as in the paper.
        second_language: language of captions in addition to English; None for none.
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


SIGN_PAIRS_PURPOSE = "write_sign_pairs"
PAIRS_FIELD = "pairs"
KIND_FIELD = "kind"
CHINESE_FIELD = "chinese"
ENGLISH_FIELD = "english"
MOST_CHINESE, MOST_ENGLISH = 14, 48
"""The maximum length of the texts, in characters."""
MOST_PAIRS = 20
"""The most pairs of one request."""


class SignCategory(StrEnum):
    """The place of a text, which determines its look."""

    ROAD = "road"
    TRANSPORT = "transport"
    SHOP = "shop"
    DOOR = "door"
    WARNING = "warning"
    NOTICE = "notice"
    MENU = "menu"


class SignPair(Record):
    """The same text in simplified Chinese and in English; short, as it must fit on a sign.

    `model_call` is the key of the call in which a model wrote and translated the pair; None if
    people wrote it.
    """

    category: SignCategory
    chinese: str = Field(min_length=1, max_length=MOST_CHINESE)
    english: str = Field(min_length=1, max_length=MOST_ENGLISH)
    model_call: str | None = IF_KNOWN

    @field_validator("chinese")
    @classmethod
    def _is_chinese(cls, text: str) -> str:
        if not all("\u4e00" <= letter <= "\u9fff" for letter in text):
            raise ValueError(f"wanted Chinese characters only, got {text!r}")
        return text

    @field_validator("english")
    @classmethod
    def _is_english(cls, text: str) -> str:
        if text != text.strip() or not all(" " <= letter < "\u0180" for letter in text):
            raise ValueError(f"wanted one line of Latin letters, got {text!r}")
        return text


class WrittenSignPair(EntityRecord, kind="sign_pair"):
    """A pair written by a model and not reviewed; `author` is the model."""

    pair: SignPair
    author: str


class SignPairsBrief(Brief):
    """A brief for pairs; the module describes the lines.

    Attributes:
        count: the most pairs wanted.
        taken: existing pairs, each as `Chinese = English`.
    """

    called = "sign pairs brief"
    lines: ClassVar = {"Pairs": "count", "Taken": "taken"}

    count: int = Field(default=MOST_PAIRS, ge=1, le=MOST_PAIRS)
    taken: tuple[str, ...] = ()
