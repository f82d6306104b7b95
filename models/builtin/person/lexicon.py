"""The words that descriptions of persons are made of: `lexicon.toml`, compiled for look-up."""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum, auto
from functools import lru_cache
from importlib.resources import files
from typing import Any

from schemas.faithfulness import Attribute


class Tag(StrEnum):
    """What a word or phrase does in a description."""

    COLOUR = auto()
    SHADE = auto()
    PATTERN = auto()
    PATTERN_NOUN = auto()
    MATERIAL = auto()
    SLEEVE = auto()
    REACH = auto()
    LEVEL = auto()
    SIZE = auto()
    AGE = auto()
    HEIGHT = auto()
    BUILD = auto()
    SKIN_TONE = auto()
    HAIR_STYLE = auto()
    ITEM = auto()
    PART = auto()
    PERSON = auto()
    PRONOUN = auto()
    POSSESSIVE = auto()
    BODY = auto()
    FIGURE = auto()
    SKIN = auto()
    HAIR = auto()
    ACTION = auto()
    SIDE = auto()
    INDEFINITE = auto()
    DEFINITE = auto()
    IT = auto()
    BE = auto()
    AND = auto()
    OF = auto()
    WITH = auto()
    NEGATION = auto()
    WEAR = auto()
    CARRY = auto()
    REACHES = auto()
    PREPOSITION = auto()
    FILLER = auto()
    COLOUR_NOUN = auto()
    IGNORED = auto()
    COMMA = auto()
    STOP = auto()
    OTHER = auto()


Phrase = tuple[str, ...]
"""A phrase as lower-case words; hyphens count as spaces."""


@dataclass(frozen=True)
class Term:
    """The meaning of a phrase: what it does, and the canonical name of what it says."""

    tag: Tag
    value: str


@dataclass(frozen=True)
class Kind:
    """A kind of thing that a person wears or carries.

    `parent` is the more general kind. A `claim` says more than its parent in a way that a picture
    would show to be wrong: «boots» for «shoes» is news, «sneakers» for «shoes» is a closer word.
    """

    name: str
    slot: str
    attribute: Attribute
    parent: str | None = None
    claim: bool = False


@dataclass(frozen=True)
class Lexicon:
    """Phrases with their meanings, kinds with their taxonomy, colours with their neighbours."""

    terms: dict[Phrase, tuple[Term, ...]]
    kinds: dict[str, Kind]
    near_colours: frozenset[frozenset[str]]
    scales: dict[str, tuple[str, ...]]
    parts: frozenset[str]
    longest: int = field(default=5)

    def ancestors(self, kind: str) -> tuple[str, ...]:
        """`kind` and what it is a kind of, closest first; for an unknown kind just itself."""
        line = [kind]
        while (known := self.kinds.get(line[-1])) is not None and known.parent is not None:
            line.append(known.parent)
        return tuple(line)

    def is_a(self, kind: str, general: str) -> bool:
        """Whether every `kind` is a `general`."""
        return general in self.ancestors(kind)

    def slot(self, kind: str) -> str:
        """Where a kind is worn or carried (`upper`, `feet`, `bag` …), or "" for unknown kinds."""
        known = self.kinds.get(kind)
        return known.slot if known else ""

    def attribute(self, kind: str) -> Attribute | None:
        """What an item of this kind is: garment, footwear, accessory …; None for unknown kinds."""
        known = self.kinds.get(kind)
        return known.attribute if known else None

    def claims(self, specific: str, general: str) -> bool:
        """Whether saying `specific` where `general` was said claims something new."""
        for kind in self.ancestors(specific):
            if kind == general:
                return False
            if kind in self.kinds and self.kinds[kind].claim:
                return True
        return False

    def same_colour(self, one: str, other: str) -> bool:
        """Whether two honest people may mean the same by these canonical colours."""
        return one == other or frozenset((one, other)) in self.near_colours

    def steps(self, scale: str, one: str, other: str) -> int:
        """How many steps lie between two values of a scale; 0 for values that it does not have."""
        values = self.scales[scale]
        if one not in values or other not in values:
            return 0
        return abs(values.index(one) - values.index(other))


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """The lexicon that ships with this package."""
    data = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text("utf-8"))
    terms: dict[Phrase, dict[Tag, Term]] = {}
    for words, term, inflects in _entries(data):
        for word in words:
            for phrase in _forms(word, inflects):
                terms.setdefault(phrase, {}).setdefault(term.tag, term)
    return Lexicon(
        terms={phrase: tuple(by_tag.values()) for phrase, by_tag in terms.items()},
        kinds={kind.name: kind for kind in _kinds(data)},
        near_colours=frozenset(
            frozenset((name, other))
            for name, colour in data["colours"].items()
            for other in colour.get("near", ())
        ),
        scales={name: tuple(values) for name, values in data["scales"].items()},
        parts=frozenset(("marks", *data["parts"])),
        longest=max(len(phrase) for phrase in terms),
    )


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


def _entries(data: dict[str, Any]) -> Iterator[tuple[list[str], Term, bool]]:
    """(words, what they mean, whether they have plurals) of every table of the file."""
    for name, colour in data["colours"].items():
        yield colour["words"], Term(Tag.COLOUR, name), False
    for slot in data["items"].values():
        for name, kind in slot["kinds"].items():
            yield kind["words"], Term(Tag.ITEM, name), True
    for table, tag in _INFLECTED.items():
        for name, words in data[table].items():
            yield words, Term(tag, name), True
    for table, tag in _PLAIN.items():
        for name, words in data[table].items():
            yield words, Term(tag, name), False
    for table, meanings in (("pronouns", _PRONOUNS), ("grammar", _GRAMMAR)):
        for name, words in data[table].items():
            tag, value = meanings[name]
            yield words, Term(tag, value), False
    for name, words in data["body"].items():
        yield words, Term(_BODY.get(name, Tag.BODY), name), True


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


def _forms(word: str, inflects: bool) -> Iterable[Phrase]:
    phrase = tuple(word.split())
    yield phrase
    last = phrase[-1]
    if inflects and not last.endswith("s"):
        yield (*phrase[:-1], last + ("es" if last.endswith(("x", "ch", "sh")) else "s"))
