"""Find statements that make no sense: shoes that hold something, a capacity that is worn."""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

from models.builtin.person.lexicon import INSIDE, KEPT_WORDS, Lexicon, Mention, Tag, load_lexicon
from schemas.faithfulness import Span

_MODIFIERS = INSIDE | {
    *(Tag.COLOUR, Tag.SLEEVE, Tag.AGE, Tag.HEIGHT, Tag.BUILD, Tag.SKIN_TONE, Tag.FILLER),
    *(Tag.NUMBER, Tag.SIDE, Tag.DEFINITE, Tag.INDEFINITE, Tag.POSSESSIVE, Tag.COLOUR_NOUN),
    Tag.HAIR_STYLE,
}
_NOUNS = {
    Tag.PERSON: "person",
    Tag.PRONOUN: "person",
    Tag.HAIR: "hair",
    Tag.SKIN: "organ",
    Tag.FIGURE: "body",
    Tag.PATTERN_NOUN: "part",
}
_HELD = ("hold", "held", "carr", "grip", "clutch", "grasp", "tot")
_WORDS = {Tag.WEAR: "wear", Tag.BE: "be", Tag.STOP: "."}


def find_nonsense(mentions: Sequence[Mention]) -> list[Span]:
    """Return the spans of statements that make no sense."""
    words, spans = [], []
    for word, span in _words(mentions):
        words.append(word)
        spans.append(span)
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    text = " ".join(words)
    found = set[Span]()
    for pattern in _table()[0]:
        for match in pattern.finditer(text):
            first = bisect_right(starts, match.start()) - 1
            if words[first] == ".":
                first += 1
            last = bisect_right(starts, match.end() - 1) - 1
            found.add((spans[first][0], spans[last][1]))
    return sorted(found)


@cache
def _table() -> tuple[list[re.Pattern[str]], dict[str, str]]:
    """Return the patterns, and the class of each part of the body that has one."""
    data = tomllib.loads(files(__package__).joinpath("nonsense.toml").read_text("utf-8"))
    patterns = []
    for pattern in chain.from_iterable(data["patterns"].values()):
        for name, classes in data["sets"].items():
            pattern = pattern.replace(f"{{{name}}}", classes)
        patterns.append(re.compile(pattern))
    return patterns, {word: name for name, words in data["body"].items() for word in words}


def _words(mentions: Sequence[Mention]) -> Iterator[tuple[str, Span]]:
    """Return each noun phrase as its class in brackets, and each other word; with its span."""
    start, noun, end, before = None, "", 0, ""
    for mention in mentions:
        phrase, span = mention.phrase, mention.span
        kind, word, inside, opens = _sort_of(phrase)
        goes_on = noun == "unknown" and inside and not opens  # «a sleek black jacket»
        if noun and (opens or not kind) and not goes_on:
            yield f"[{noun}]", (start or 0, end)
            start, noun = None, ""
        if phrase == before and len(before) > 3:
            yield "twice", span
        if kind:
            start, noun, end = span[0] if start is None else start, kind, span[1]
        elif inside:
            start = span[0] if start is None or opens else start
        else:
            start = None
            yield word, span
        before = phrase
    if noun:
        yield f"[{noun}]", (start or 0, end)


class _Sort(NamedTuple):
    """What a mention is in a pattern; `inside` noun phrases, or `opens` one."""

    noun: str
    word: str
    inside: bool
    opens: bool


@lru_cache(maxsize=KEPT_WORDS)
def _sort_of(phrase: str) -> _Sort:
    lexicon = load_lexicon()
    mention = lexicon.mention(phrase)
    return _Sort(
        _class_of(mention, lexicon),
        _word(mention),
        mention.among(_MODIFIERS),
        mention.has(Tag.DEFINITE, Tag.INDEFINITE, Tag.POSSESSIVE),
    )


def _word(mention: Mention) -> str:
    if Tag.ACTION in mention.tags:
        return f"do:{mention.value(Tag.ACTION).replace(' ', '_')}"
    if mention.phrase in ("has", "have", "had"):
        return "have"
    if Tag.CARRY in mention.tags and mention.phrase.startswith(("cover", *_HELD)):
        name = "cover" if mention.phrase.startswith("cover") else "hold"
        return f"{name}ing" if mention.phrase.endswith("ing") else name
    if mention.phrase != "in":
        known = next((word for tag, word in _WORDS.items() if tag in mention.tags), "")
        if known:
            return "wearing" if mention.phrase == "wearing" else known
    return mention.phrase.replace(" ", "_")


def _class_of(mention: Mention, lexicon: Lexicon) -> str:
    """Return the class of a noun, "" for other words."""
    if Tag.ITEM in mention.tags:
        return lexicon.slot(mention.values[Tag.ITEM])
    for tag in (Tag.BODY, Tag.LEVEL, Tag.PART):
        if tag in mention.tags:
            return _table()[1].get(mention.phrase, "part" if tag is Tag.PART else "body")
    if Tag.MEASURE in mention.tags:
        return "measure"
    if Tag.THING in mention.tags:
        return lexicon.classes.get(mention.values[Tag.THING], "unknown")
    if Tag.OTHER in mention.tags:
        return "unknown" if mention.phrase.isalpha() and Tag.ACTION not in mention.tags else ""
    if Tag.AGE in mention.tags and Tag.PERSON not in mention.tags:
        return ""
    return next((name for tag, name in _NOUNS.items() if tag in mention.tags), "")
