"""The phrases of `phrases.toml`: by which a text shows that it is no description."""

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from loupe.checks.language import MARKS, is_written_without_spaces

_LETTER = rf"[\w{MARKS}]"
_WITHOUT_BORDERS = "ar"
"""Languages that write «and» and «the» in one word with what follows."""
_STEM = 5  # letters


def phrases_of(kind: str, language: str) -> tuple[str, ...]:
    """Return the phrases of a kind, as they are in the file."""
    listed = _tables()[kind].get(language, "")
    return tuple(one for one in listed.split(", ") if one)


def words_of_kind(kind: str, language: str) -> frozenset[str]:
    """Return the words of a kind in which all phrases are single words."""
    return frozenset(phrases_of(kind, language))


def find_phrase(kind: str, language: str, text: str, like: str = "") -> str | None:
    """Return the first phrase of a kind in `text` that `like` lacks, in any form of its words."""
    pattern = _pattern(kind, language)
    if pattern is None:
        return None
    known = {match.group().casefold()[:_STEM] for match in pattern.finditer(like)}
    for match in pattern.finditer(text):
        if match.group().casefold()[:_STEM] not in known:
            return match.group().strip()
    return None


def begins_with(kind: str, language: str, text: str) -> str | None:
    """Return the phrase of a kind by which a text begins."""
    pattern = _pattern(kind, language)
    match = pattern.match(text) if pattern is not None else None
    return match.group().strip() if match else None


def ends_with(kind: str, language: str, text: str) -> str | None:
    """Return the phrase of a kind by which a text ends."""
    pattern = _ending(kind, language)
    match = pattern.search(text) if pattern is not None else None
    return match.group().strip() if match else None


@cache
def _tables() -> dict[str, dict[str, str]]:
    text = files("loupe.checks").joinpath("phrases.toml").read_text("utf-8")
    return tomllib.loads(unicodedata.normalize("NFC", text))


@cache
def _pattern(kind: str, language: str) -> re.Pattern[str] | None:
    return _compiled(kind, language, "")


@cache
def _ending(kind: str, language: str) -> re.Pattern[str] | None:
    return _compiled(kind, language, "$")


def _compiled(kind: str, language: str, end: str) -> re.Pattern[str] | None:
    found = "|".join(_expressions(phrases_of(kind, language)))
    if not found:
        return None
    if is_written_without_spaces(language) or language == _WITHOUT_BORDERS:
        before = after = ""
    else:
        before, after = rf"(?<!{_LETTER})(?<!{_LETTER}[-'])", rf"(?![{MARKS}\w]|-\w)"
    return re.compile(rf"{before}(?:{found}){after}{end}", re.IGNORECASE)


def _expressions(phrases: tuple[str, ...]) -> Iterator[str]:
    for phrase in sorted(phrases, key=len, reverse=True):
        yield re.sub(rf"(?<={_LETTER})\*", lambda _: f"{_LETTER}*", phrase)
