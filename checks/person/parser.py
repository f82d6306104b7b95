"""Parse the facts that an English description states about a person."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache

from loupe.checks.person.description import Description, Place, Role, Thing
from loupe.checks.person.lexicon import (
    HELD,
    NOTHING,
    Lexicon,
    Mention,
    Tag,
    find_mentions,
    load_lexicon,
)
from loupe.schemas.faithfulness import Attribute, Span

__all__ = ["parse_description"]


# The state of a reader: its position in the text, and the subject of the next words.

_OF_PERSONS = frozenset((Tag.AGE, Tag.HEIGHT, Tag.BUILD, Tag.SKIN_TONE))
_OF_THINGS = frozenset((Tag.COLOUR, Tag.SHADE, Tag.PATTERN, Tag.MATERIAL, Tag.DETAIL))
_MODIFIERS = _OF_PERSONS | _OF_THINGS | {Tag.SLEEVE, Tag.REACH, Tag.SIZE}
_HEADS = frozenset((Tag.ITEM, Tag.PART, Tag.HAIR, Tag.SKIN, Tag.FIGURE, Tag.PERSON))
_NAMING = _MODIFIERS | {Tag.OTHER, Tag.HAIR_STYLE, Tag.ITEM, Tag.PART, Tag.COLOUR_NOUN}
_JOINING = frozenset((Tag.AND, Tag.COMMA))
_BEFORE_HEAD = _MODIFIERS | _JOINING | {Tag.FILLER, Tag.OTHER, Tag.HAIR_STYLE}


_LIKE = ("like", "look", "effect")


@dataclass(slots=True)
class NounPhrase:
    """A noun phrase before its head: modifiers, article, and the two mentions before it."""

    modifiers: list[Mention] = field(default_factory=list)
    before: Mention = NOTHING
    earlier_still: Mention = NOTHING
    definite: bool = False
    indefinite: bool = False


@dataclass(slots=True)
class Reading:
    """One pass over one text.

    Attributes:
        position: the index of the current mention.
        skin: a thing that modifiers may describe; its facts are those of the person.
        phrase: the current noun phrase.
        joining: positions of the commas and conjunctions that did not end a noun phrase.
        subject: the subject of the next copula; two parts may share it.
        focus: the item that «it» refers to.
        last: the thing named last, which «in blue» and «and trousers» continue.
        owner: the item that parts, sleeves and hems belong to.
        open_parts: parts whose item may still follow («the brim and the crown of the hat»).
        side: a side of the body named before its item («in her right hand is …»).
        pattern_ahead: a pattern and its marks, named before their item («stripes on her bag»).
        place_ahead: a place named before its item («around his neck is …»).
        sentence_items: the items of this sentence.
        copula: whether «is» occurred, without a head since.
        person_acts: whether the subject of the next verb is the person instead of an item.
        negated: whether «no» or «without» occurred, without a head since.
        carrying: whether a verb of holding occurred, without a head since.
        after_with: whether «with» occurred, without a head since: the next words belong to a thing.
        and_after_head: whether the reader is after «hat and», so the next noun may share colours.
    """

    lexicon: Lexicon
    mentions: list[Mention]
    description: Description
    position: int = 0
    skin: Thing = field(default_factory=lambda: Thing(Role.PERSON, "skin"))
    phrase: NounPhrase = field(default_factory=NounPhrase)
    joining: set[int] = field(default_factory=set)
    subject: list[Thing] = field(default_factory=list)
    focus: Thing | None = None
    last: Thing | None = None
    owner: Thing | None = None
    open_parts: list[Thing] = field(default_factory=list)
    side: tuple[Place, Span] | None = None
    pattern_ahead: tuple[str, Thing] | None = None
    place_ahead: tuple[str, Span] | None = None
    sentence_items: list[Thing] = field(default_factory=list)
    copula: bool = False
    person_acts: bool = False
    negated: bool = False
    carrying: bool = False
    after_with: bool = False
    and_after_head: bool = False

    def at(self, offset: int) -> Mention:
        """Return the mention at this offset (backwards, if negative)."""
        position = self.position + offset
        return self.mentions[position] if 0 <= position < len(self.mentions) else NOTHING

    def following(self, mention: Mention) -> Mention:
        """Return the mention after this one, which the reader has passed or is at."""
        offset = 0
        while self.at(offset) is not mention:
            offset -= 1
        return self.at(offset + 1)

    def lately(self) -> list[Mention]:
        """Return the mentions before this one, in which a verb of reaching may be, last first."""
        return [self.at(-back) for back in range(1, 5)]

    def back_over(self, tags: frozenset[Tag]) -> int:
        """Return the number of mentions back to the first that has none of `tags`."""
        back = 1
        while self.at(-back).among(tags):
            back += 1
        return back

    def leads_to(self, wanted: frozenset[Tag], through: frozenset[Tag]) -> bool:
        """Whether one of `wanted` follows, with only mentions of `through` before it."""
        ahead = self.mentions[self.position + 1 :]
        stops = (one for one in ahead if one.among(wanted) or not one.among(through))
        return next(stops, NOTHING).among(wanted)

    def head_ahead(self) -> bool:
        """Whether only modifiers, commas and conjunctions precede a head without an article."""
        return self.leads_to(_HEADS, _BEFORE_HEAD)

    def take_modifier(self, mention: Mention) -> None:
        """Keep a modifier for the head, or for the subject of a phrase without a head."""
        phrase = self.phrase
        if self.at(1).phrase in _LIKE and mention.among(_OF_THINGS):  # «leather-like»
            return
        if not phrase.modifiers:
            phrase.before, phrase.earlier_still = self.at(-1), self.at(-2)
        phrase.modifiers.append(mention)

    def name_span(self, head: Mention) -> Span:
        """Return the head with the modifiers before it, known and unknown, without the article."""
        start = scan = self.position
        while scan > 0:
            scan -= 1
            if self.mentions[scan].among(_NAMING):
                start = scan
            elif scan not in self.joining:
                break
        return (self.mentions[start].span[0], head.span[1])

    def add_item(self, kind: str, span: Span, phrase: Span, *, negated: bool = False) -> Thing:
        """Add an item of a kind in the lexicon to the description."""
        thing = Thing(Role.ITEM, kind, span, phrase, negated=negated)
        value = f"no {kind}" if negated else kind
        thing.state(self.lexicon.kinds[kind].attribute, value, span)
        self.description.items.append(thing)
        return thing

    def end_phrase(self, thing: Thing) -> None:
        """End the noun phrase after its head, as a name of `thing`."""
        phrase = self.phrase
        phrase.modifiers, self.last = [], thing
        phrase.definite = phrase.indefinite = False
        self.copula = self.after_with = self.and_after_head = self.carrying = False
        if self.at(1).phrase not in ("or", "nor"):
            self.negated = False


# Attributes that the modifiers of a noun phrase state about its head.

_SKIN_OF_COLOUR = {
    "white": "fair",
    "beige": "fair",
    "pink": "fair",
    "yellow": "medium",
    "brown": "dark",
    "black": "dark",
}
_SKIN_OF_WORD = {"tan": "medium", "olive": "medium", "bronze": "medium", "caramel": "medium"}
_SKIN_OF_SHADE = {"light": "fair", "dark": "dark"}
_SHADES = {"navy": "dark"}
_HAIR_COLOURS = frozenset(("blond", "brunette", "ginger"))
_TRAITS = frozenset((Tag.HEIGHT, Tag.BUILD, Tag.SKIN_TONE))
_TRAIT_NOUNS = (
    "build",
    "figure",
    "physique",
    "body",
    "height",
    "stature",
    "skin",
    "skin tone",
    "complexion",
)


_STATED: dict[Role, dict[Tag, tuple[Attribute, str]]] = {
    Role.PERSON: {
        Tag.AGE: (Attribute.AGE, "{}"),
        Tag.HEIGHT: (Attribute.BUILD, "{} height"),
        Tag.BUILD: (Attribute.BUILD, "{} build"),
        Tag.SKIN_TONE: (Attribute.SKIN, "{}"),
        Tag.DETAIL: (Attribute.DETAIL, "{}"),
    },
    Role.HAIR: {
        Tag.SIZE: (Attribute.LENGTH, "{}"),
        Tag.REACH: (Attribute.LENGTH, "long"),
        Tag.HAIR_STYLE: (Attribute.HAIR, "{}"),
        Tag.DETAIL: (Attribute.DETAIL, "{}"),
    },
    Role.ITEM: {
        Tag.PATTERN: (Attribute.PATTERN, "{}"),
        Tag.MATERIAL: (Attribute.MATERIAL, "{}"),
        Tag.DETAIL: (Attribute.DETAIL, "{}"),
        Tag.BUILD: (Attribute.DETAIL, "{}"),
        Tag.HEIGHT: (Attribute.DETAIL, "{}"),
        Tag.REACH: (Attribute.LENGTH, "{}-length"),
        Tag.LEVEL: (Attribute.LENGTH, "{}-length"),
    },
}
"""The attribute that a tag states of the person, the hair, and an item or its part."""


def _state_modifiers(reading: Reading, thing: Thing) -> None:
    """State the modifiers collected so far of `thing`."""
    modifiers = _without_part_colours(reading, thing)
    for place, mention in enumerate(modifiers):
        of_person = thing.role is Role.PERSON or _names_a_trait(mention)
        role = Role.PERSON if of_person else Role.HAIR if thing.role is Role.HAIR else Role.ITEM
        told = reading.description.person if of_person else thing
        for tag, value in mention.values.items():
            if role is Role.HAIR and tag is Tag.DETAIL and Tag.HAIR_STYLE in mention.tags:
                continue
            if role is Role.PERSON and value == "large":
                told.state(Attribute.BUILD, "heavy build", mention.span)
            elif rule := _STATED[role].get(tag):
                told.state(rule[0], rule[1].format(value), mention.span)
            elif role is Role.ITEM:
                _state_length(reading, thing, tag, value, mention.span)
            elif role is Role.HAIR:
                is_dark = tag is Tag.SHADE and value == "dark"
                if is_dark and not any(Tag.COLOUR in one.tags for one in modifiers[place + 1 :]):
                    thing.state(Attribute.COLOUR, "dark", mention.span)
            elif tag is Tag.SIZE and value == "short":
                told.state(Attribute.BUILD, "short height", mention.span)
            elif tag is Tag.COLOUR:
                _state_colour_of_person(reading, mention, value, of_skin=thing is reading.skin)
            elif (
                tag is Tag.SHADE
                and thing is reading.skin
                and value in _SKIN_OF_SHADE
                and not any(Tag.COLOUR in one.tags for one in modifiers[place + 1 : place + 2])
            ):
                told.state(Attribute.SKIN, _SKIN_OF_SHADE[value], mention.span)
        if role is Role.ITEM and mention.phrase == "cropped":
            slot = reading.lexicon.slot(thing.kind)
            if slot in reading.lexicon.cropped:
                thing.state(Attribute.LENGTH, reading.lexicon.cropped[slot], mention.span)
        if not of_person and Tag.COLOUR in mention.tags:
            _state_colour(thing, mention, modifiers[place - 1] if place else NOTHING)


def _without_part_colours(reading: Reading, thing: Thing) -> list[Mention]:
    """Return the modifiers of `thing` except colours of a part («white-soled»), which it gets."""
    modifiers, rest = reading.phrase.modifiers, list[Mention]()
    if thing.role is not Role.ITEM:
        return modifiers
    for mention in modifiers:
        follows = reading.following(mention) if Tag.COLOUR in mention.tags else NOTHING
        part = reading.lexicon.part_adjectives.get(follows.phrase)
        if part is None:
            rest.append(mention)
            continue
        named = Thing(Role.PART, part, follows.span, mention.span)
        _state_colour(named, mention, NOTHING)
        thing.parts.append(named)
    return rest


def _names_a_trait(mention: Mention) -> bool:
    """Whether it names a trait of the person: «with a heavy build and short hair»."""
    return mention.among(_TRAITS) and mention.phrase.endswith(_TRAIT_NOUNS)


def _state_sex(reading: Reading, sex: str, span: Span) -> None:
    """State the sex of a noun or pronoun, if it has one."""
    if sex in ("male", "female"):
        reading.description.person.state(Attribute.SEX, sex, span)


def _state_colour(thing: Thing, mention: Mention, previous: Mention) -> None:
    """State a colour, together with the shade before it: «dark blue»."""
    shade = previous.value(Tag.SHADE) or _SHADES.get(mention.value(Tag.COLOUR), "")
    span = (previous.span[0] if Tag.SHADE in previous.tags else mention.span[0], mention.span[1])
    thing.state(Attribute.COLOUR, mention.value(Tag.COLOUR), span)
    if shade:
        thing.shades[span] = shade


def _state_length(reading: Reading, thing: Thing, tag: Tag, value: str, span: Span) -> None:
    """State sleeves, which are the garment's, or the length of an item."""
    garment = reading.owner if thing.kind == "sleeve" and reading.owner else thing
    if tag is Tag.SLEEVE or (tag is Tag.SIZE and thing.kind == "sleeve"):
        sleeve = value if value == "sleeveless" else f"{value} sleeves"
        garment.state(Attribute.LENGTH, sleeve, span)
    elif tag is Tag.SIZE and thing.kind != "shorts" and value != "medium":
        thing.state(Attribute.LENGTH, value, span)


def _state_colour_of_person(
    reading: Reading, mention: Mention, colour: str, *, of_skin: bool
) -> None:
    """Handle «a blond man», «a black woman», «tan skin»."""
    if colour in _HAIR_COLOURS:
        reading.description.hair.state(Attribute.COLOUR, colour, mention.span)
        return
    tone = _SKIN_OF_WORD.get(mention.phrase) or _SKIN_OF_COLOUR.get(colour)
    if tone is None and of_skin:
        reading.description.impossible.append(mention.span)
    elif tone is not None:
        reading.description.person.state(Attribute.SKIN, tone, mention.span)


# Noun phrases without a head: predicates («the hat is black») and «in black».

_BEFORE_DRESSED = frozenset((Tag.WEAR, Tag.PERSON, Tag.BE, Tag.ACTION))


_COUNTED_THROUGH = _MODIFIERS | {Tag.FILLER, Tag.OTHER, Tag.AND, Tag.COMMA}


def _state_count(reading: Reading, thing: Thing) -> None:
    """State the number before the noun phrase that ends here: «two black bags»."""
    compound = 1 if Tag.ITEM in reading.at(-1).tags else 0  # «two tote bags»
    for back in range(1 + compound, 7 + compound):
        mention = reading.at(-back)
        if Tag.NUMBER in mention.tags:
            thing.state(Attribute.COUNT, mention.value(Tag.NUMBER), mention.span)
        if not mention.among(_COUNTED_THROUGH):
            return


def _end_predicate(reading: Reading) -> None:
    """End the noun phrase here; its modifiers describe its subject."""
    phrase = reading.phrase
    if phrase.modifiers:
        for target in _targets(reading):
            _state_modifiers(reading, target)
        phrase.modifiers = []
    phrase.definite = phrase.indefinite = False


_WORKED_IN = ("embroidered", "printed", "dotted", "striped", "trimmed", "edged", "lettered")


def _targets(reading: Reading) -> list[Thing]:
    if reading.negated:
        return []
    if reading.phrase.earlier_still.phrase in _WORKED_IN and reading.phrase.before.phrase == "in":
        return []  # «embroidered in silver»
    if reading.copula:
        return reading.subject or [reading.description.person]
    phrase, last = reading.phrase, reading.last
    before = phrase.earlier_still if Tag.COMMA in phrase.before.tags else phrase.before
    if last is not None and before.among(_HEADS) and reading.at(0).phrase != "for":
        return [last]
    if phrase.before.phrase == "in":
        return [_dressed_in(reading)]
    of = Tag.INDEFINITE in phrase.before.tags and Tag.OF in phrase.earlier_still.tags
    if last is not None and (
        of or phrase.before.has(Tag.OF, Tag.REACHES) or phrase.earlier_still.phrase.endswith("ed")
    ):
        return [last]
    return _trim(reading) or _person(reading)


def _trim(reading: Reading) -> list[Thing]:
    """Handle «a coat with white fur»: a part that is only named by its material."""
    owner, modifiers = reading.owner, reading.phrase.modifiers
    if owner is None or reading.last is None:
        return []
    if Tag.WITH not in reading.phrase.before.tags or Tag.MATERIAL not in modifiers[-1].tags:
        return []
    trim = Thing(Role.PART, "trim", modifiers[0].span, modifiers[0].span)
    owner.parts.append(trim)
    return [trim]


def _person(reading: Reading) -> list[Thing]:
    """Handle «of medium build», which describes the person without a verb."""
    if any(mention.among(_OF_PERSONS) for mention in reading.phrase.modifiers):
        return [reading.description.person]
    return []


def _dressed_in(reading: Reading) -> Thing:
    """Handle «a jacket in blue», «dressed in black»."""
    phrase, last = reading.phrase, reading.last
    dressed = phrase.earlier_still.among(_BEFORE_DRESSED)
    if not dressed and last is not None and last.role is not Role.PERSON:
        return last
    span = phrase.modifiers[0].span
    kind = "shoes" if phrase.earlier_still.phrase == "shod" else "clothing"
    if any(Tag.COLOUR in mention.tags for mention in phrase.modifiers):
        return reading.add_item(kind, span, span)
    return Thing(Role.ITEM, kind)


# Between noun phrases: verbs, prepositions, «with», «is», «it», and the ends of sentences.

_HAVE = ("has", "have", "had", "having")


def _take_stop(reading: Reading, _mention: Mention) -> None:
    """End the sentence; only named things are kept, for «it» or «the hat»."""
    _end_predicate(reading)
    reading.subject, reading.open_parts, reading.sentence_items = [], [], []
    reading.side = reading.pattern_ahead = reading.place_ahead = None
    reading.copula = reading.person_acts = reading.negated = reading.carrying = False
    reading.after_with = reading.and_after_head = False


def _take_boundary(reading: Reading, mention: Mention) -> None:
    """End the noun phrase before a verb or preposition."""
    _end_predicate(reading)
    if Tag.WITH in mention.tags:
        _take_with(reading, mention)
    if Tag.CARRY in mention.tags:
        reading.carrying = mention.phrase.startswith(HELD)
    if mention.phrase != "in" and mention.has(Tag.WEAR, Tag.CARRY):
        reading.after_with = reading.copula = False
    reading.and_after_head = False


def _take_negation(reading: Reading, _mention: Mention) -> None:
    """Apply «no» or «without» to the next head."""
    _end_predicate(reading)
    reading.negated = True


def _take_denial(reading: Reading, mention: Mention) -> None:
    """Handle «barefoot», «unbelted»: the person has no such item."""
    reading.add_item(mention.value(Tag.DENIAL), mention.span, mention.span, negated=True)


def _take_it(reading: Reading, _mention: Mention) -> None:
    """Resolve «it» or «which» to the item in focus."""
    _end_predicate(reading)
    reading.subject = [reading.focus] if reading.focus else []
    if reading.focus:
        reading.owner = reading.focus
    reading.copula = False


def _take_copula(reading: Reading, _mention: Mention) -> None:
    """Handle «is»: the next modifiers describe the subject."""
    _end_predicate(reading)
    reading.copula = reading.at(-1).phrase != "there"
    reading.after_with = False


def _take_nothing(_reading: Reading, _mention: Mention) -> None:
    """Skip words that change nothing: «very», «colour», «pair»."""


def _take_with(reading: Reading, mention: Mention) -> None:
    """Handle «with», which continues the thing before, and «has», which continues the subject."""
    subject = reading.subject[0] if reading.subject else None
    has = mention.phrase in _HAVE
    of_person = subject is None or subject.role is not Role.ITEM
    reading.after_with = not (has and of_person)
    if has and not of_person:
        reading.owner = subject


# Heads that are parts of items: collars, soles, straps, and the stripes of a shirt.

_MODIFIES_WITH = _HEADS | {Tag.PATTERN, Tag.COLOUR}


def _take_part(reading: Reading, mention: Mention) -> None:
    """Handle a head noun that names a part of the item before, or of one still to come."""
    name, owner = mention.value(Tag.PART), reading.owner
    if _leads_to_item(reading):
        return
    if Tag.BODY in mention.tags and _is_place(reading):
        _take_body(reading, mention)
        return
    if name == "whole" and any(m.among(_OF_PERSONS) for m in reading.phrase.modifiers):
        _end_head(reading, reading.description.person)  # «a slender body»
    elif owner is None and name in ("print", "whole"):
        reading.phrase.modifiers = []
    elif name == "whole":
        _take_whole(reading, owner)
    else:
        _end_part(reading, _find_part(reading, name, mention))


_BEFORE_PLACE = frozenset((Tag.DEFINITE, Tag.POSSESSIVE, Tag.PREPOSITION, Tag.SIDE))


def _is_place(reading: Reading) -> bool:
    """Whether «back» or «front» is a place, and not a part of a hat."""
    before = reading.at(-1)
    led = before.has(Tag.PREPOSITION, Tag.WEAR) or reading.at(-2).has(Tag.PREPOSITION, Tag.WEAR)
    owned = Tag.POSSESSIVE in before.tags and before.phrase != "its"
    return not reading.phrase.modifiers and before.among(_BEFORE_PLACE) and (led or owned)


def _take_pattern_noun(reading: Reading, mention: Mention) -> None:
    """Handle «with white stripes»: the garment gets a pattern, and the pattern a colour."""
    owner, ahead = reading.owner, _covers_what_follows(reading)
    if (owner is None and not ahead) or reading.at(1).among(_MODIFIES_WITH):
        reading.take_modifier(mention)
        return
    pattern = mention.value(Tag.PATTERN_NOUN)
    if owner is None or ahead:
        marks = Thing(Role.PART, "marks", mention.span, reading.name_span(mention))
        _state_modifiers(reading, marks)
        reading.phrase.modifiers = []
        reading.pattern_ahead = (pattern, marks)
        return
    owner.state(Attribute.PATTERN, pattern, mention.span)
    _add_named_part(reading, owner, "marks", mention)


def _covers_what_follows(reading: Reading) -> bool:
    """Handle «stripes on her bag»: the item with the pattern is named after it."""
    if Tag.COVERING not in reading.at(1).tags or Tag.WITH in reading.phrase.before.tags:
        return False
    ahead = reading.mentions[reading.position + 2 :]
    return Tag.ITEM in _first_of(ahead, Tag.ITEM, Tag.STOP, Tag.COMMA, Tag.IT).tags


def _first_of(mentions: Iterable[Mention], *tags: Tag) -> Mention:
    """Return the first mention with one of `tags`, or `NOTHING`."""
    return next((mention for mention in mentions if mention.has(*tags)), NOTHING)


def _add_named_part(reading: Reading, owner: Thing, name: str, head: Mention) -> None:
    """Give `owner` a new part with the modifiers collected so far."""
    part = Thing(Role.PART, name, head.span, reading.name_span(head))
    owner.parts.append(part)
    _state_modifiers(reading, part)
    reading.end_phrase(part)


def _own_parts(reading: Reading, thing: Thing) -> None:
    """Give parts to their item, as in «the brim and the crown of the hat»."""
    for part in reading.open_parts:
        for item in reading.description.items:
            if part in item.parts:
                item.parts.remove(part)
        thing.parts.append(part)
    reading.subject, reading.open_parts = reading.open_parts, []


def _leads_to_item(reading: Reading) -> bool:
    """Whether a part is only the first word of an item's name: «zip-up hoodie»."""
    ahead = 1
    while ahead < 3 and reading.at(ahead).has(Tag.OTHER, Tag.PART, Tag.SLEEVE):
        ahead += 1
    return Tag.ITEM in reading.at(ahead).tags


def _take_whole(reading: Reading, owner: Thing | None) -> None:
    """Handle «the body of the bag is blue», which describes the bag."""
    if owner is not None:
        _state_modifiers(reading, owner)
        reading.subject = [owner]
    reading.phrase = NounPhrase()
    reading.copula = reading.after_with = reading.and_after_head = False


def _find_part(reading: Reading, name: str, mention: Mention) -> Thing:
    """Return the part of the item before that was named already, or a new one."""
    owner, phrase = reading.owner, reading.phrase
    earlier = next((p for p in owner.parts if p.kind == name), None) if owner else None
    if earlier is not None and phrase.definite and not phrase.modifiers:
        return earlier
    part = Thing(Role.PART, name, mention.span, reading.name_span(mention))
    if owner is not None:
        owner.parts.append(part)
    return part


def _end_part(reading: Reading, part: Thing) -> None:
    last = reading.last
    if reading.and_after_head and not reading.phrase.modifiers and last is not None:
        for fact in last.all(Attribute.COLOUR):  # «a white toe and sole»
            part.state(Attribute.COLOUR, fact.value, fact.span)
    _end_head(reading, part)
    _state_count(reading, part)
    reading.open_parts.append(part)


# Finds the item of a head noun: one named before, the subject by a closer name, or a new one.


def _find_item(reading: Reading, mention: Mention) -> Thing:
    """Return the item that the head noun `mention` names."""
    kind = mention.value(Tag.ITEM)
    for modifier in reading.phrase.modifiers if kind in reading.lexicon.renamed else ():
        length = modifier.value(Tag.SIZE) or modifier.value(Tag.SLEEVE)
        kind = reading.lexicon.renamed.get(kind, {}).get(length, kind)
    return (
        _renamed(reading, kind, mention)
        or _earlier_item(reading, kind)
        or _new_item(reading, kind, mention)
    )


def _earlier_of_kind(reading: Reading, kind: str) -> Thing | None:
    """Return the last item that `kind` may be another word for."""
    is_a = reading.lexicon.is_a
    for item in reversed(reading.description.items):
        if not item.negated and (is_a(item.kind, kind) or is_a(kind, item.kind)):
            return item
    return None


def _renamed(reading: Reading, kind: str, mention: Mention) -> Thing | None:
    """Handle «her top is a yellow camisole»: the subject, under the closer of both names."""
    subject = reading.subject[0] if reading.subject else None
    if not reading.copula or subject is None or subject.role is not Role.ITEM:
        return None
    verb = reading.back_over(_MEASURED_THROUGH)
    if Tag.BE not in reading.at(-verb).tags:
        return None  # «her shirt is worn over a T-shirt»
    if Tag.PREPOSITION in reading.at(-verb - 2).tags:
        return None  # «beneath that is a T-shirt»
    if not reading.lexicon.is_a(kind, subject.kind):
        return None
    attribute = reading.lexicon.kinds[kind].attribute
    subject.stated.pop(attribute, None)
    subject.kind, subject.span = kind, mention.span
    subject.phrase = reading.name_span(mention)
    subject.state(attribute, kind, mention.span)
    return subject


def _earlier_item(reading: Reading, kind: str) -> Thing | None:
    earlier = None
    if not reading.phrase.indefinite and not reading.negated:
        earlier = _earlier_of_kind(reading, kind)
    if earlier is None and reading.at(-1).phrase in ("the", "this", "these"):
        earlier = _only_in_slot(reading, kind)
    return earlier if earlier is not None and _may_be(reading, earlier, kind) else None


def _only_in_slot(reading: Reading, kind: str) -> Thing | None:
    """Handle «the pants» after «shorts»: the only item in the slot of this kind."""
    slot_of = reading.lexicon.slot
    there = [item for item in reading.description.items if slot_of(item.kind) == slot_of(kind)]
    return there[0] if len(there) == 1 else None


def _may_be(reading: Reading, earlier: Thing, kind: str) -> bool:
    """Whether a phrase without «a» may refer to an item named before: not in other colours."""
    known = earlier.values(Attribute.COLOUR)
    named = [m.value(Tag.COLOUR) for m in reading.phrase.modifiers if Tag.COLOUR in m.tags]
    if known and not all(reading.lexicon.has_near("colours", known, one) for one in named):
        return False
    listed = kind != earlier.kind and earlier in reading.sentence_items and not reading.after_with
    return reading.phrase.definite or not (listed or (reading.and_after_head and not named))


def _new_item(reading: Reading, kind: str, mention: Mention) -> Thing:
    name = reading.name_span(mention)
    thing = reading.add_item(kind, mention.span, name, negated=reading.negated)
    thing.carried = reading.carrying
    if reading.and_after_head and not reading.phrase.modifiers and reading.last is not None:
        thing.inherited = reading.last.values(Attribute.COLOUR)
    return thing


# Sides and places: items at a hand, shoulder, foot.

_ENDS = frozenset((Tag.STOP, Tag.COMMA, Tag.AND))
_AFTER_SIDE = _ENDS | {Tag.PREPOSITION, Tag.INDEFINITE, Tag.CARRY, Tag.BE}
_LEADS_IN = frozenset((Tag.PREPOSITION, Tag.WEAR, Tag.CARRY, Tag.OF, Tag.WITH))


def _take_side(reading: Reading, mention: Mention) -> None:
    """Handle «(in) her left hand»: of the item before, or of the next if the place came first."""
    body = reading.at(1).has(Tag.BODY, Tag.LEVEL)
    if mention.phrase == "both" and not body:
        return
    owned = reading.at(-1).has(Tag.POSSESSIVE, Tag.DEFINITE)
    _end_predicate(reading)
    if Tag.PART in reading.at(1).tags and not body:  # «the left pocket»
        place = Place(mention.value(Tag.SIDE), reading.at(1).phrase)
        reading.description.places.append((place, mention.span))
    if not body and not (owned and reading.at(1).among(_AFTER_SIDE)):
        return
    before, earlier = (
        (reading.at(-2), reading.at(-3)) if owned else (reading.at(-1), reading.at(-2))
    )
    fronted = not before.among(_LEADS_IN)
    opens = earlier is NOTHING or earlier.among(_ENDS)
    where = reading.at(1).phrase if body else "hand"
    place = Place(mention.value(Tag.SIDE), where, "" if fronted else before.phrase)
    reading.description.places.append((place, mention.span))
    item = _item_at_hand(reading)
    if fronted or opens:
        reading.side = (place, mention.span)
    elif item is not None:
        _put(reading, item, place, mention.span)


def _take_body(reading: Reading, mention: Mention) -> None:
    """Handle «in her hands», «on his back»: a place without a side."""
    if Tag.ITEM in reading.at(1).tags:
        return  # «wide-leg jeans»
    _end_predicate(reading)
    _state_hair_reach(reading, mention, mention.value(Tag.BODY))
    _state_sleeve_reach(reading, mention)
    if _wait_for_item(reading, mention.value(Tag.BODY), mention.span):
        return
    before, item = reading.at(-1), reading.last
    elsewhere = Tag.SIDE in before.tags or before.phrase == "each"
    if item is not None and item in reading.sentence_items and not elsewhere:
        back = 2 if before.has(Tag.POSSESSIVE, Tag.DEFINITE, Tag.FILLER) else 1
        item.places.append(Place("", mention.phrase, reading.at(-back).phrase))
        if not reading.at(-back).among(_ENDS):
            _place(item, mention)
    elif item is not None and item.role is Role.PART and not elsewhere:
        _place(item, mention)


def _state_hair_reach(reading: Reading, mention: Mention, place: str) -> None:
    """Handle «her hair falls to her chest»: the length of hair."""
    hair = reading.description.hair
    length = reading.lexicon.hair_reach.get(place)
    if length is None:
        return
    back = reading.back_over(_BACK_TO_HAIR)
    if not reading.at(-back).has(Tag.HAIR, Tag.HAIR_STYLE):
        return
    if any(Tag.REACHES in one.tags or one.phrase in _CUT for one in reading.lately()):
        hair.state(Attribute.LENGTH, length, mention.span)


def _state_sleeve_reach(reading: Reading, mention: Mention) -> None:
    """Handle «its sleeves end at the elbow»: the sleeves of the garment before."""
    sleeves = reading.lexicon.sleeve_reach.get(mention.phrase.removesuffix("s"))
    if sleeves is not None and reading.owner is not None:
        back = reading.back_over(_BACK_TO_SLEEVE)
        verb = _first_of(reading.lately(), Tag.REACHES)
        if verb is not NOTHING and reading.at(-back).value(Tag.PART) == "sleeve":
            reading.owner.state(Attribute.LENGTH, sleeves, mention.span)


_BACK_TO_HAIR = frozenset(Tag) - {Tag.HAIR, Tag.HAIR_STYLE, Tag.ITEM, Tag.ACTION, Tag.STOP}
_BACK_TO_SLEEVE = frozenset(Tag) - {Tag.PART, Tag.ITEM, Tag.ACTION, Tag.STOP}
_CUT = ("cut", "cropped", "halfway", "middle", "down")


def _place(thing: Thing, mention: Mention) -> None:
    thing.state(Attribute.PLACE, mention.value(Tag.BODY), mention.span)


def _wait_for_item(reading: Reading, place: str, span: Span) -> bool:
    """Handle «around his neck is a camera»: keep the place for the item that follows."""
    back = 2 if reading.at(-1).has(Tag.POSSESSIVE, Tag.DEFINITE) else 1
    front = reading.at(-back - 1)
    if not reading.at(-back).has(Tag.PREPOSITION, Tag.WEAR):
        return False
    if front is not NOTHING and not front.among(_ENDS):
        return False
    reading.place_ahead = (place, span)
    return True


def _item_at_hand(reading: Reading) -> Thing | None:
    """Return the item at a hand or shoulder: the last accessory, else the last item."""
    for item in reversed(reading.sentence_items):
        is_accessory = reading.lexicon.attribute(item.kind) is Attribute.ACCESSORY
        if is_accessory and not item.values(Attribute.SIDE):
            return item
    return reading.sentence_items[-1] if reading.sentence_items else None


def _put(reading: Reading, item: Thing, place: Place, span: Span) -> None:
    if place.side != "both":
        item.state(Attribute.SIDE, place.side, span)
        meaning = reading.lexicon.meanings.get((place.body,))
        if meaning is not None and Tag.BODY in meaning.tags:
            item.state(Attribute.PLACE, meaning.values[Tag.BODY], span)
    item.places.append(place)


# Heads that are worn or carried: items in the lexicon, and other things.

_NAME_GOES_ON = _HEADS | _MODIFIERS | {Tag.OTHER}
_STYLED = ("style", "styled", "like", "cut")
_IN_LIKENESS = _MODIFIERS | {
    *(Tag.INDEFINITE, Tag.DEFINITE, Tag.OTHER, Tag.FILLER, Tag.PERSON),
}
_LIST_GOES_ON = _NAME_GOES_ON | {Tag.AND, Tag.COMMA}


def _take_item(reading: Reading, mention: Mention) -> None:
    """Handle a head noun that names a garment, footwear or accessory."""
    follows, before = reading.at(1), reading.at(-1)
    acts = Tag.ACTION in mention.tags and before.has(Tag.AND, Tag.PRONOUN, Tag.PERSON)
    if acts:  # «waits and drinks»
        _take_action(reading, mention)
    if acts or _is_verb(reading, 0):
        return
    goes_on = Tag.ITEM in follows.tags and not _is_verb(reading, 1)
    if goes_on or (follows.phrase in _STYLED and Tag.ITEM in reading.at(2).tags):
        return
    if likened := _is_likened(reading):
        reading.description.likened.append((mention.value(Tag.ITEM), mention.span))
    if likened or _is_reached(reading):
        reading.phrase.modifiers, reading.last = [], None
        return
    if mention.phrase.endswith("ed"):  # «white and bearded» describes the person before
        _end_predicate(reading)
    if Tag.PART in follows.tags:  # «a white shirt collar shows» implies a shirt
        kind, span = mention.value(Tag.ITEM), mention.span
        reading.owner = _earlier_of_kind(reading, kind) or reading.add_item(kind, span, span)
        return
    thing = _find_item(reading, mention)
    if reading.open_parts and _has_parts_before(reading):
        _own_parts(reading, thing)
    else:
        reading.subject, reading.open_parts = [thing], []
    _end_item(reading, thing)


def _is_verb(reading: Reading, offset: int) -> bool:
    """Whether it is a verb: «ribbons tie the pigtails», «a top that ties at the waist»."""
    before, follows = reading.at(offset - 1), reading.at(offset + 1)
    if before.phrase in ("that", "which", "who"):
        return reading.at(offset).phrase.endswith("s") and Tag.BE not in follows.tags
    opens = follows.has(Tag.DEFINITE, Tag.POSSESSIVE) and follows.phrase != "that"
    if opens and before.has(Tag.ITEM, Tag.PRONOUN, Tag.COLOUR, Tag.MATERIAL):
        return True
    shades = Tag.INDEFINITE in follows.tags and reading.at(offset).phrase.endswith("s")
    bare = Tag.HAIR in before.tags and follows.phrase in ("out", "down", "over")
    subject = before.has(Tag.COMMA, Tag.COLOUR, Tag.PART, Tag.HAIR, Tag.PERSON)
    return bare or (shades and subject)


def _has_parts_before(reading: Reading) -> bool:
    """Whether the noun phrase begins with «the» or «of his», as after «the toes»."""
    back = reading.back_over(_MODIFIERS)
    before = reading.at(-back)
    if back == 1:
        return before.has(Tag.DEFINITE, Tag.OF, Tag.POSSESSIVE)
    return Tag.OF in before.tags or Tag.OF in reading.at(-back - 1).tags


def _is_reached(reading: Reading) -> bool:
    """Handle «the jeans reach down to the shoes»: a length, and no fact about the shoes."""
    article = reading.at(-1).has(Tag.DEFINITE, Tag.POSSESSIVE)
    return article and Tag.REACHES in reading.at(-2).tags


def _is_likened(reading: Reading) -> bool:
    """Whether it is a comparison: «hair styled like a pilot's cap»."""
    for mention in reversed(reading.mentions[: reading.position]):
        if Tag.LIKENING in mention.tags:
            return True
        if mention.phrase != "'s" and not mention.among(_IN_LIKENESS):
            return False
    return False


def _take_other(reading: Reading, mention: Mention) -> None:
    """Handle a word that the lexicon does not know: part of a name, or itself a thing."""
    if mention.phrase in ("'s", "'"):
        return
    if mention.phrase in ("one", "ones") and reading.phrase.modifiers and reading.last is not None:
        _state_modifiers(reading, reading.last)
        reading.phrase.modifiers = []
        return
    if Tag.MEASURE in mention.tags:
        _take_measure(reading)
        return
    follows = reading.at(1)
    if follows.has(Tag.BODY, Tag.LEVEL) and Tag.ITEM in reading.at(2).tags:
        return
    if not follows.among(_NAME_GOES_ON) and _names_a_thing(reading, mention):
        _take_unknown(reading, mention)
    elif not follows.among(_LIST_GOES_ON):
        _end_predicate(reading)


_MEASURED_THROUGH = _MODIFIERS | {Tag.INDEFINITE, Tag.DEFINITE, Tag.FILLER}


def _take_measure(reading: Reading) -> None:
    """Handle «it has a large capacity», which describes the bag instead of naming an item."""
    verb = reading.at(-reading.back_over(_MEASURED_THROUGH))
    subject = reading.subject[0] if reading.subject else reading.owner
    if subject is not None and subject.role is Role.ITEM and not verb.has(Tag.WEAR, Tag.OF):
        _state_modifiers(reading, subject)
        reading.phrase.modifiers = []
    _end_predicate(reading)


def _names_a_thing(reading: Reading, mention: Mention) -> bool:
    """Whether an unknown word at the end of a noun phrase is a thing with known attributes."""
    if (reading.copula and not reading.phrase.indefinite) or not mention.phrase.isalpha():
        return False
    if mention.phrase.endswith(("ly", "ing", "ed")):
        return False
    if any(Tag.DEPICTING in reading.at(-back).tags for back in (2, 3)):
        return False  # «the picture of a beauty»
    described = any(m.has(Tag.COLOUR, Tag.PATTERN) for m in reading.phrase.modifiers)
    follows = reading.at(1).tags
    listed = Tag.AND in follows or (Tag.COMMA in follows and not described)
    if listed and reading.head_ahead():
        return False
    return described or (reading.carrying and reading.phrase.indefinite)


def _take_unknown(reading: Reading, mention: Mention) -> None:
    """Handle a thing that the lexicon does not know, or («with a gold buckle») a part of one."""
    last, of = reading.last, Tag.OF in reading.phrase.before.tags
    if of and last is not None and last.role is Role.PART:
        _state_modifiers(reading, last)
        reading.end_phrase(last)
        return
    wearer = last if last is reading.description.hair else reading.owner
    if reading.after_with and wearer is not None:
        _add_named_part(reading, wearer, mention.phrase, mention)
        return
    thing = Thing(Role.ITEM, mention.phrase, mention.span, reading.name_span(mention))
    thing.known, thing.negated = False, reading.negated
    if reading.carrying and not reading.phrase.modifiers:
        thing.state(Attribute.ACCESSORY, mention.phrase, mention.span)
    reading.description.items.append(thing)
    reading.subject = [thing]
    _end_item(reading, thing)


def _end_item(reading: Reading, thing: Thing) -> None:
    """Make the item the current subject of the text."""
    _state_modifiers(reading, thing)
    _state_words_of_name(reading, thing)
    _state_count(reading, thing)
    if reading.side is not None and not thing.negated:  # a place named before is waiting for it
        _put(reading, thing, *reading.side)
        reading.side = None
    if reading.place_ahead is not None:
        thing.state(Attribute.PLACE, *reading.place_ahead)
        reading.place_ahead = None
    if reading.pattern_ahead is not None:
        pattern, marks = reading.pattern_ahead
        thing.state(Attribute.PATTERN, pattern, marks.span)
        thing.parts.append(marks)
        reading.pattern_ahead = None
    reading.end_phrase(thing)
    reading.owner = thing
    if not (reading.sentence_items and _is_under(reading)):
        reading.focus = thing
    reading.sentence_items.append(thing)


def _is_under(reading: Reading) -> bool:
    """Whether it is under another item: after «a jacket over a shirt», «it» is the jacket."""
    return reading.at(-reading.back_over(_MEASURED_THROUGH)).phrase == "over"


def _state_words_of_name(reading: Reading, thing: Thing) -> None:
    """State the material and length in names such as «canvas shoes» and «a mini skirt»."""
    mention = reading.mentions[reading.position]
    for word in mention.phrase.split():
        meaning = reading.lexicon.meanings.get((word,))
        for tag in (Tag.MATERIAL, Tag.REACH):
            if meaning is not None and tag in meaning.tags:
                attribute, value = _STATED[Role.ITEM][tag]
                thing.state(attribute, value.format(meaning.values[tag]), mention.span)


# Inside a noun phrase: articles, and the commas and conjunctions between modifiers.

_PREDICATE_GOES_ON = _MODIFIERS | {Tag.AND}


def _take_article(reading: Reading, mention: Mention) -> None:
    """Handle «a», «the», «his»; «one» is an article or, after modifiers, a noun."""
    if mention.phrase == "one" and (
        reading.phrase.modifiers or Tag.DEFINITE in reading.at(-1).tags
    ):
        _take_other(reading, mention)
        return
    _end_predicate(reading)
    reading.phrase.definite = mention.has(Tag.DEFINITE, Tag.POSSESSIVE)
    reading.phrase.indefinite = not reading.phrase.definite
    reading.and_after_head = False
    _state_sex(reading, mention.value(Tag.POSSESSIVE), mention.span)


def _take_conjunction(reading: Reading, mention: Mention) -> None:
    """Handle a comma, «and», «or»: inside a noun phrase, at its end, or between two."""
    is_comma = Tag.COMMA in mention.tags
    if not reading.phrase.modifiers:
        if Tag.AND in mention.tags and reading.at(-1).has(Tag.ITEM, Tag.PART):
            reading.and_after_head = True
    elif _ends_phrase(reading, mention):
        _end_predicate(reading)
    else:
        reading.joining.add(reading.position)
    if is_comma and not reading.phrase.modifiers:
        reading.carrying = reading.after_with = False
    if reading.negated and mention.phrase != "or":
        reading.negated = mention.phrase == "nor"


def _ends_phrase(reading: Reading, mention: Mention) -> bool:
    """Whether a comma or conjunction after modifiers ends them: no head or colour follows."""
    follows, before = reading.at(1), reading.phrase.before
    is_comma, head_ahead = Tag.COMMA in mention.tags, reading.head_ahead()
    if Tag.AND in mention.tags and follows.has(Tag.COLOUR, Tag.SHADE) and not head_ahead:
        return False
    if before.phrase == "in" and reading.last is not None and (is_comma or _is_list(reading)):
        return Tag.AND not in follows.tags
    if Tag.AND in mention.tags and Tag.COMMA in before.tags and not head_ahead:
        return not (follows.among(_MODIFIERS) and reading.phrase.earlier_still.among(_HEADS))
    if is_comma and Tag.OF in before.tags:
        return True
    if is_comma and Tag.COMMA in before.tags and _is_coloured_twice(reading):
        return True
    if Tag.MATERIAL in reading.phrase.modifiers[-1].tags and before.has(Tag.WITH, Tag.OF):
        return True
    predicate_ends = reading.copula and is_comma
    return not head_ahead or (predicate_ends and not follows.among(_PREDICATE_GOES_ON))


def _is_coloured_twice(reading: Reading) -> bool:
    """«A blouse, blue and white, tight black trousers»: a colour before this comma and after."""
    if not reading.phrase.earlier_still.among(_HEADS):
        return False
    if not any(Tag.COLOUR in mention.tags for mention in reading.phrase.modifiers):
        return False
    return reading.leads_to(frozenset((Tag.COLOUR,)), _BEFORE_HEAD)


def _is_list(reading: Reading) -> bool:
    """Whether the modifiers so far were joined: «in red, white and …»."""
    start = reading.mentions.index(reading.phrase.modifiers[0])
    return any(start <= position < reading.position for position in reading.joining)


# The person and the hair: nouns, pronouns, hair styles, and actions of the person.

_STYLE_NOUNS = frozenset(("ponytail", "bun", "braid", "bangs", "bald", "receding", "bob"))
_CURLS = frozenset(("curls", "curl", "ringlets"))
_BEFORE_HAIR = _MODIFIERS | {Tag.AND, Tag.COMMA, Tag.HAIR_STYLE}


def _take_person(reading: Reading, mention: Mention) -> None:
    """Handle «a young man»: the person described, unless it is another one."""
    if _is_somebody_else(reading):
        reading.phrase.modifiers = []
        return
    person = reading.description.person
    if Tag.AGE in mention.tags:
        reading.phrase.modifiers.append(mention)
    _end_head(reading, person)
    _state_sex(reading, mention.value(Tag.PERSON), mention.span)
    if person.span == (0, 0):
        person.span = mention.span
    reading.person_acts = reading.at(1).phrase != "'s"


def _take_pronoun(reading: Reading, mention: Mention) -> None:
    """Handle «he», «she»; «they» may also be shoes."""
    if Tag.ITEM in reading.at(-1).tags:  # «the blouse she has on is …»
        _state_sex(reading, mention.value(Tag.PRONOUN), mention.span)
        _end_predicate(reading)
        return
    _end_predicate(reading)
    focus = reading.focus
    plural = mention.phrase == "they" and focus is not None and focus.kind.endswith("s")
    if focus is not None and plural and Tag.BE in reading.at(1).tags:
        reading.subject = [focus]
    else:
        reading.subject = [reading.description.person]
        _state_sex(reading, mention.value(Tag.PRONOUN), mention.span)
    reading.copula, reading.after_with, reading.person_acts = False, False, True


def _take_hair(reading: Reading, mention: Mention) -> None:
    """Handle «long brown hair»."""
    hair = reading.description.hair
    _end_head(reading, hair)
    if hair.span == (0, 0):
        hair.span = mention.span


def _take_hair_style(reading: Reading, mention: Mention) -> None:
    """Handle «in a ponytail», «straight hair», «her hair is loose»."""
    style, hair = mention.value(Tag.HAIR_STYLE), reading.description.hair
    if style in _STYLE_NOUNS or mention.phrase in _CURLS:
        _end_head(reading, hair)
        hair.state(Attribute.HAIR, style, mention.span)
    elif (
        _leads_to_hair(reading)
        or reading.at(1).among(_HEADS)
        or reading.head_ahead()
        or not _is_of_hair(reading)
    ):
        reading.take_modifier(mention)
    else:
        _end_predicate(reading)
        hair.state(Attribute.HAIR, style, mention.span)


def _take_action(reading: Reading, mention: Mention) -> None:
    """Handle «walking», «rides»: an action of the person, unless a thing does it."""
    if Tag.ITEM in reading.at(1).tags and not reading.at(-1).has(Tag.BE, Tag.PRONOUN):
        return  # «cycling shorts»
    if Tag.PREPOSITION in reading.at(1).tags and reading.at(3).among(_ON_BODY):
        _end_predicate(reading)
        return  # «seated on his back is a bag»
    _end_predicate(reading)
    if not reading.negated and not _item_acts(reading):
        person = reading.description.person
        person.state(Attribute.ACTION, mention.value(Tag.ACTION), mention.span)
    reading.copula = False


_ON_BODY = frozenset((Tag.BODY, Tag.SIDE))


def _end_head(reading: Reading, thing: Thing) -> None:
    _state_modifiers(reading, thing)
    reading.subject = [thing]
    reading.end_phrase(thing)


def _is_somebody_else(reading: Reading) -> bool:
    """Whether «a woman» here is a picture, a style of garment or a companion."""
    if _is_depicted(reading) or _is_on_item(reading):
        return True
    if reading.phrase.definite or not reading.description.states_anything():
        return False
    if reading.at(1).phrase == "'s" or reading.after_with or reading.carrying:
        return True
    first = reading.position - len(reading.phrase.modifiers) - 1
    while first >= 0 and reading.mentions[first].has(Tag.INDEFINITE, Tag.OTHER, Tag.FILLER):
        first -= 1
    relations = (Tag.PREPOSITION, Tag.CARRY, Tag.IGNORED, Tag.OF)
    return first >= 0 and reading.mentions[first].has(*relations)


_DEPICTED_WITHIN = 6  # mentions, before or after


def _is_depicted(reading: Reading) -> bool:
    """Whether it is depicted: «the print of a lovely woman», «a woman is pictured on it»."""
    if reading.phrase.definite or not reading.description.states_anything():
        return False
    position = reading.position
    before = reading.mentions[max(0, position - _DEPICTED_WITHIN) : position]
    after = reading.mentions[position + 1 : position + 1 + _DEPICTED_WITHIN]
    ends = (Tag.STOP, Tag.COMMA, Tag.ITEM, Tag.PRONOUN, Tag.WEAR, Tag.WITH)
    return (
        Tag.DEPICTING in _first_of(reversed(before), Tag.DEPICTING, *ends).tags
        or Tag.DEPICTED in _first_of(after, Tag.DEPICTED, *ends).tags
    )


def _is_on_item(reading: Reading) -> bool:
    """Whether it is on an item: «the woman on his sweater»."""
    if reading.at(1).phrase != "on" or Tag.POSSESSIVE not in reading.at(2).tags:
        return False
    return any(Tag.ITEM in reading.at(ahead).tags for ahead in (3, 4, 5))


def _is_of_hair(reading: Reading) -> bool:
    hair = reading.description.hair
    return reading.last is hair or hair in reading.subject


def _leads_to_hair(reading: Reading) -> bool:
    """Whether the noun is «hair», next or, inside a phrase, after other modifiers."""
    if not reading.phrase.modifiers:
        return Tag.HAIR in reading.at(1).tags
    return reading.leads_to(frozenset((Tag.HAIR,)), _BEFORE_HAIR)


def _item_acts(reading: Reading) -> bool:
    """Whether the verb has a thing as subject: «on her nose sit glasses», «the glasses sit»."""
    if Tag.BODY in reading.at(-1).tags:
        return True
    if Tag.THING in reading.at(-1).tags:  # «tattoos run down», but not «on the bench sleeps»
        first = reading.at(-reading.back_over(_MEASURED_THROUGH | {Tag.OTHER}))
        return not first.has(Tag.PREPOSITION, Tag.WEAR)
    if reading.leads_to(frozenset((Tag.PERSON,)), _BEFORE_HEAD | {Tag.INDEFINITE, Tag.DEFINITE}):
        return False  # «under an umbrella stands a girl»
    others = (Tag.STOP, Tag.PERSON, Tag.PRONOUN, Tag.AND)
    actor = _first_of(reversed(reading.mentions[: reading.position]), *_ACTORS, *others)
    return actor.has(*_ACTORS) and not actor.has(*others) and not reading.person_acts


_ACTORS = (Tag.ITEM, Tag.PART, Tag.HAIR, Tag.HAIR_STYLE, Tag.PATTERN_NOUN)


# Descriptions after a noun: «with long sleeves», «reaches his hips».


def _take_sleeve(reading: Reading, mention: Mention) -> None:
    """Handle «long-sleeved», a modifier, and «(with) long sleeves», of the garment before."""
    if not mention.phrase.endswith("sleeves") or reading.owner is None:
        reading.take_modifier(mention)
        return
    _end_predicate(reading)
    reading.phrase.modifiers = [mention]
    _state_modifiers(reading, reading.owner)
    reading.phrase.modifiers = []


def _take_level(reading: Reading, mention: Mention) -> None:
    """Handle «the jacket reaches his hips»: the length of a garment."""
    if Tag.ITEM in reading.at(1).tags:  # «ankle socks»
        reading.take_modifier(mention)
        return
    _end_predicate(reading)
    _state_hair_reach(reading, mention, mention.value(Tag.LEVEL))
    last = reading.last
    garment = last if last is not None and last.role is Role.ITEM else reading.owner
    verb, level = _first_of(reading.lately(), Tag.REACHES), mention.value(Tag.LEVEL)
    if verb is NOTHING and reading.at(-1).has(Tag.POSSESSIVE, Tag.DEFINITE):
        waits = _wait_for_item(reading, level, mention.span)
        if last is not None and not waits:
            last.state(Attribute.PLACE, level, mention.span)
    if verb is not NOTHING and reading.sentence_items and _goes_on(reading, verb):
        garment = reading.sentence_items[0]
    if verb is not NOTHING and garment is not None:
        if verb.phrase.startswith("expos"):  # exposed parts are below the hem
            levels = reading.lexicon.scales["reach"]
            level = levels[max(0, levels.index(level) - 1)]
        garment.state(Attribute.LENGTH, f"{level}-length", mention.span)


def _goes_on(reading: Reading, verb: Mention) -> bool:
    """Handle «the jacket covers a shirt and reaches …»: a second verb of the first item."""
    place = reading.mentions.index(verb)
    if place == 0 or reading.mentions[place - 1].phrase != "and":
        return False
    return Tag.IT not in _first_of(reversed(reading.mentions[:place]), Tag.STOP, Tag.IT).tags


# Reads a description from left to right and collects what it states about the person.

_KEPT = 2048  # descriptions: a few megabytes, and more than a chunk of work repeats
_Handler = Callable[[Reading, Mention], None]

# A word with several meanings is taken as the first of them. After «of» it is open what the noun
# phrase before it belongs to.
_HANDLERS: dict[Tag, _Handler] = {
    Tag.STOP: _take_stop,
    Tag.SIDE: _take_side,
    Tag.ITEM: _take_item,
    Tag.PART: _take_part,
    Tag.PATTERN_NOUN: _take_pattern_noun,
    Tag.SLEEVE: _take_sleeve,
    Tag.HAIR: _take_hair,
    Tag.SKIN: lambda reading, _: _end_head(reading, reading.skin),
    Tag.FIGURE: lambda reading, _: _end_head(reading, reading.description.person),
    Tag.PERSON: _take_person,
    Tag.HAIR_STYLE: _take_hair_style,
    **dict.fromkeys(_MODIFIERS - {Tag.SLEEVE}, Reading.take_modifier),
    Tag.ACTION: _take_action,
    Tag.LEVEL: _take_level,
    Tag.PRONOUN: _take_pronoun,
    Tag.POSSESSIVE: _take_article,
    Tag.INDEFINITE: _take_article,
    Tag.DEFINITE: _take_article,
    Tag.IT: _take_it,
    Tag.BE: _take_copula,
    Tag.AND: _take_conjunction,
    Tag.COMMA: _take_conjunction,
    Tag.FILLER: _take_nothing,
    Tag.COLOUR_NOUN: _take_nothing,
    Tag.OF: lambda reading, _: _end_predicate(reading),
    Tag.NEGATION: _take_negation,
    Tag.DENIAL: _take_denial,
    Tag.BODY: _take_body,
    Tag.OTHER: _take_other,
}


_SHORT = frozenset(("short", "thigh-length", "knee-length"))
_NAMED = (
    *(Tag.DETAIL, Tag.BUILD, Tag.LEVEL, Tag.REACH, Tag.THING),
    *(Tag.PATTERN, Tag.PATTERN_NOUN, Tag.MATERIAL, Tag.NUMBER),
)


@lru_cache(maxsize=_KEPT)
def parse_description(text: str) -> Description:
    """Parse the person described in `text`; the result is empty for texts about something else.

    The same text returns the same object, which callers share and must not change.
    """
    lexicon = load_lexicon()
    mentions = find_mentions(text, lexicon)
    description = Description(
        text, mentions, Thing(Role.PERSON, "person"), Thing(Role.HAIR, "hair")
    )
    places = description.places_by_tag
    description.colours = [
        (mentions[at].values[Tag.COLOUR], mentions[at].span) for at in places.get(Tag.COLOUR, ())
    ]
    ended = (*mentions, NOTHING)
    description.named = {
        tag: [
            (mentions[at].values[tag], mentions[at].span)
            for at in places.get(tag, ())
            if ended[at + 1].phrase not in _LIKE
        ]
        for tag in _NAMED
    }
    description.unknown_share = len(places.get(Tag.OTHER, ())) / max(1, len(mentions))
    reading = Reading(lexicon, mentions, description)
    for reading.position, mention in enumerate(mentions):
        _handler_of(mention.tags)(reading, mention)
    _end_predicate(reading)
    for item in description.items:
        if item.kind == "trousers" and _SHORT.intersection(item.values(Attribute.LENGTH)):
            item.kind = "shorts"
            item.stated.pop(Attribute.GARMENT)
            item.state(Attribute.GARMENT, "shorts", item.span)
    return description


@cache
def _handler_of(tags: frozenset[Tag]) -> _Handler:
    """Return the handler of a word with these meanings."""
    chosen = (handler for tag, handler in _HANDLERS.items() if tag in tags)
    return next(chosen, _take_boundary)
