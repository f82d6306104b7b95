"""Pairs of Chinese and English texts, and how a model is asked for more of them.

A request (`ChatRequest`) has no image, instructions in `prompt`, and in `subject` a brief: one
statement a line, `Name: value`, in the manner of `schemas.requests`::

    Pairs: 20
    Taken: 出口 = Exit

`Pairs` (how many are wanted at most) stands once, `Taken`, of pairs that there are already, any
number of times. The request's `purpose` is `write_sign_pairs`; the answer is one JSON object:
`{"pairs": [{"kind": "…", "chinese": "…", "english": "…"}, …]}`, in which `kind` is a value of
`SignCategory`.
"""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field, field_validator

from schemas.base import EntityRecord, Record
from schemas.requests import Brief

SIGN_PAIRS_PURPOSE = "write_sign_pairs"
PAIRS_FIELD = "pairs"
KIND_FIELD = "kind"
CHINESE_FIELD = "chinese"
ENGLISH_FIELD = "english"
MOST_CHINESE, MOST_ENGLISH = 14, 48
"""The longest texts, in characters."""
MOST_PAIRS = 20
"""The most pairs that are asked for at once."""


class SignCategory(StrEnum):
    """Where a text stands, which decides how it may look."""

    ROAD = "road"
    TRANSPORT = "transport"
    SHOP = "shop"
    DOOR = "door"
    WARNING = "warning"
    NOTICE = "notice"
    MENU = "menu"


class SignPair(Record):
    """The same text in simplified Chinese and in English; short, as it must fit on a sign.

    `model_call` is the key of the call in which a model wrote the pair, so that the translation is
    its word; None where people wrote it.
    """

    category: SignCategory
    chinese: str = Field(min_length=1, max_length=MOST_CHINESE)
    english: str = Field(min_length=1, max_length=MOST_ENGLISH)
    model_call: str | None = Field(default=None, exclude_if=lambda call: call is None)

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


class WrittenSignPair(EntityRecord):
    """A pair that a model wrote, and nobody has read; `author` is the model."""

    kind: ClassVar[str] = "sign_pair"
    pair: SignPair
    author: str


class SignPairsBrief(Brief):
    """What pairs are to be; see the module for the lines.

    Attributes:
        count: the most that are wanted.
        taken: pairs that there are, each as `Chinese = English`.
    """

    called = "sign pairs brief"
    lines: ClassVar = {"Pairs": "count", "Taken": "taken"}

    count: int = Field(default=MOST_PAIRS, ge=1, le=MOST_PAIRS)
    taken: tuple[str, ...] = ()
