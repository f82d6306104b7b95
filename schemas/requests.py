"""Requests to models as a brief: lines `Name: value`, which programs can parse, too.

A request (`ChatRequest`) has instructions in `prompt`, and the brief in its `subject`. For pairs of
Chinese and English texts (purpose `write_sign_pairs`) it is, for example::

    Pairs: 20
    Taken: 出口 = Exit

`Pairs` (the most pairs wanted) occurs once, `Taken` (an existing pair) any number of times. The
answer is one JSON object, with a value of `SignCategory` as `kind`:
`{"pairs": [{"kind": "…", "chinese": "…", "english": "…"}, …]}`.
"""

from enum import StrEnum
from typing import Any, Self, get_origin

from pydantic import Field, field_validator

from loupe.schemas.base import IF_KNOWN, EntityRecord, Record
from loupe.schemas.recos import CaptionVerdict
from loupe.schemas.taxonomy import DifferenceType, RetrievalTask


class Brief(Record):
    """A brief for a model, as values.

    Each field has a line with its title, in the order of the fields. A field that is a tuple has a
    line for each of its values; one that is None has none.
    """

    def text(self) -> str:
        """Return the brief as lines, with single spaces within values."""
        lines = []
        for name, field in type(self).model_fields.items():
            for value in _values(getattr(self, name)):
                words = str(value).split()
                lines.append(f"{field.title}: {' '.join(words)}")
        return "\n".join(lines)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the lines that `text` returned."""
        fields = {field.title: name for name, field in cls.model_fields.items()}
        values: dict[str, Any] = {one: [] for one in fields.values() if cls._repeats(one)}
        for line in text.split("\n"):
            title, _, value = line.partition(": ")
            field = fields[title]
            if cls._repeats(field):
                values[field].append(value)
            else:
                values[field] = value
        return cls.model_validate(values)

    @classmethod
    def _repeats(cls, field: str) -> bool:
        return get_origin(cls.model_fields[field].annotation) is tuple


def _values(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)


CAPTION_PURPOSE = "caption_image"
FURTHER_PURPOSE = "further_captions"
"""The stage of captions in the place of those that were not accepted."""
REVISION_PURPOSE = "revise_caption"

CAPTIONS_FIELD = "captions"
CAPTION_FIELD = "caption"


CAPTIONS_OF_AN_IMAGE = 5


class Direction(StrEnum):
    """The direction in which a caption is to change."""

    LESS_DETAIL = "less detail"
    MORE_DETAIL = "more detail"

    @classmethod
    def after(cls, verdict: CaptionVerdict) -> "Direction":
        """Return the direction for a caption with this verdict, which did not pass."""
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
        rejected: earlier captions that people, or a check of their language, did not accept.
        taken: other captions of the image, from which the new one must differ.
    """

    task: RetrievalTask = Field(title="Task")
    count: int = Field(default=CAPTIONS_OF_AN_IMAGE, ge=1, title="Captions")
    facts: tuple[str, ...] = Field(default=(), title="Fact")
    caption: str | None = Field(default=None, title="Caption to replace")
    direction: Direction | None = Field(default=None, title="Direction")
    too_detailed: tuple[str, ...] = Field(default=(), title="Tried, too detailed")
    too_general: tuple[str, ...] = Field(default=(), title="Tried, too general")
    rejected: tuple[str, ...] = Field(default=(), title="Tried, not accepted")
    taken: tuple[str, ...] = Field(default=(), title="Taken")


CONFUSION_PURPOSE = "confuse_caption"
CONFUSION_FIELD = CAPTION_FIELD


class ConfusionBrief(Brief):
    """A brief for a confusing caption; the module describes the lines.

    Attributes:
        task: task of the captions.
        caption: t, whose wording is kept as far as x′ permits.
        facts: short true statements about x′, most important first.
        tried: earlier confusing captions for t that were not accepted.
        taken: other captions of x′.
    """

    task: RetrievalTask = Field(title="Task")
    caption: str = Field(min_length=1, title="Caption to confuse with")
    facts: tuple[str, ...] = Field(default=(), title="Fact")
    tried: tuple[str, ...] = Field(default=(), title="Tried, not accepted")
    taken: tuple[str, ...] = Field(default=(), title="Taken")


STRATEGY_PURPOSE = "propose_strategies"
REPAIR_PURPOSE = "repair_strategies"

STRATEGIES_FIELD = "strategies"
DETAIL_FIELD = "detail"
TYPE_FIELD = "type"
PLAN_FIELD = "plan"
INSTRUCTION_FIELD = "instruction"

MOST_STRATEGIES = 4
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

    count: int = Field(default=MOST_STRATEGIES, ge=1, title="Strategies")
    caption: str = Field(min_length=1, title="Caption")
    facts: tuple[str, ...] = Field(default=(), title="Fact")


class ProposedStrategy(Record):
    """A strategy proposed by a model; see `loupe.schemas.proposals.Strategy` for the fields."""

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
        second_language: language of captions in addition to English; None for none.
        differences: type of difference and plan of each image after the anchor; empty if the model
            has to find them, as in the paper.
    """

    images: int = Field(ge=1, title="Images")
    caption: str = Field(min_length=1, title="Caption")
    second_language: str | None = Field(
        default=None, pattern=r"^[a-z]{2}$", title="Second language"
    )
    differences: tuple[str, ...] = Field(title="Difference")


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

    count: int = Field(default=MOST_PAIRS, ge=1, le=MOST_PAIRS, title="Pairs")
    taken: tuple[str, ...] = Field(default=(), title="Taken")
