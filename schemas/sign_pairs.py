"""Pairs of Chinese and English texts, and how a model is asked for more of them.

A request (`ChatRequest`) has no image. Its instructions are in `prompt`, and its `subject` is a
brief with a line `Name: value` for each statement, as in `schemas.requests`::

    Pairs: 20
    Taken: 出口 = Exit

`Pairs` (the most pairs wanted) occurs once, `Taken` (an existing pair) any number of times. The
request's `purpose` is `write_sign_pairs`. The answer is one JSON object, with a value of
`SignCategory` as `kind`: `{"pairs": [{"kind": "…", "chinese": "…", "english": "…"}, …]}`.
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
    """A pair written by a model and not reviewed; `author` is the model."""

    kind: ClassVar[str] = "sign_pair"
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
