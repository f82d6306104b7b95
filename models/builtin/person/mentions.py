"""Cuts a text into mentions: words and phrases with all meanings that the lexicon knows."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from models.builtin.person.lexicon import Lexicon, Meaning, Tag
from schemas.faithfulness import Span

_WORD = re.compile(
    r"(?=[^\W_]*+['’]t\b)[^\W\d_]+(?=n['’]t\b)|n['’]t\b"  # «does» and «n't»
    r"|[^\W_]+|['’](?:s|re|ve|d|ll|m)\b"
    r"|[^\w\s-]|(?<!\S)-|-(?!\S)"  # any sign but the hyphen of «T-shirt»
)
_COMMA, _STOP, _OTHER = (Meaning({tag: ""}) for tag in (Tag.COMMA, Tag.STOP, Tag.OTHER))
_PUNCTUATION = dict.fromkeys(',()–—"“”[]/*-', _COMMA) | dict.fromkeys(".;:!?", _STOP)


class Mention(NamedTuple):
    """A word or phrase of the text; `span` is in characters, `phrase` in lower case."""

    phrase: str
    span: Span
    tags: frozenset[Tag]
    values: Mapping[Tag, str]

    def has(self, *tags: Tag) -> bool:
        """Whether one of the meanings is one of `tags`."""
        return not self.tags.isdisjoint(tags)

    def among(self, tags: frozenset[Tag]) -> bool:
        """Whether one of the meanings is in the set `tags`."""
        return not self.tags.isdisjoint(tags)

    def value(self, tag: Tag) -> str:
        """The canonical name under `tag`; "" where it has none."""
        return self.values.get(tag, "")


NOTHING = Mention("", (0, 0), frozenset(), {})
"""What stands before the first mention and after the last."""


def find_mentions(text: str, lexicon: Lexicon) -> list[Mention]:
    """The mentions of `text` in order, longest phrases first; unknown words are `OTHER`."""
    words: list[str] = []
    spans: list[Span] = []
    for match in _WORD.finditer(text):
        words.append(match[0].lower().replace("’", "'"))
        spans.append(match.span())
    mentions: list[Mention] = []
    position = 0
    while position < len(words):
        name, length, meaning = _longest_at(words, position, lexicon)
        span = (spans[position][0], spans[position + length - 1][1])
        mentions.append(Mention(name, span, meaning.tags, meaning.values))
        position += length
    return mentions


def _longest_at(words: list[str], start: int, lexicon: Lexicon) -> tuple[str, int, Meaning]:
    """(phrase, its length in words, meaning) of the longest known phrase from `start` on."""
    for length in lexicon.lengths.get(words[start], ()):
        phrase = tuple(words[start : start + length])
        meaning = lexicon.meanings.get(phrase)
        if meaning is not None:
            return " ".join(phrase), len(phrase), meaning
    return words[start], 1, _PUNCTUATION.get(words[start], _OTHER)
