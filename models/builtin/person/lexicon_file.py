"""Reads `lexicon.toml`, the file of words that ships with this package."""

import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from models.builtin.person.lexicon import Kind, Lexicon, Meaning, Phrase, Tag
from schemas.faithfulness import Attribute


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """The lexicon that ships with this package."""
    data = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text("utf-8"))
    values: dict[Phrase, dict[Tag, str]] = defaultdict(dict)
    for entry in _entries(data):
        for phrase in _phrases(entry):
            values[phrase].setdefault(entry.tag, entry.value)
    return Lexicon(
        meanings={phrase: Meaning(by_tag) for phrase, by_tag in values.items()},
        kinds={kind.name: kind for kind in _kinds(data)},
        near_colours=frozenset(_near_colours(data)),
        scales={name: tuple(steps) for name, steps in data["scales"].items()},
        parts=frozenset(("marks", *data["parts"])),
    )


class _Entry(NamedTuple):
    """Words of one meaning; `inflects` tells whether they have plurals."""

    words: list[str]
    tag: Tag
    value: str
    inflects: bool = False


_INFLECTED = {"parts": Tag.PART, "levels": Tag.LEVEL, "pattern_nouns": Tag.PATTERN_NOUN}
_PLAIN = {
    "patterns": Tag.PATTERN,
    "materials": Tag.MATERIAL,
    "shades": Tag.SHADE,
    "age": Tag.AGE,
    "height": Tag.HEIGHT,
    "build": Tag.BUILD,
    "skin": Tag.SKIN_TONE,
    "hair_styles": Tag.HAIR_STYLE,
    "sleeves": Tag.SLEEVE,
    "reaches": Tag.REACH,
    "actions": Tag.ACTION,
    "persons": Tag.PERSON,
}
_PRONOUNS = {
    "male": (Tag.PRONOUN, "male"),
    "female": (Tag.PRONOUN, "female"),
    "neutral": (Tag.PRONOUN, "unknown"),
    "male_possessive": (Tag.POSSESSIVE, "male"),
    "female_possessive": (Tag.POSSESSIVE, "female"),
}
_GRAMMAR = {
    "indefinite": (Tag.INDEFINITE, ""),
    "definite": (Tag.DEFINITE, ""),
    "it": (Tag.IT, ""),
    "be": (Tag.BE, ""),
    "conjunction": (Tag.AND, ""),
    "of": (Tag.OF, ""),
    "with": (Tag.WITH, ""),
    "negation": (Tag.NEGATION, ""),
    "wear": (Tag.WEAR, ""),
    "carry": (Tag.CARRY, ""),
    "reach": (Tag.REACHES, ""),
    "prep": (Tag.PREPOSITION, ""),
    "filler": (Tag.FILLER, ""),
    "colour_noun": (Tag.COLOUR_NOUN, ""),
    "side_left": (Tag.SIDE, "left"),
    "side_right": (Tag.SIDE, "right"),
    "long": (Tag.SIZE, "long"),
    "short": (Tag.SIZE, "short"),
    "medium": (Tag.SIZE, "medium"),
    "ignore": (Tag.IGNORED, ""),
}
_BODY = {"figure": Tag.FIGURE, "skin": Tag.SKIN, "hair": Tag.HAIR}


def _entries(data: dict[str, Any]) -> Iterator[_Entry]:
    """The words of every table of the file."""
    for name, colour in data["colours"].items():
        yield _Entry(colour["words"], Tag.COLOUR, name)
    for slot in data["items"].values():
        for name, kind in slot["kinds"].items():
            yield _Entry(kind["words"], Tag.ITEM, name, inflects=True)
    for table, tag in _INFLECTED.items():
        for name, words in data[table].items():
            yield _Entry(words, tag, name, inflects=True)
    for table, tag in _PLAIN.items():
        for name, words in data[table].items():
            yield _Entry(words, tag, name)
    for table, meanings in (("pronouns", _PRONOUNS), ("grammar", _GRAMMAR)):
        for name, words in data[table].items():
            tag, value = meanings[name]
            yield _Entry(words, tag, value)
    for name, words in data["body"].items():
        yield _Entry(words, _BODY.get(name, Tag.BODY), name, inflects=True)


def _kinds(data: dict[str, Any]) -> Iterator[Kind]:
    for slot, table in data["items"].items():
        for name, kind in table["kinds"].items():
            yield Kind(
                name=name,
                slot=slot,
                attribute=Attribute(table["attribute"]),
                parent=kind.get("under"),
                claim=kind.get("claim", False),
            )


def _near_colours(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, colour in data["colours"].items():
        for other in colour.get("near", ()):
            yield from ((name, other), (other, name))


def _phrases(entry: _Entry) -> Iterator[Phrase]:
    """Each word or phrase of an entry, and its plural where it has one."""
    for word in entry.words:
        phrase = tuple(word.split())
        yield phrase
        last = phrase[-1]
        if entry.inflects and not last.endswith("s"):
            yield (*phrase[:-1], last + ("es" if last.endswith(("x", "ch", "sh")) else "s"))
