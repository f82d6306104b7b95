"""Reads what a text says of a still, and where in the text each of it is said."""

import re
from typing import NamedTuple

from models.builtin.stills.lexicon import words

_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»]+)[\"“”«»]|(?<!\w)['‘]([^'‘’]+)['’](?!\w)")
_IS = frozenset({"is", "are", "was", "were"})
_FILLERS = frozenset({"bright", "shiny", "old", "new", "other", "-"})


class Word(NamedTuple):
    """A word or a few, by their meaning, at text[start:end]."""

    value: str
    start: int
    end: int


class Mention(NamedTuple):
    """A thing or garment that a text names; `number` is `"1"` for `a` and `an`."""

    kind: Word
    number: Word | None = None
    size: Word | None = None
    colour: Word | None = None


class Related(NamedTuple):
    """How the mention at `first` lies to the one at `second`: `left`, `above` or `on`."""

    first: int
    relation: str
    second: int


class Reading(NamedTuple):
    """All that was understood of a text; a garment is a mention, too."""

    mentions: tuple[Mention, ...]
    garments: tuple[Mention, ...]
    actions: tuple[Word, ...]
    places: tuple[Word, ...]
    styles: tuple[Word, ...]
    related: tuple[Related, ...]
    signs: tuple[Word, ...]


class _Token(NamedTuple):
    name: str
    word: Word


def read_still_text(text: str) -> Reading:
    """What `text` says; what is between quotation marks is what a sign says."""
    signs = tuple(_quoted(match) for match in _QUOTED.finditer(text))
    hidden = _QUOTED.sub(lambda match: "\0" * len(match[0]), text)
    tokens = list(_tokens(hidden))
    mentions: list[Mention] = []
    garments: list[Mention] = []
    places_of: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token.name == "kind":
            places_of[at] = len(mentions)
            mentions.append(_mention(tokens, at))
        elif token.name == "garment":
            garments.append(_mention(tokens, at))
    people = any(mention.kind.value == "person" for mention in mentions) or bool(garments)
    return Reading(
        tuple(mentions),
        tuple(garments),
        _of_class(tokens, "action") if people else (),
        _of_class(tokens, "place"),
        _of_class(tokens, "style"),
        tuple(_relations(tokens, places_of)),
        signs,
    )


def _quoted(match: re.Match[str]) -> Word:
    group = 1 if match[1] is not None else 2
    return Word(match[group].strip().upper(), match.start(group), match.end(group))


def _tokens(text: str) -> list[_Token]:
    known, pattern = words()
    found = []
    for match in pattern.finditer(text.casefold()):
        name, value = known.get(match[0], ("", match[0]))
        found.append(_Token(name, Word(value, match.start(), match.end())))
    return found


def _mention(tokens: list[_Token], at: int) -> Mention:
    """The noun at `at` with what stands before it, or after `is`."""
    found: dict[str, Word] = {}
    before = at - 1
    while before >= 0 and (
        tokens[before].name in ("number", "size", "colour") or tokens[before].word.value in _FILLERS
    ):
        found.setdefault(tokens[before].name, tokens[before].word)
        if tokens[before].name == "number":
            break
        before -= 1
    after = tokens[at + 1 : at + 3]
    follows = len(after) > 1 and after[0].word.value in _IS and after[1].name == "colour"
    if follows and "colour" not in found:
        found["colour"] = after[1].word
    return Mention(tokens[at].word, found.get("number"), found.get("size"), found.get("colour"))


def _of_class(tokens: list[_Token], name: str) -> tuple[Word, ...]:
    return tuple(token.word for token in tokens if token.name == name)


def _relations(tokens: list[_Token], places_of: dict[int, int]) -> list[Related]:
    """Relations whose words stand between two things, with nothing but their attributes between."""
    found = []
    for at, token in enumerate(tokens):
        if token.name != "relation":
            continue
        before = next((p for p in range(at - 1, -1, -1) if p in places_of), None)
        after = next((p for p in range(at + 1, len(tokens)) if p in places_of), None)
        if before is None or after is None or not _only_attributes(tokens[at + 1 : after]):
            continue
        if any(part.name in ("place", "garment") for part in tokens[before:at]):
            continue
        one, two = places_of[before], places_of[after]
        relation = token.word.value
        if relation in ("right", "below"):
            one, two, relation = two, one, "left" if relation == "right" else "above"
        found.append(Related(one, relation, two))
    return found


def _only_attributes(between: list[_Token]) -> bool:
    return all(
        token.name in ("number", "size", "colour") or token.word.value in {"the", *_FILLERS}
        for token in between
    )
