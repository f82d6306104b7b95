"""What tells captions apart, as marks in their text."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_COMPARISON = re.compile(
    r"\b(?:unlike|compared (?:to|with)|instead of|no longer|"
    r"(?:first|second|third|fourth|other|previous|original) (?:image|picture|photo)s?)\b",
    re.IGNORECASE,
)
"""Phrases by which a caption speaks of another image, which nobody sees who reads it alone."""

_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a an the this that these those it its he she his her they their there and or but while as of
        in on at by to from with into onto over under up is are was were be been being has have had
        who which one some
        """,
    )
)


def marked_captions(captions: Sequence[str]) -> list[str]:
    """Each caption as HTML in which the words are marked that tell it from the others.

    Marked `loupe-own` are words of no other caption, `loupe-shared` those that only some others
    have, `loupe-compares` phrases that speak of another image. Function words tell nothing.
    """
    having = Counter(word for caption in captions for word in content_words(caption))
    return [_marked(caption, having, len(captions)) for caption in captions]


def not_told_apart(captions: Sequence[str]) -> list[list[int]]:
    """For each caption the positions of those from which none of its words tells it."""
    words = [content_words(caption) for caption in captions]
    return [
        [other for other, others in enumerate(words) if other != position and own <= others]
        for position, own in enumerate(words)
    ]


def content_words(text: str) -> frozenset[str]:
    """The words of a text, folded, without those that only hold it together."""
    return frozenset(word.casefold() for word in _WORD.findall(text)) - _FUNCTION_WORDS


def _marked(caption: str, having: Mapping[str, int], count: int) -> str:
    """The caption with its marks, where `having` of `count` captions have each content word."""
    comparisons = [match.span() for match in _COMPARISON.finditer(caption)]
    spans = [(start, end, "compares") for start, end in comparisons]
    for match in _WORD.finditer(caption):
        captions = having.get(match.group().casefold(), count)
        if captions < count and not any(start <= match.start() < end for start, end in comparisons):
            spans.append((*match.span(), "own" if captions == 1 else "shared"))
    pieces, position = [], 0
    for start, end, kind in sorted(spans):
        pieces.append(escape(caption[position:start]))
        pieces.append(f'<mark class="loupe-{kind}">{escape(caption[start:end])}</mark>')
        position = end
    return "".join(pieces) + escape(caption[position:])
