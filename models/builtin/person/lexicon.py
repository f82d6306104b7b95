"""The words that descriptions of persons are made of, and mentions of them in a text."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from functools import lru_cache
from importlib.resources import files
from itertools import permutations
from typing import Any, NamedTuple

from schemas.faithfulness import Attribute, Span

# The words that descriptions of persons are made of, with their meanings and relations.


class Tag(StrEnum):
    """What a word or phrase does in a description."""

    COLOUR = auto()
    SHADE = auto()
    DETAIL = auto()
    NUMBER = auto()
    THING = auto()
    MEASURE = auto()
    LIKENING = auto()
    COVERING = auto()
    DEPICTING = auto()
    DEPICTED = auto()
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


@dataclass(frozen=True, eq=False)
class Meaning:
    """What a phrase may do in a description, and the canonical name of what it says as each."""

    values: Mapping[Tag, str]
    tags: frozenset[Tag] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", frozenset(self.values))


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


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Phrases with their meanings, kinds with their taxonomy, colours with their neighbours.

    `lengths` tells how long, in words, the phrases are that start with a word, longest first;
    `lineages` gives a kind with what it is a kind of, closest first. `near_colours` has each pair
    in both orders, as have the near materials and places. `opposites` are sets of details that
    exclude each other, `implied` what a kind of item says by its name, `part_slots` the slots
    whose items alone have a part.
    """

    meanings: Mapping[Phrase, Meaning]
    kinds: Mapping[str, Kind]
    near_colours: frozenset[tuple[str, str]]
    scales: Mapping[str, tuple[str, ...]]
    parts: frozenset[str]
    opposites: tuple[frozenset[str], ...]
    near_materials: frozenset[tuple[str, str]]
    near_places: frozenset[tuple[str, str]]
    implied: Mapping[str, frozenset[str]]
    part_slots: Mapping[str, frozenset[str]]
    lengths: Mapping[str, tuple[int, ...]] = field(init=False)
    lineages: Mapping[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", _lengths_by_first_word(self.meanings))
        lineages = {kind: tuple(_lineage(kind, self.kinds)) for kind in self.kinds}
        object.__setattr__(self, "lineages", lineages)

    def is_a(self, kind: str, general: str) -> bool:
        """Whether every `kind` is a `general`."""
        return kind == general or general in self.lineages.get(kind, ())

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
        for kind in self.lineages.get(specific, ()):
            if kind == general:
                return False
            if self.kinds[kind].claim:
                return True
        return False

    def same_colour(self, one: str, other: str) -> bool:
        """Whether two honest people may mean the same by these canonical colours."""
        return one == other or (one, other) in self.near_colours

    def same_material(self, one: str, other: str) -> bool:
        """Whether two honest people may mean the same by these materials."""
        return one == other or (one, other) in self.near_materials

    def same_place(self, one: str, other: str) -> bool:
        """Whether two honest people may mean the same by these places of the body."""
        return one == other or (one, other) in self.near_places

    def are_opposed(self, one: str, other: str) -> bool:
        """Whether one thing cannot be both: large and small, tight and loose."""
        return one != other and any({one, other} <= group for group in self.opposites)

    def says(self, kind: str, value: str) -> bool:
        """Whether an item's name says a material or a detail: jeans are of denim."""
        return value in self.all_said(kind)

    def all_said(self, kind: str) -> frozenset[str]:
        """The materials and details that an item's name says."""
        names = self.lineages.get(kind, ())
        return frozenset(said for name in names for said in self.implied.get(name, ()))

    def places_said(self, kind: str) -> list[str]:
        """The places that an item's name says: a backpack's is the back."""
        known = {place for pair in self.near_places for place in pair}
        return sorted(self.all_said(kind) & known)

    def place(self, scale: str, value: str) -> int:
        """Where a value stands on a scale, counted in steps from its first."""
        return self.scales[scale].index(value)


def _lengths_by_first_word(phrases: Iterable[Phrase]) -> dict[str, tuple[int, ...]]:
    lengths: dict[str, set[int]] = defaultdict(set)
    for phrase in phrases:
        lengths[phrase[0]].add(len(phrase))
    return {word: tuple(sorted(found, reverse=True)) for word, found in lengths.items()}


def _lineage(kind: str, kinds: Mapping[str, Kind]) -> Iterator[str]:
    """`kind` and what it is a kind of, closest first."""
    general: str | None = kind
    while general is not None:
        yield general
        general = kinds[general].parent if general in kinds else None


# Reads `lexicon.toml`, the file of words that ships with this package.


@lru_cache(maxsize=1)
def load_lexicon() -> Lexicon:
    """The lexicon that ships with this package."""
    data = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text("utf-8"))
    values: dict[Phrase, dict[Tag, str]] = defaultdict(dict)
    for entry in _entries(data):
        for phrase in _phrases(entry):
            values[phrase].setdefault(entry.tag, entry.value)
    for by_tag in values.values():
        if Tag.THING in by_tag or Tag.MEASURE in by_tag:  # read like words that are not known
            by_tag.setdefault(Tag.OTHER, "")
    return Lexicon(
        meanings={phrase: Meaning(by_tag) for phrase, by_tag in values.items()},
        kinds={kind.name: kind for kind in _kinds(data)},
        near_colours=frozenset((*_near_colours(data), *_both_ways(data["near"]["colours"]))),
        scales={name: tuple(steps) for name, steps in data["scales"].items()},
        parts=frozenset(("marks", *data["parts"])),
        opposites=tuple(frozenset(group) for group in data["details"]["opposites"]),
        near_materials=frozenset(_both_ways(data["near"]["materials"])),
        near_places=frozenset(_both_ways(data["near"]["places"])),
        implied={kind: frozenset(said) for kind, said in data["implied"].items()},
        part_slots={part: frozenset(slots) for part, slots in data["part_slots"].items()},
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
    "numbers": Tag.NUMBER,
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
    "side_both": (Tag.SIDE, "both"),
    "long": (Tag.SIZE, "long"),
    "short": (Tag.SIZE, "short"),
    "medium": (Tag.SIZE, "medium"),
    "likening": (Tag.LIKENING, ""),
    "covering": (Tag.COVERING, ""),
    "depicting": (Tag.DEPICTING, ""),
    "depicted": (Tag.DEPICTED, ""),
    "measure": (Tag.MEASURE, ""),
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
    for name, words in data["details"]["words"].items():
        yield _Entry(words, Tag.DETAIL, name)
    for name, words in data["things"].items():
        yield _Entry(words, Tag.THING, name, inflects=True)
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


def _both_ways(groups: Iterable[Iterable[str]]) -> Iterator[tuple[str, str]]:
    """Every pair of each group, in both orders."""
    for group in groups:
        yield from permutations(group, 2)


def _phrases(entry: _Entry) -> Iterator[Phrase]:
    """Each word or phrase of an entry, and its plural where it has one."""
    for word in entry.words:
        phrase = tuple(word.split())
        yield phrase
        last = phrase[-1]
        if entry.inflects and not last.endswith("s"):
            yield (*phrase[:-1], last + ("es" if last.endswith(("x", "ch", "sh")) else "s"))


# Cuts a text into mentions: words and phrases with all meanings that the lexicon knows.

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
