"""What tells captions apart, as marks in their text."""

import re
from collections.abc import Sequence
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
    words = [content_words(caption) for caption in captions]
    return [
        _marked(caption, words[:position] + words[position + 1 :])
        for position, caption in enumerate(captions)
    ]


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


def _marked(caption: str, others: Sequence[frozenset[str]]) -> str:
    comparisons = [match.span() for match in _COMPARISON.finditer(caption)]
    spans = [(start, end, "compares") for start, end in comparisons]
    for match in _WORD.finditer(caption):
        kind = _kind(match.group().casefold(), others)
        if kind and not any(start <= match.start() < end for start, end in comparisons):
            spans.append((*match.span(), kind))
    pieces, position = [], 0
    for start, end, kind in sorted(spans):
        pieces.append(escape(caption[position:start]))
        pieces.append(f'<mark class="loupe-{kind}">{escape(caption[start:end])}</mark>')
        position = end
    return "".join(pieces) + escape(caption[position:])


def _kind(word: str, others: Sequence[frozenset[str]]) -> str | None:
    """How well a word tells its caption from the others; None where it does not."""
    having = sum(word in words for words in others)
    if word in _FUNCTION_WORDS or having == len(others):
        return None
    return "shared" if having else "own"
