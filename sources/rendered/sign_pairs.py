"""Pairs of Chinese and English texts of signs, menus and notices."""

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

from schemas.errors import FormatError, UsageError
from schemas.sign_pairs import SignPair

_FILE = "sign_pairs.tsv"


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
