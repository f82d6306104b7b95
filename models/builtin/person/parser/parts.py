"""Heads that are parts of items: collars, soles, straps, and the stripes of a shirt."""

from models.builtin.person.description import Role, Thing
from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import Mention
from models.builtin.person.parser.attributes import state_modifiers
from models.builtin.person.parser.reading import HEADS, Reading
from schemas.faithfulness import Attribute

_MODIFIES_WITH = HEADS | {Tag.PATTERN, Tag.COLOUR}


def take_part(reading: Reading, mention: Mention) -> None:
    """A head noun that names a part of the item before, or of one still to come."""
    name, owner = mention.value(Tag.PART), reading.owner
    if _leads_to_item(reading):
        return
    if owner is None and name in ("print", "whole"):
        reading.phrase.modifiers = []
    elif name == "whole":
        _take_whole(reading, owner)
    else:
        _end_part(reading, _find_part(reading, name, mention))


def take_pattern_noun(reading: Reading, mention: Mention) -> None:
    """«With white stripes» gives the garment a pattern, and the pattern a colour."""
    if reading.owner is None or reading.at(1).among(_MODIFIES_WITH):
        reading.take_modifier(mention)
        return
    pattern = mention.value(Tag.PATTERN_NOUN)
    reading.owner.state(Attribute.PATTERN, pattern, mention.span)
    add_named_part(reading, reading.owner, "marks", mention)


def add_named_part(reading: Reading, owner: Thing, name: str, head: Mention) -> None:
    """Gives `owner` a new part with the modifiers collected so far."""
    part = Thing(Role.PART, name, head.span, reading.name_span(head))
    owner.parts.append(part)
    state_modifiers(reading, part)
    reading.end_phrase(part)


def own_parts(reading: Reading, thing: Thing) -> None:
    """«The brim and the crown of the hat»: hands the parts over to their item."""
    for part in reading.open_parts:
        for item in reading.description.items:
            if part in item.parts:
                item.parts.remove(part)
        thing.parts.append(part)
    reading.subject, reading.open_parts = reading.open_parts, []


def _leads_to_item(reading: Reading) -> bool:
    """Whether a part is only the first word of an item's name: «zip-up hoodie»."""
    ahead = 1
    while ahead < 3 and reading.at(ahead).has(Tag.OTHER, Tag.PART):
        ahead += 1
    return Tag.ITEM in reading.at(ahead).tags


def _take_whole(reading: Reading, owner: Thing | None) -> None:
    """«The body of the bag is blue» speaks of the bag."""
    if owner is not None:
        state_modifiers(reading, owner)
        reading.subject = [owner]
    phrase = reading.phrase
    phrase.modifiers, phrase.definite, phrase.indefinite = [], False, False
    reading.copula = reading.after_with = reading.and_after_head = False


def _find_part(reading: Reading, name: str, mention: Mention) -> Thing:
    """The part of the item before that was named already, or a new one."""
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
    state_modifiers(reading, part)
    reading.open_parts.append(part)
    reading.subject = [part]
    reading.end_phrase(part)
