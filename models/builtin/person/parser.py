"""Reads a description from left to right and notes what it states of the person.

The reader keeps what a noun phrase has collected so far (its modifiers and article) and, on a head
noun, makes a thing of it; predicates («The hat is black») go to the subject, «with …» to the thing
before, «it» to the thing in focus.
"""

from collections.abc import Callable

from models.builtin.person.description import Description, Place, Role, Thing
from models.builtin.person.lexicon import Lexicon, Tag, load_lexicon
from models.builtin.person.mentions import Mention, find_mentions
from schemas.faithfulness import Attribute, Fact, Span

_MODIFIERS = (
    Tag.COLOUR,
    Tag.SHADE,
    Tag.PATTERN,
    Tag.MATERIAL,
    Tag.SLEEVE,
    Tag.REACH,
    Tag.SIZE,
    Tag.AGE,
    Tag.HEIGHT,
    Tag.BUILD,
    Tag.SKIN_TONE,
)
_HEADS = (Tag.ITEM, Tag.PART, Tag.HAIR, Tag.SKIN, Tag.FIGURE, Tag.PERSON)
_NAME_PARTS = (Tag.OTHER, Tag.HAIR_STYLE, Tag.ITEM, Tag.PART, Tag.COLOUR_NOUN)
_STYLE_NOUNS = frozenset(("ponytail", "bun", "braid", "bangs"))
_SKIN_COLOURS = {
    "white": "fair",
    "beige": "fair",
    "pink": "fair",
    "yellow": "medium",
    "brown": "dark",
    "black": "dark",
}
_SINGLE_HAIR_COLOURS = frozenset(("blond",))
_HAVE = ("has", "have", "had", "having")
_HOLDING = ("hold", "held", "carr", "grip", "clutch", "grasp", "tot")
_END = Mention("", (0, 0), ())


def parse_description(text: str) -> Description:
    """What `text` states of the person that it describes; empty for a text about something else."""
    return _Reader(text, load_lexicon()).read()


def extract_facts(text: str) -> tuple[Fact, ...]:
    """The facts that `text` states of a person, in order of appearance."""
    return parse_description(text).facts()


class _Reader:
    """One pass over one text."""

    def __init__(self, text: str, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._mentions = find_mentions(text, lexicon)
        self._description = Description(
            text, Thing(Role.PERSON, "person"), Thing(Role.HAIR, "hair")
        )
        self._skin = Thing(Role.PERSON, "skin")
        self._buffer: list[Mention] = []
        self._before = _END  # the mention before the buffer
        self._earlier_still = _END  # and the one before that
        self._definite = False
        self._indefinite = False
        self._subject: list[Thing] = []
        self._copula = False
        self._focus: Thing | None = None
        self._last: Thing | None = None
        self._owner: Thing | None = None
        self._open_parts: list[Thing] = []
        self._side: tuple[Place, Span] | None = None
        self._sentence_items: list[Thing] = []
        self._person_acts = False
        self._negated = False
        self._carrying = False
        self._after_with = False
        self._and_after_head = False
        self._inside: list[Mention] = []  # conjunctions inside the noun phrase so far
        self._position = 0
        self._order = self._handlers()

    def read(self) -> Description:
        for position, mention in enumerate(self._mentions):
            self._position = position
            if mention.has(Tag.COLOUR):
                self._note_colour(mention)
            self._take(mention)
        self._flush()
        return self._description

    def _note_colour(self, mention: Mention) -> None:
        colour = mention.value(Tag.COLOUR)
        self._description.colours.append(
            Fact(subject="text", attribute=Attribute.COLOUR, value=colour, span=mention.span)
        )

    # Looking around

    def _at(self, offset: int) -> Mention:
        position = self._position + offset
        return self._mentions[position] if 0 <= position < len(self._mentions) else _END

    def _head_ahead(self) -> bool:
        """Whether modifiers, commas and conjunctions run from here to a head without an article."""
        for mention in self._mentions[self._position + 1 :]:
            if mention.has(*_HEADS):
                return True
            if not mention.has(
                *_MODIFIERS, Tag.AND, Tag.COMMA, Tag.FILLER, Tag.OTHER, Tag.HAIR_STYLE
            ):
                return False
        return False

    # One mention

    def _take(self, mention: Mention) -> None:
        for tags, handle in self._order:
            if not mention.tags.isdisjoint(tags):
                handle(mention)
                return

    def _handlers(self) -> tuple[tuple[tuple[Tag, ...], Callable[[Mention], None]], ...]:
        return (
            ((Tag.STOP,), self._stop),
            ((Tag.SIDE,), self._take_side),
            ((Tag.ITEM,), self._item),
            ((Tag.PART,), self._part),
            ((Tag.PATTERN_NOUN,), self._pattern_noun),
            ((Tag.SLEEVE,), self._sleeve),
            ((Tag.HAIR,), self._hair),
            ((Tag.SKIN,), self._skin_head),
            ((Tag.FIGURE,), self._figure),
            ((Tag.PERSON,), self._person),
            (_MODIFIERS, self._modifier),
            ((Tag.HAIR_STYLE,), self._hair_style),
            ((Tag.ACTION,), self._action),
            ((Tag.LEVEL,), self._level),
            ((Tag.PRONOUN,), self._pronoun),
            ((Tag.POSSESSIVE,), self._possessive),
            ((Tag.INDEFINITE, Tag.DEFINITE), self._article),
            ((Tag.IT,), self._it),
            ((Tag.BE,), self._be),
            ((Tag.AND, Tag.COMMA), self._conjunction),
            ((Tag.FILLER, Tag.COLOUR_NOUN), self._skip),
            ((Tag.OF,), self._of),
            ((Tag.NEGATION,), self._negation),
            ((Tag.BODY,), self._body),
            ((Tag.OTHER,), self._other),
            (tuple(Tag), self._boundary),
        )

    def _skip(self, _mention: Mention) -> None:
        pass

    def _stop(self, _mention: Mention) -> None:
        self._flush()
        self._subject, self._copula, self._negated = [], False, False
        self._side, self._sentence_items, self._carrying = None, [], False
        self._person_acts = False
        self._open_parts, self._after_with, self._and_after_head = [], False, False

    def _modifier(self, mention: Mention) -> None:
        if not self._buffer:
            self._before, self._earlier_still = self._at(-1), self._at(-2)
        self._buffer.append(mention)

    def _sleeve(self, mention: Mention) -> None:
        """«Long-sleeved» is a modifier, «(with) long sleeves» speaks of the garment before."""
        if not mention.phrase.endswith("sleeves") or self._owner is None:
            self._modifier(mention)
            return
        self._flush()
        self._buffer = [mention]
        self._dress(self._owner)
        self._buffer = []

    def _boundary(self, mention: Mention) -> None:
        if mention.has(Tag.WEAR) and mention.phrase == "in" and self._copula and self._buffer:
            self._flush()
        self._flush()
        if mention.has(Tag.WITH):
            self._with(mention)
        if mention.has(Tag.CARRY):
            self._carrying = mention.phrase.startswith(_HOLDING)
        if mention.has(Tag.WEAR, Tag.CARRY) and mention.phrase != "in":
            self._after_with, self._copula = False, False
        self._definite = self._indefinite = self._and_after_head = False

    def _with(self, mention: Mention) -> None:
        """«With» goes on about the thing before; «has» about its subject, often the person."""
        subject = self._subject[0] if self._subject else None
        of_person = subject is None or subject.role is not Role.ITEM
        self._after_with = not (mention.phrase in _HAVE and of_person)
        if mention.phrase in _HAVE and subject is not None and not of_person:
            self._owner = subject

    def _of(self, _mention: Mention) -> None:
        self._flush()

    def _negation(self, _mention: Mention) -> None:
        self._flush()
        self._negated = True

    def _article(self, mention: Mention) -> None:
        if mention.phrase == "one" and (self._buffer or self._at(-1).has(Tag.DEFINITE)):
            self._other(mention)
            return
        self._flush()
        self._definite = mention.has(Tag.DEFINITE)
        self._indefinite = not self._definite
        self._and_after_head = False

    def _possessive(self, mention: Mention) -> None:
        self._flush()
        self._definite, self._indefinite = True, False
        self._and_after_head = False
        self._sex(mention.value(Tag.POSSESSIVE), mention.span)

    def _pronoun(self, mention: Mention) -> None:
        self._flush()
        plural = mention.phrase == "they" and self._focus is not None
        if plural and self._focus_is_plural() and self._at(1).has(Tag.BE):
            self._subject = [self._focus] if self._focus else []
        else:
            self._subject = [self._description.person]
            self._sex(mention.value(Tag.PRONOUN), mention.span)
        self._copula, self._after_with, self._person_acts = False, False, True

    def _focus_is_plural(self) -> bool:
        return self._focus is not None and self._focus.kind.endswith("s")

    def _it(self, _mention: Mention) -> None:
        self._flush()
        self._subject = [self._focus] if self._focus else []
        if self._focus:
            self._owner = self._focus
        self._copula = False

    def _be(self, _mention: Mention) -> None:
        self._flush()
        self._copula = True
        self._after_with = False

    def _conjunction(self, mention: Mention) -> None:
        previous = self._at(-1)
        if self._buffer and self._ends_phrase(mention):
            self._flush()
        elif self._buffer:
            self._inside.append(mention)
        elif not self._buffer and previous.has(Tag.ITEM, Tag.PART) and mention.has(Tag.AND):
            self._and_after_head = True
        if mention.has(Tag.COMMA) and not self._buffer:
            self._carrying = self._after_with = False
        if self._negated and mention.phrase != "or":
            self._negated = mention.phrase == "nor"

    def _ends_phrase(self, mention: Mention) -> bool:
        """Whether a comma or conjunction after modifiers ends them: no head follows, nor colour."""
        follows = self._at(1)
        if mention.has(Tag.AND) and follows.has(Tag.COLOUR, Tag.SHADE) and not self._head_ahead():
            return False
        listing = mention.has(Tag.COMMA) or any(m in self._inside for m in self._within_buffer())
        if listing and self._before.phrase == "in" and self._last is not None:
            return not follows.has(Tag.AND)
        if mention.has(Tag.COMMA) and self._before.has(Tag.OF):
            return True
        if self._buffer[-1].has(Tag.MATERIAL) and self._before.has(Tag.WITH, Tag.OF):
            return True
        predicate_ends = self._copula and mention.has(Tag.COMMA)
        return not self._head_ahead() or (predicate_ends and not follows.has(*_MODIFIERS, Tag.AND))

    def _within_buffer(self) -> list[Mention]:
        """The mentions between the first of the buffer and here."""
        start = self._mentions.index(self._buffer[0])
        return self._mentions[start : self._position]

    def _other(self, mention: Mention) -> None:
        if mention.phrase in ("'s", "'"):
            return
        if mention.phrase in ("one", "ones") and self._buffer and self._last is not None:
            self._dress(self._last)
            self._buffer = []
            return
        follows = self._at(1)
        if follows.has(Tag.BODY, Tag.LEVEL) and self._at(2).has(Tag.ITEM):
            return
        if follows.has(*_HEADS, *_MODIFIERS, Tag.OTHER) or not self._names_a_thing(mention):
            if not follows.has(*_HEADS, *_MODIFIERS, Tag.OTHER, Tag.AND, Tag.COMMA):
                self._flush()
            return
        self._unknown_item(mention)

    def _names_a_thing(self, mention: Mention) -> bool:
        """Whether an unknown word at the end of a noun phrase is a thing with known attributes."""
        if (self._copula and not self._indefinite) or not mention.phrase.isalpha():
            return False
        if mention.phrase.endswith(("ly", "ing", "ed")):
            return False
        described = any(m.has(Tag.COLOUR, Tag.PATTERN) for m in self._buffer)
        listed = self._at(1).has(Tag.AND) or (self._at(1).has(Tag.COMMA) and not described)
        if listed and self._head_ahead():
            return False
        return described or (self._carrying and self._indefinite)

    # Heads

    def _start_of_phrase(self, head: Mention) -> Span:
        """The head with the modifiers before it, known and unknown, without the article."""
        start = scan = self._position
        while scan > 0:
            scan -= 1
            mention = self._mentions[scan]
            if mention.has(*_MODIFIERS, *_NAME_PARTS):
                start = scan
            elif not mention.has(Tag.AND, Tag.COMMA) or mention not in self._inside:
                break
        return (self._mentions[start].span[0], head.span[1])

    def _item(self, mention: Mention) -> None:
        if self._at(1).has(Tag.ITEM):
            return
        kind = mention.value(Tag.ITEM)
        if self._at(1).has(Tag.PART):
            self._owner = self._earlier(kind) or self._implied(kind, mention)
            return
        thing = self._resolve(kind, mention)
        if self._open_parts and self._at(-1).has(Tag.DEFINITE, Tag.OF, Tag.POSSESSIVE):
            self._own_parts(thing)
        else:
            self._subject, self._open_parts = [thing], []
        self._dress(thing)
        self._place(thing)
        self._settle(thing)
        self._focus = self._owner = thing
        self._sentence_items.append(thing)

    def _implied(self, kind: str, mention: Mention) -> Thing:
        """«A white shirt collar shows»: there is a shirt."""
        thing = Thing(Role.ITEM, kind, mention.span, mention.span)
        thing.state(self._lexicon.kinds[kind].attribute, kind, mention.span)
        self._description.items.append(thing)
        return thing

    def _unknown_item(self, mention: Mention) -> None:
        """A thing that the lexicon does not know, or («with a gold buckle») a part of one."""
        if self._before.has(Tag.OF) and self._last is not None and self._last.role is Role.PART:
            self._dress(self._last)
            self._settle(self._last)
            return
        wearer = self._wearer()
        if self._after_with and wearer is not None:
            part = Thing(Role.PART, mention.phrase, mention.span, self._start_of_phrase(mention))
            wearer.parts.append(part)
            self._dress(part)
            self._settle(part)
            return
        thing = Thing(Role.ITEM, mention.phrase, mention.span, self._start_of_phrase(mention))
        thing.known = False
        thing.negated = self._negated
        if self._carrying and not self._buffer:
            thing.state(Attribute.ACCESSORY, mention.phrase, mention.span)
        self._description.items.append(thing)
        self._dress(thing)
        self._place(thing)
        self._settle(thing)
        self._subject = [thing]
        self._focus = self._owner = thing
        self._sentence_items.append(thing)

    def _wearer(self) -> Thing | None:
        """What «with a gold buckle» is said of: the item, or the hair, named last."""
        if self._last is self._description.hair:
            return self._last
        return self._owner

    def _settle(self, thing: Thing) -> None:
        self._buffer, self._last = [], thing
        self._definite = self._indefinite = self._copula = False
        self._after_with = self._and_after_head = self._carrying = False
        if self._at(1).phrase not in ("or", "nor"):
            self._negated = False

    def _resolve(self, kind: str, mention: Mention) -> Thing:
        """The item that a head noun names: one named before, or a new one."""
        kind = self._shortened(kind)
        if (renamed := self._renamed(kind, mention)) is not None:
            return renamed
        earlier = None if self._indefinite or self._negated else self._earlier(kind)
        if earlier is None and self._at(-1).phrase in ("the", "this", "these"):
            earlier = self._only_in_slot(kind)
        if earlier is not None and self._may_be(earlier):
            return earlier
        known = self._lexicon.kinds[kind]
        thing = Thing(Role.ITEM, kind, mention.span, self._start_of_phrase(mention))
        thing.negated = self._negated
        thing.carried = self._carrying
        value = f"no {kind}" if self._negated else kind
        thing.state(known.attribute, value, mention.span)
        if self._and_after_head and not self._buffer and self._last is not None:
            thing.inherited = self._last.values(Attribute.COLOUR)
        self._description.items.append(thing)
        return thing

    def _renamed(self, kind: str, mention: Mention) -> Thing | None:
        """«Her top is a yellow camisole»: the subject, under the closer of both names."""
        subject = self._subject[0] if self._subject else None
        if not self._copula or subject is None or subject.role is not Role.ITEM:
            return None
        if not self._lexicon.is_a(kind, subject.kind):
            return None
        attribute = self._lexicon.kinds[kind].attribute
        subject.facts = [fact for fact in subject.facts if fact.attribute is not attribute]
        subject.kind, subject.span = kind, mention.span
        subject.phrase = self._start_of_phrase(mention)
        subject.state(attribute, kind, mention.span)
        return subject

    def _shortened(self, kind: str) -> str:
        """«Short blue trousers» are shorts."""
        is_short = any(m.value(Tag.SIZE) == "short" for m in self._buffer)
        return "shorts" if kind == "trousers" and is_short else kind

    def _earlier(self, kind: str) -> Thing | None:
        related = (
            item
            for item in reversed(self._description.items)
            if self._lexicon.is_a(item.kind, kind) or self._lexicon.is_a(kind, item.kind)
        )
        return next(related, None)

    def _only_in_slot(self, kind: str) -> Thing | None:
        """«The pants» after «shorts»: the one item that is worn where this kind is worn."""
        slot = self._lexicon.slot(kind)
        there = [i for i in self._description.items if self._lexicon.slot(i.kind) == slot]
        return there[0] if len(there) == 1 else None

    def _may_be(self, earlier: Thing) -> bool:
        """Whether a phrase without «a» may mean an item named before: not in other colours."""
        named = [m.value(Tag.COLOUR) for m in self._buffer if m.has(Tag.COLOUR)]
        known = earlier.values(Attribute.COLOUR)
        clash = any(
            not any(self._lexicon.same_colour(colour, other) for other in known) for colour in named
        )
        return not (known and clash) and (self._definite or bool(named) or not self._and_after_head)

    def _own_parts(self, thing: Thing) -> None:
        """«The brim and the crown of the hat»: hands the parts over to their item."""
        for part in self._open_parts:
            for item in self._description.items:
                if part in item.parts:
                    item.parts.remove(part)
            thing.parts.append(part)
        self._subject = list(self._open_parts)
        self._open_parts = []

    def _part(self, mention: Mention) -> None:
        name = mention.value(Tag.PART)
        if self._leads_to_item():
            return
        owner = self._owner
        if owner is None and name in ("print", "whole"):
            self._buffer = []
            return
        if name == "whole":
            self._whole(owner)
            return
        part = Thing(Role.PART, name, mention.span, self._start_of_phrase(mention))
        earlier = next((p for p in owner.parts if p.kind == name), None) if owner else None
        if earlier is not None and self._definite and not self._buffer:
            part = earlier
        elif owner is not None:
            owner.parts.append(part)
        if self._and_after_head and not self._buffer and self._last is not None:
            self._borrow(part)
        self._dress(part)
        self._open_parts.append(part)
        self._subject = [part]
        self._settle(part)

    def _leads_to_item(self) -> bool:
        """Whether a part is only the first word of an item's name: «zip-up hoodie»."""
        ahead = 1
        while self._at(ahead).has(Tag.OTHER, Tag.PART) and ahead < 3:
            ahead += 1
        return self._at(ahead).has(Tag.ITEM)

    def _pattern_noun(self, mention: Mention) -> None:
        """«With white stripes» gives the garment a pattern, and the pattern a colour."""
        owner = self._owner
        if owner is None or self._at(1).has(*_HEADS, Tag.PATTERN, Tag.COLOUR):
            self._modifier(mention)
            return
        owner.state(Attribute.PATTERN, mention.value(Tag.PATTERN_NOUN), mention.span)
        marks = Thing(Role.PART, "marks", mention.span, self._start_of_phrase(mention))
        owner.parts.append(marks)
        self._dress(marks)
        self._settle(marks)

    def _borrow(self, part: Thing) -> None:
        """«A white toe and sole»: the second part has the colour of the first."""
        assert self._last is not None  # noqa: S101 - the caller looked
        for fact in self._last.all(Attribute.COLOUR):
            part.state(Attribute.COLOUR, fact.value, fact.span)

    def _whole(self, owner: Thing | None) -> None:
        """«The body of the bag is blue» speaks of the bag."""
        if owner is not None:
            self._dress(owner)
            self._subject = [owner]
        self._buffer, self._definite, self._indefinite = [], False, False
        self._copula = self._after_with = self._and_after_head = False

    def _hair(self, mention: Mention) -> None:
        self._dress(self._description.hair)
        self._subject = [self._description.hair]
        self._settle(self._description.hair)
        if self._description.hair.span == (0, 0):
            self._description.hair.span = mention.span

    def _skin_head(self, _mention: Mention) -> None:
        self._dress(self._skin)
        self._subject = [self._skin]
        self._settle(self._skin)

    def _figure(self, _mention: Mention) -> None:
        self._dress(self._description.person)
        self._subject = [self._description.person]
        self._settle(self._description.person)

    def _person(self, mention: Mention) -> None:
        if self._is_companion():
            self._buffer = []
            return
        person = self._description.person
        if mention.has(Tag.AGE):
            self._buffer.append(mention)
        self._dress(person)
        self._sex(mention.value(Tag.PERSON), mention.span)
        if person.span == (0, 0):
            person.span = mention.span
        self._settle(person)
        self._subject, self._person_acts = [person], self._at(1).phrase != "'s"

    def _is_companion(self) -> bool:
        """Whether «a woman» here is a picture, a fitting or somebody else."""
        if self._definite or not self._description.facts():
            return False
        if self._at(1).phrase == "'s":
            return True
        return self._after_with or self._carrying or self._before_is_relation()

    def _before_is_relation(self) -> bool:
        first = self._position - len(self._buffer) - 1
        while first >= 0 and self._mentions[first].has(Tag.INDEFINITE, Tag.OTHER, Tag.FILLER):
            first -= 1
        return first >= 0 and self._mentions[first].has(Tag.PREPOSITION, Tag.CARRY, Tag.IGNORED)

    # Attributes

    def _dress(self, thing: Thing) -> None:
        """States the modifiers collected so far of `thing`."""
        for position, mention in enumerate(self._buffer):
            following = self._buffer[position + 1] if position + 1 < len(self._buffer) else _END
            self._state(thing, mention, following)

    def _state(self, thing: Thing, mention: Mention, following: Mention) -> None:
        if thing.role is Role.PERSON:
            self._state_of_person(thing, mention, following)
        elif thing is self._description.hair:
            self._state_of_hair(mention)
        else:
            self._state_of_item(thing, mention)
        if mention.has(Tag.COLOUR) and thing.role is not Role.PERSON:
            self._colour(thing, mention)

    def _colour(self, thing: Thing, mention: Mention) -> None:
        start, shade = mention.span[0], ""
        index = self._buffer.index(mention)
        if index and self._buffer[index - 1].has(Tag.SHADE):
            start, shade = self._buffer[index - 1].span[0], self._buffer[index - 1].value(Tag.SHADE)
        span = (start, mention.span[1])
        thing.state(Attribute.COLOUR, mention.value(Tag.COLOUR), span)
        if shade:
            thing.shades[span] = shade

    def _state_of_item(self, thing: Thing, mention: Mention) -> None:
        if mention.has(Tag.PATTERN):
            thing.state(Attribute.PATTERN, mention.value(Tag.PATTERN), mention.span)
        if mention.has(Tag.SLEEVE):
            value = mention.value(Tag.SLEEVE)
            sleeve = value if value == "sleeveless" else f"{value} sleeves"
            thing.state(Attribute.LENGTH, sleeve, mention.span)
        if mention.has(Tag.REACH):
            thing.state(Attribute.LENGTH, f"{mention.value(Tag.REACH)}-length", mention.span)
        if mention.has(Tag.SIZE):
            self._size_of_item(thing, mention)

    def _size_of_item(self, thing: Thing, mention: Mention) -> None:
        size = mention.value(Tag.SIZE)
        if thing.kind == "sleeve":
            owner = self._owner or thing
            owner.state(Attribute.LENGTH, f"{size} sleeves", mention.span)
        elif thing.kind != "shorts" and size != "medium":
            thing.state(Attribute.LENGTH, size, mention.span)

    def _state_of_hair(self, mention: Mention) -> None:
        hair = self._description.hair
        if mention.has(Tag.SIZE):
            hair.state(Attribute.LENGTH, mention.value(Tag.SIZE), mention.span)
        if mention.has(Tag.HAIR_STYLE):
            hair.state(Attribute.HAIR, mention.value(Tag.HAIR_STYLE), mention.span)
        if mention.has(Tag.SHADE) and mention.value(Tag.SHADE) == "dark":
            following = self._buffer[self._buffer.index(mention) + 1 :]
            if not any(m.has(Tag.COLOUR) for m in following):
                hair.state(Attribute.COLOUR, "dark", mention.span)

    def _state_of_person(self, thing: Thing, mention: Mention, following: Mention) -> None:
        person, span = self._description.person, mention.span
        if mention.has(Tag.AGE):
            person.state(Attribute.AGE, mention.value(Tag.AGE), span)
        if mention.has(Tag.HEIGHT):
            person.state(Attribute.BUILD, f"{mention.value(Tag.HEIGHT)} height", span)
        if mention.has(Tag.BUILD):
            person.state(Attribute.BUILD, f"{mention.value(Tag.BUILD)} build", span)
        if mention.has(Tag.SKIN_TONE):
            person.state(Attribute.SKIN, mention.value(Tag.SKIN_TONE), span)
        if mention.value(Tag.SIZE) == "short" and thing is person:
            person.state(Attribute.BUILD, "short height", span)
        if mention.has(Tag.COLOUR):
            self._colour_of_person(mention)
        if thing is self._skin and mention.has(Tag.SHADE) and not following.has(Tag.COLOUR):
            tone = {"light": "fair", "dark": "dark"}.get(mention.value(Tag.SHADE))
            if tone:
                person.state(Attribute.SKIN, tone, span)

    def _colour_of_person(self, mention: Mention) -> None:
        colour = mention.value(Tag.COLOUR)
        if colour in _SINGLE_HAIR_COLOURS:
            self._description.hair.state(Attribute.COLOUR, colour, mention.span)
        elif colour in _SKIN_COLOURS:
            skin = _SKIN_COLOURS[colour]
            self._description.person.state(Attribute.SKIN, skin, mention.span)

    def _sex(self, sex: str, span: Span) -> None:
        if sex in ("male", "female"):
            self._description.person.state(Attribute.SEX, sex, span)

    def _hair_style(self, mention: Mention) -> None:
        style, hair = mention.value(Tag.HAIR_STYLE), self._description.hair
        if style in _STYLE_NOUNS or style == "bald":
            self._dress(hair)
            hair.state(Attribute.HAIR, style, mention.span)
            self._settle(hair)
        elif self._at(1).has(Tag.HAIR) or (self._head_is_hair() and self._buffer):
            self._modifier(mention)
        elif not self._at(1).has(*_HEADS) and (self._last is hair or hair in self._subject):
            self._flush()
            hair.state(Attribute.HAIR, style, mention.span)
        else:
            self._modifier(mention)

    def _head_is_hair(self) -> bool:
        for mention in self._mentions[self._position + 1 :]:
            if mention.has(Tag.HAIR):
                return True
            if not mention.has(*_MODIFIERS, Tag.AND, Tag.COMMA, Tag.HAIR_STYLE):
                return False
        return False

    def _action(self, mention: Mention) -> None:
        if self._at(1).has(Tag.ITEM) and not self._at(-1).has(Tag.BE, Tag.PRONOUN):
            return  # «cycling shorts»
        self._flush()
        if not self._negated and not self._item_acts():
            person = self._description.person
            person.state(Attribute.ACTION, mention.value(Tag.ACTION), mention.span)
        self._definite = self._indefinite = self._copula = False

    def _item_acts(self) -> bool:
        """Whether the verb here is said of a thing: «the glasses sit on her nose»."""
        if self._person_acts:
            return False
        back = 1
        while self._at(-back).has(Tag.OTHER, Tag.FILLER):
            back += 1
        return self._at(-back).has(Tag.ITEM, Tag.PART, Tag.HAIR, Tag.PATTERN_NOUN)

    def _level(self, mention: Mention) -> None:
        """«The jacket reaches his hips»: where a garment ends."""
        if self._at(1).has(Tag.ITEM):
            return
        self._flush()
        reaching = any(self._at(-back).has(Tag.REACHES) for back in range(1, 5))
        garment = self._last if self._last and self._last.role is Role.ITEM else self._owner
        if reaching and garment is not None:
            value = f"{mention.value(Tag.LEVEL)}-length"
            garment.state(Attribute.LENGTH, value, mention.span)

    # Sides

    def _take_side(self, mention: Mention) -> None:
        body = self._at(1).has(Tag.BODY, Tag.LEVEL)
        owned = self._at(-1).has(Tag.POSSESSIVE, Tag.DEFINITE)
        if not body and not (owned and self._at(1).has(Tag.STOP, Tag.COMMA, Tag.AND)):
            self._flush()
            return
        before = 1 if not owned else 2
        fronted = not self._at(-before).has(Tag.PREPOSITION, Tag.WEAR, Tag.CARRY, Tag.OF, Tag.WITH)
        opens = (
            self._at(-before - 1).has(Tag.STOP, Tag.COMMA, Tag.AND) or self._at(-before - 1) is _END
        )
        self._flush()
        where = self._at(1).phrase if body else "hand"
        preposition = self._at(-before).phrase if not fronted else ""
        place = (Place(mention.value(Tag.SIDE), where, preposition), mention.span)
        self._note_place(place)
        item = self._held_item()
        if fronted or opens or item is None:
            self._side = place
        else:
            self._put(item, place)

    def _note_place(self, place: tuple[Place, Span]) -> None:
        where, span = place
        fact = Fact(subject="text", attribute=Attribute.SIDE, value=where.side, span=span)
        self._description.places.append((where, fact))

    def _held_item(self) -> Thing | None:
        """What the sentence has at a hand or shoulder: the last accessory, else the last item."""
        for item in reversed(self._sentence_items):
            known = self._lexicon.attribute(item.kind)
            if known is Attribute.ACCESSORY and not item.values(Attribute.SIDE):
                return item
        return self._sentence_items[-1] if self._sentence_items else None

    def _put(self, item: Thing, place: tuple[Place, Span]) -> None:
        item.state(Attribute.SIDE, place[0].side, place[1])
        item.places.append(place[0])

    def _place(self, thing: Thing) -> None:
        if self._side is not None and not thing.negated:
            self._put(thing, self._side)
            self._side = None

    def _body(self, mention: Mention) -> None:
        if self._at(1).has(Tag.ITEM):
            return  # «wide-leg jeans»
        self._flush()
        before = self._at(-1)
        elsewhere = before.has(Tag.SIDE) or before.phrase == "each"
        if self._last is not None and self._last in self._sentence_items and not elsewhere:
            back = 2 if before.has(Tag.POSSESSIVE, Tag.DEFINITE, Tag.FILLER) else 1
            self._last.places.append(Place("", mention.phrase, self._at(-back).phrase))
        self._definite = self._indefinite = False

    # Predicates

    def _flush(self) -> None:
        """Ends a noun phrase without a head: a predicate, or «in black»."""
        buffer = self._buffer
        if not buffer:
            self._definite = self._indefinite = False
            return
        if self._negated:
            targets: list[Thing] = []
        elif self._copula:
            targets = self._subject or [self._description.person]
        else:
            targets = self._targets_without_verb()
        for target in targets:
            self._dress(target)
        self._buffer = []
        self._definite = self._indefinite = False

    def _targets_without_verb(self) -> list[Thing]:
        if self._before.has(*_HEADS) and self._last is not None:
            return [self._last]
        if self._before.phrase == "in":
            return [self._in_colour()]
        if self._last is None:
            return self._person_in_buffer()
        if self._before.has(Tag.OF) or self._earlier_still.phrase.endswith("ed"):
            return [self._last]
        if self._before.has(Tag.WITH) and self._buffer[-1].has(Tag.MATERIAL) and self._owner:
            trim = Thing(Role.PART, "trim", self._buffer[0].span, self._buffer[0].span)
            self._owner.parts.append(trim)
            return [trim]
        return self._person_in_buffer()

    def _person_in_buffer(self) -> list[Thing]:
        if any(m.has(Tag.AGE, Tag.HEIGHT, Tag.BUILD, Tag.SKIN_TONE) for m in self._buffer):
            return [self._description.person]
        return []

    def _in_colour(self) -> Thing:
        """«A jacket in blue», «dressed in black»."""
        dressed = self._earlier_still.has(Tag.WEAR, Tag.PERSON, Tag.BE, Tag.ACTION)
        if not dressed and self._last is not None and self._last.role is not Role.PERSON:
            return self._last
        clothing = Thing(Role.ITEM, "clothing", self._buffer[0].span, self._buffer[0].span)
        clothing.state(Attribute.GARMENT, "clothing", self._buffer[0].span)
        if any(m.has(Tag.COLOUR) for m in self._buffer):
            self._description.items.append(clothing)
        return clothing
