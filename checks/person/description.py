"""The things in a description, and the facts stated about them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, auto
from functools import cached_property
from itertools import chain

from loupe.checks.person.lexicon import Mention, Tag, find_nonsense
from loupe.schemas.faithfulness import Attribute, Fact, Span


class Role(StrEnum):
    """Role of a thing for the person."""

    PERSON = auto()
    HAIR = auto()
    ITEM = auto()
    PART = auto()


@dataclass(frozen=True)
class Place:
    """Where an item is held or worn: «left», «hand», «in»; side and preposition may be ""."""

    side: str
    body: str
    preposition: str = ""


@dataclass(eq=False)
class Thing:
    """A subject of facts: the person, the hair, an item worn or carried, its part.

    `stated` has the facts by attribute, both in the order in which they were stated. `span` is the
    head noun at its first mention, `phrase` that noun with its modifiers and without its article.
    An item may be `negated` («no bag»). `inherited` colours are those that a neighbour in a list
    may share («black trousers and shoes»). `carried` says that a verb of holding precedes it.
    """

    role: Role
    kind: str
    span: Span = (0, 0)
    phrase: Span = (0, 0)
    stated: dict[Attribute, tuple[Fact, ...]] = field(default_factory=dict)
    parts: list["Thing"] = field(default_factory=list)
    shades: dict[Span, str] = field(default_factory=dict)
    inherited: tuple[str, ...] = ()
    places: list[Place] = field(default_factory=list)
    carried: bool = False
    negated: bool = False
    known: bool = True

    def state(self, attribute: Attribute, value: str, span: Span) -> None:
        """Add a fact, once."""
        known = self.stated.get(attribute, ())
        if value not in [fact.value for fact in known]:
            fact = Fact(subject=self.kind, attribute=attribute, value=value, span=span)
            self.stated[attribute] = (*known, fact)

    def values(self, attribute: Attribute) -> tuple[str, ...]:
        """Return the values stated for an attribute, in order."""
        return tuple([fact.value for fact in self.stated.get(attribute, ())])

    def all(self, attribute: Attribute) -> tuple[Fact, ...]:
        """Return the facts stated for an attribute, in order."""
        return self.stated.get(attribute, ())

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Return all facts, by attribute; the first names the thing, if it has a name."""
        return tuple(chain.from_iterable(self.stated.values()))


@dataclass(eq=False)
class Description:
    """A parsed description: its words, the person, the hair, and the items in order of appearance.

    `colours` and `places` hold every colour and every side of the body in the text, with its span,
    regardless of their subject, and `named` every other word with a meaning. `likened` has the
    items of comparisons («hair like a cap»), `impossible` the spans of colours that no skin has.
    `unknown_share`, in [0, 1], is the share of the text that the lexicon does not know. The parser
    fills it, and it does not change after that.
    """

    text: str
    mentions: list[Mention]
    person: Thing
    hair: Thing
    items: list[Thing] = field(default_factory=list)
    colours: list[tuple[str, Span]] = field(default_factory=list)
    places: list[tuple[Place, Span]] = field(default_factory=list)
    named: dict[Tag, list[tuple[str, Span]]] = field(default_factory=dict)
    likened: list[tuple[str, Span]] = field(default_factory=list)
    impossible: list[Span] = field(default_factory=list)
    unknown_share: float = 0.0

    @cached_property
    def places_by_tag(self) -> Mapping[Tag, Sequence[int]]:
        """Return the positions of the mentions with each tag that occurs."""
        places = defaultdict[Tag, list[int]](list)
        for place, mention in enumerate(self.mentions):
            for tag in mention.tags:
                places[tag].append(place)
        return dict(places)

    @cached_property
    def nonsense(self) -> list[Span]:
        """Return the spans of impossible statements («the shoes are holding», «blue skin»)."""
        return find_nonsense(self.mentions) + self.impossible

    def tagged(self, *tags: Tag) -> list[int]:
        """Return the positions of the mentions that have one of `tags`, in order."""
        places = self.places_by_tag
        found = [places[tag] for tag in tags if tag in places]
        return list(found[0]) if len(found) == 1 else sorted(set().union(*found))

    def values(self, *tags: Tag) -> set[str]:
        """Return the canonical names of all mentions under `tags`."""
        return {self.mentions[at].values[tag] for tag in tags for at in self.tagged(tag)}

    def states_anything(self) -> bool:
        """Whether there is any fact."""
        return any(thing.stated for thing in self.things())

    def things(self) -> Iterator[Thing]:
        """Return every subject of facts."""
        yield self.person
        yield self.hair
        for item in self.items:
            yield item
            yield from item.parts

    def loose_colours(self) -> tuple[str, ...]:
        """Return the colours in the text that describe no known thing."""
        held = [fact.span for thing in self.things() if thing.known for fact in thing.facts]
        return tuple(
            colour
            for colour, (first, last) in self.colours
            if not any(start <= first and last <= end for start, end in held)
        )

    def facts(self) -> tuple[Fact, ...]:
        """Return all facts, by position in the text."""
        found = (fact for thing in self.things() for fact in thing.facts)
        return tuple(sorted(found, key=lambda fact: (fact.span, fact.attribute)))
