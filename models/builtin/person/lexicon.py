"""The words that descriptions of persons are made of, with their meanings and relations."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto

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
    in both orders.
    """

    meanings: Mapping[Phrase, Meaning]
    kinds: Mapping[str, Kind]
    near_colours: frozenset[tuple[str, str]]
    scales: Mapping[str, tuple[str, ...]]
    parts: frozenset[str]
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
