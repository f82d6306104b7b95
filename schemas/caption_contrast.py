"""What tells captions apart, and phrases by which a caption speaks of what nobody sees in it.

Pages mark it, stages judge by it; the words and phrases are data, `caption_contrast.toml`.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from string import ascii_uppercase
from typing import NamedTuple

from schemas.taxonomy import DifferenceType

ORDERED_TYPES = frozenset((DifferenceType.ENTITY_RELATION, DifferenceType.EVENT_ATTRIBUTE))
"""Types in which the same words in another order, or other prepositions, say something else."""

WORD = re.compile(r"\w+(?:['’-]\w+)*")
QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|«[^»]*»|‘[^’]*’|(?<!\w)'[^']*'(?!\w)")


class PhraseKind(StrEnum):
    """How a phrase speaks of what is not to be seen."""

    OTHER_IMAGE = "speaks of another image"
    COMPARISON = "compares with what is not shown"
    ABSENCE = "names what is not there"


class Phrase(NamedTuple):
    """A phrase of a text, from `start` to `end` (excluded), in characters."""

    kind: PhraseKind
    start: int
    end: int
    text: str


def content_words(text: str, *, relations: bool = False) -> frozenset[str]:
    """The words of a text, folded, without those that only hold it together.

    With `relations`, prepositions of place are among them.
    """
    return frozenset(_telling_words(text, relations))


def indistinct(
    captions: Sequence[str], differences: Sequence[DifferenceType | None] | None = None
) -> list[list[int]]:
    """For each caption the positions of those from which nothing that it says tells it.

    A caption differs from another by a content word that the other lacks or says less often («a
    black cup beside a black box» is not «a black cup beside a blue box»). Between images of which
    one differs from the anchor by a relation or by who does what, the order of words and
    prepositions tell, too: «the dog chases the cat» is not «the cat chases the dog».

    Args:
        captions: one of each image.
        differences: by which each image differs from the anchor; None for the anchor.
    """
    kinds = differences or [None] * len(captions)
    return [
        [
            other
            for other in range(len(captions))
            if other != position
            and not _is_distinct(
                captions[position],
                captions[other],
                in_order=not ORDERED_TYPES.isdisjoint((kinds[position], kinds[other])),
            )
        ]
        for position in range(len(captions))
    ]


def caption_name(row: int, column: int) -> str:
    """What the page of a group calls a caption: the letter of its image, the number of its row."""
    return f"{image_letter(column)}{row + 1}"


def image_letter(position: int) -> str:
    """What the page of a group calls an image: A, B and so on, AA after Z."""
    before, last = divmod(position, len(ascii_uppercase))
    return (image_letter(before - 1) if before else "") + ascii_uppercase[last]


def phrases(text: str) -> list[Phrase]:
    """The phrases of a text that speak of what is not to be seen, in order, none within another.

    What stands between quotation marks is quoted from the image; so are signs («a no parking
    sign») without them.
    """
    plain = QUOTED.sub(lambda match: " " * len(match.group()), text)
    plain = _harmless().sub(lambda match: " " * len(match.group()), plain)
    found: list[Phrase] = []
    for kind, pattern in _patterns():
        for match in pattern.finditer(plain):
            if not any(one.start < match.end() and match.start() < one.end for one in found):
                found.append(Phrase(kind, *match.span(), text[slice(*match.span())]))
    return sorted(found, key=lambda one: one.start)


def _is_distinct(caption: str, other: str, *, in_order: bool) -> bool:
    ours, theirs = _telling_words(caption, in_order), _telling_words(other, in_order)
    if not in_order:
        return not Counter(ours) <= Counter(theirs)
    rest = iter(theirs)
    return not all(word in rest for word in ours)  # a subsequence says nothing of its own


def _telling_words(text: str, relations: bool) -> list[str]:
    left_out = _function_words() - (_relation_words() if relations else frozenset())
    words = (word.casefold() for word in WORD.findall(text))
    return [word for word in words if word not in left_out]


@cache
def _data() -> dict[str, str]:
    text = files("schemas").joinpath("caption_contrast.toml").read_text(encoding="utf-8")
    return {name: str(value) for name, value in tomllib.loads(text).items()}


@cache
def _function_words() -> frozenset[str]:
    return frozenset(_data()["function_words"].split())


@cache
def _relation_words() -> frozenset[str]:
    return frozenset(_data()["relation_words"].split())


@cache
def _patterns() -> tuple[tuple[PhraseKind, re.Pattern[str]], ...]:
    """By kind, those of a rank before them first."""
    return (
        (PhraseKind.OTHER_IMAGE, _pattern("other_images")),
        (PhraseKind.COMPARISON, _pattern("comparisons")),
        (PhraseKind.ABSENCE, _pattern("absences")),
    )


@cache
def _harmless() -> re.Pattern[str]:
    return _pattern("harmless")


def _pattern(name: str) -> re.Pattern[str]:
    lines = [line.strip().replace(" ", r"\s+") for line in _data()[name].strip().splitlines()]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(lines)})(?![\w-])", re.IGNORECASE)
