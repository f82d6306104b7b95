"""What a description says, as things and the facts stated of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum, auto
from itertools import chain

from models.builtin.person.lexicon import Tag
from schemas.faithfulness import Attribute, Fact, Span


class Role(StrEnum):
    """What a thing is to the person."""

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
    """Something that facts are stated of: the person, the hair, an item worn or carried, its part.

    `stated` has the facts by attribute, both in the order in which they were stated.
    `span` is the head noun where it was first named, `phrase` that noun with its modifiers and
    without its article. An item may be `negated` («no bag»). `inherited` colours are those that a
    neighbour in a list may lend («black trousers and shoes»). `carried` tells that a
    verb of holding led to it.
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
        """Adds a fact, once."""
        if value not in self.values(attribute):
            fact = Fact(subject=self.kind, attribute=attribute, value=value, span=span)
            self.stated[attribute] = (*self.all(attribute), fact)

    def values(self, attribute: Attribute) -> tuple[str, ...]:
        """The values stated for an attribute, in order."""
        return tuple([fact.value for fact in self.stated.get(attribute, ())])

    def all(self, attribute: Attribute) -> tuple[Fact, ...]:
        """The facts stated for an attribute, in order."""
        return self.stated.get(attribute, ())

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, by attribute; the first names the thing, if it has a name."""
        return tuple(chain.from_iterable(self.stated.values()))


@dataclass(eq=False)
class Description:
    """A parsed description: the person, the hair, and the items in order of appearance.

    `colours` and `places` hold every colour and every side of the body that the text names, with
    its span, whatever they are said of, and `named` every other word of a meaning; `likened` has
    the items that something only looks like («hair like a cap»), `nonsense` the spans of what
    cannot be meant («the shoes are holding»); `unknown_share`, in [0, 1], is how much of the text
    the lexicon does not know. The parser fills it, and it does not change after that.
    """

    text: str
    person: Thing
    hair: Thing
    items: list[Thing] = field(default_factory=list)
    colours: list[tuple[str, Span]] = field(default_factory=list)
    places: list[tuple[Place, Span]] = field(default_factory=list)
    named: dict[Tag, list[tuple[str, Span]]] = field(default_factory=dict)
    likened: list[tuple[str, Span]] = field(default_factory=list)
    nonsense: list[Span] = field(default_factory=list)
    unknown_share: float = 0.0

    def states_anything(self) -> bool:
        """Whether there is any fact."""
        return any(thing.stated for thing in self.things())

    def things(self) -> Iterator[Thing]:
        """Everything that facts are stated of."""
        yield self.person
        yield self.hair
        for item in self.items:
            yield item
            yield from item.parts

    def loose_colours(self) -> tuple[str, ...]:
        """The colours that the text names of nothing that is known."""
        held = [fact.span for thing in self.things() if thing.known for fact in thing.facts]
        return tuple(
            colour
            for colour, (first, last) in self.colours
            if not any(start <= first and last <= end for start, end in held)
        )

    def facts(self) -> tuple[Fact, ...]:
        """All facts, by place in the text."""
        found = (fact for thing in self.things() for fact in thing.facts)
        return tuple(sorted(found, key=lambda fact: (fact.span, fact.attribute)))
