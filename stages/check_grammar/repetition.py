"""Words that stand twice in a row. Harper looks only for those of grammar («the the»)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

RULE = "RepeatedWord"

_TWICE = re.compile(r"\b([^\W\d_]{3,})[ \t]+\1\b", re.IGNORECASE)
_RIGHT = frozenset(("had", "that"))


class Repetition(NamedTuple):
    """Where a word and its repetition stand, and the word."""

    start: int
    end: int
    word: str


def repetitions(text: str) -> Iterator[Repetition]:
    """The words of a text that stand twice in a row, but for those that may."""
    for match in _TWICE.finditer(text):
        if match.group(1).casefold() not in _RIGHT:
            yield Repetition(match.start(), match.end(), match.group(1))
