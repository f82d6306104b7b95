"""Words and phrases of captions: whether captions differ, and whether they speak of other images.

Pages mark them and stages judge by them; the words and phrases are in `caption_contrast.toml`.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import permutations
from string import ascii_uppercase
from typing import NamedTuple

from loupe.schemas.taxonomy import DifferenceType

_ORDERED_TYPES = frozenset((DifferenceType.ENTITY_RELATION, DifferenceType.EVENT_ATTRIBUTE))
"""Types in which the order of words, or other prepositions, change the meaning."""

WORD = re.compile(r"\w+(?:['’-]\w+)*")
QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|‘[^’]*’|(?<!\w)'[^']*'(?!\w)")


class PhraseKind(StrEnum):
    """How a phrase refers to something that is not shown."""

    OTHER_IMAGE = "speaks of another image"
    COMPARISON = "compares with what is not shown"
    ABSENCE = "names what is not there"


_PHRASES = {
    PhraseKind.OTHER_IMAGE: "other_images",
    PhraseKind.COMPARISON: "comparisons",
    PhraseKind.ABSENCE: "absences",
}
"""The phrases of each kind in the data; of overlapping phrases the first counts."""


class Phrase(NamedTuple):
    """A phrase of a text, from `start` to `end` (exclusive), in characters."""

    kind: PhraseKind
    start: int
    end: int
    text: str


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text, folded, without function words."""
    return frozenset(_telling_words(text, relations=False))


def indistinct(
    captions: Sequence[str], differences: Sequence[DifferenceType | None] | None = None
) -> list[list[int]]:
    """Return for each caption the positions of captions from which it is not distinct.

    A caption differs from another by a content word that the other lacks or has less often («a
    black cup beside a black box» is not «a black cup beside a blue box»). For images that differ
    from the anchor by a relation or by roles, the order of words and prepositions count, too: «the
    dog chases the cat» is not «the cat chases the dog».

    Args:
        captions: one of each image.
        differences: the difference of each image from the anchor; None for the anchor.
    """
    kinds = differences or [None] * len(captions)
    alike: list[list[int]] = [[] for _ in captions]
    for position, other in permutations(range(len(captions)), 2):
        in_order = not _ORDERED_TYPES.isdisjoint((kinds[position], kinds[other]))
        if not _is_distinct(captions[position], captions[other], in_order=in_order):
            alike[position].append(other)
    return alike


def caption_name(row: int, column: int) -> str:
    """Return a caption's name on the page of a group: its image's letter and its row's number."""
    return f"{image_letter(column)}{row + 1}"


def image_letter(position: int) -> str:
    """Return an image's name on the page of a group: A, B and so on, AA after Z."""
    before, last = divmod(position, len(ascii_uppercase))
    return (image_letter(before - 1) if before else "") + ascii_uppercase[last]


def phrases(text: str) -> list[Phrase]:
    """Return the phrases of a text about what is not shown, in order and not nested.

    Text in quotation marks is quoted from the image and ignored, and so are signs without them («a
    no parking sign»).
    """
    plain = QUOTED.sub(lambda match: " " * len(match.group()), text)
    plain = _pattern("harmless").sub(lambda match: " " * len(match.group()), plain)
    found: list[Phrase] = []
    for kind, name in _PHRASES.items():
        for match in _pattern(name).finditer(plain):
            if not any(one.start < match.end() and match.start() < one.end for one in found):
                found.append(Phrase(kind, *match.span(), text[slice(*match.span())]))
    return sorted(found, key=lambda one: one.start)


def _is_distinct(caption: str, other: str, *, in_order: bool) -> bool:
    ours, theirs = (_telling_words(text, relations=in_order) for text in (caption, other))
    if not in_order:
        return not Counter(ours) <= Counter(theirs)
    rest = iter(theirs)
    return not all(word in rest for word in ours)  # a subsequence has no new content


def _telling_words(text: str, *, relations: bool) -> list[str]:
    left_out = _words("function_words") - (_words("relation_words") if relations else frozenset())
    words = (word.casefold() for word in WORD.findall(text))
    return [word for word in words if word not in left_out]


@cache
def _data() -> dict[str, str]:
    text = files("loupe.schemas").joinpath("caption_contrast.toml").read_text(encoding="utf-8")
    return {name: str(value) for name, value in tomllib.loads(text).items()}


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(_data()[name].split())


@cache
def _pattern(name: str) -> re.Pattern[str]:
    lines = [line.strip().replace(" ", r"\s+") for line in _data()[name].strip().splitlines()]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(lines)})(?![\w-])", re.IGNORECASE)
