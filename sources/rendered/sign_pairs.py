"""Pairs of Chinese and English texts of signs, menus and notices."""

import csv
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from importlib import resources

from pydantic import Field, field_validator

from schemas.base import Record
from schemas.errors import FormatError, UsageError

_FILE = "sign_pairs.tsv"
_MOST_CHINESE, _MOST_ENGLISH = 14, 48


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
    """The same text in simplified Chinese and in English; short, as it must fit on a sign."""

    category: SignCategory
    chinese: str = Field(min_length=1, max_length=_MOST_CHINESE)
    english: str = Field(min_length=1, max_length=_MOST_ENGLISH)

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


@cache
def shipped_pairs() -> tuple[SignPair, ...]:
    """The pairs that come with the package, over two hundred, in a fixed order."""
    text = resources.files("sources.rendered").joinpath(_FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return checked_pairs(SignPair.model_validate(row) for row in rows)


def checked_pairs(pairs: Iterable[SignPair]) -> tuple[SignPair, ...]:
    """The pairs as they are, if no text has two translations.

    Raises:
        FormatError: a text stands twice.
        UsageError: there are no pairs.
    """
    kept = tuple(pairs)
    if not kept:
        raise UsageError("there are no pairs of texts to draw from, wanted at least one")
    for side in ("chinese", "english"):
        _refuse_twice([getattr(pair, side).casefold() for pair in kept])
    return kept


def _refuse_twice(texts: Sequence[str]) -> None:
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise FormatError(f"the text {text!r} stands in two pairs, wanted one translation")
        seen.add(text)
