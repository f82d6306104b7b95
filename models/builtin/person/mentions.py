"""Cuts a text into mentions: words and phrases with all meanings that the lexicon knows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from models.builtin.person.lexicon import Lexicon, Tag, Term
from schemas.faithfulness import Span

_WORD = re.compile(r"[^\W\d_]+(?=n['’]t\b)|n['’]t\b|['’](?:s|re|ve|d|ll|m)\b|[^\W_]+|[^\w\s]")
_COMMAS = frozenset(',()–—"“”[]/*')
_STOPS = frozenset(".;:!?")


@dataclass(frozen=True)
class Mention:
    """A word or phrase of the text; `span` is in characters, `phrase` in lower case."""

    phrase: str
    span: Span
    terms: tuple[Term, ...]
    tags: frozenset[Tag] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", frozenset(term.tag for term in self.terms))

    def has(self, *tags: Tag) -> bool:
        """Whether one of the meanings is one of `tags`."""
        return not self.tags.isdisjoint(tags)

    def value(self, tag: Tag) -> str:
        """The canonical name under `tag`; "" where it has none."""
        return next((term.value for term in self.terms if term.tag is tag), "")


@dataclass(frozen=True)
class _Word:
    text: str
    span: Span


def find_mentions(text: str, lexicon: Lexicon) -> list[Mention]:
    """The mentions of `text` in order, longest phrases first; unknown words are `OTHER`."""
    words = list(_words(text))
    mentions: list[Mention] = []
    position = 0
    while position < len(words):
        mention, length = _longest_at(words, position, lexicon)
        mentions.append(mention)
        position += length
    return mentions


def _words(text: str) -> Iterator[_Word]:
    for match in _WORD.finditer(text):
        if match.group() == "-" and _joins(text, match.start()):
            continue
        yield _Word(match.group().lower().replace("’", "'"), match.span())


def _joins(text: str, position: int) -> bool:
    """Whether the hyphen at `position` stands inside a word."""
    around = text[position - 1 : position] + text[position + 1 : position + 2]
    return len(around) == 2 and not any(character.isspace() for character in around)


def _longest_at(words: list[_Word], start: int, lexicon: Lexicon) -> tuple[Mention, int]:
    for length in range(min(lexicon.longest, len(words) - start), 0, -1):
        phrase = tuple(word.text for word in words[start : start + length])
        if terms := lexicon.terms.get(phrase):
            span = (words[start].span[0], words[start + length - 1].span[1])
            return Mention(" ".join(phrase), span, terms), length
    word = words[start]
    return Mention(word.text, word.span, (Term(_punctuation(word.text), ""),)), 1


def _punctuation(word: str) -> Tag:
    if word in _STOPS:
        return Tag.STOP
    if word in _COMMAS or word == "-":
        return Tag.COMMA
    return Tag.OTHER
