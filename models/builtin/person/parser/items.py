"""Heads that are worn or carried: items that the lexicon knows, and other things."""

from models.builtin.person.description import Role, Thing
from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import Mention
from models.builtin.person.parser.attributes import state_modifiers
from models.builtin.person.parser.parts import add_named_part, own_parts
from models.builtin.person.parser.predicates import end_predicate
from models.builtin.person.parser.reading import HEADS, MODIFIERS, Reading
from models.builtin.person.parser.references import earlier_of_kind, find_item
from models.builtin.person.parser.sides import put_at_side
from schemas.faithfulness import Attribute

_NAME_GOES_ON = HEADS | MODIFIERS | {Tag.OTHER}
_LIST_GOES_ON = _NAME_GOES_ON | {Tag.AND, Tag.COMMA}


def take_item(reading: Reading, mention: Mention) -> None:
    """A head noun that names a garment, footwear or accessory."""
    follows = reading.at(1)
    if Tag.ITEM in follows.tags:
        return
    if Tag.PART in follows.tags:
        kind = mention.value(Tag.ITEM)
        reading.owner = earlier_of_kind(reading, kind) or _implied(reading, kind, mention)
        return
    thing = find_item(reading, mention)
    if reading.open_parts and reading.at(-1).has(Tag.DEFINITE, Tag.OF, Tag.POSSESSIVE):
        own_parts(reading, thing)
    else:
        reading.subject, reading.open_parts = [thing], []
    _end_item(reading, thing)


def take_other(reading: Reading, mention: Mention) -> None:
    """A word that the lexicon does not know: part of a name, or itself a thing."""
    if mention.phrase in ("'s", "'"):
        return
    if mention.phrase in ("one", "ones") and reading.phrase.modifiers and reading.last is not None:
        state_modifiers(reading, reading.last)
        reading.phrase.modifiers = []
        return
    follows = reading.at(1)
    if follows.has(Tag.BODY, Tag.LEVEL) and Tag.ITEM in reading.at(2).tags:
        return
    if not follows.among(_NAME_GOES_ON) and _names_a_thing(reading, mention):
        _take_unknown(reading, mention)
    elif not follows.among(_LIST_GOES_ON):
        end_predicate(reading)


def _implied(reading: Reading, kind: str, mention: Mention) -> Thing:
    """«A white shirt collar shows»: there is a shirt."""
    thing = Thing(Role.ITEM, kind, mention.span, mention.span)
    thing.state(reading.lexicon.kinds[kind].attribute, kind, mention.span)
    reading.description.items.append(thing)
    return thing


def _names_a_thing(reading: Reading, mention: Mention) -> bool:
    """Whether an unknown word at the end of a noun phrase is a thing with known attributes."""
    if (reading.copula and not reading.phrase.indefinite) or not mention.phrase.isalpha():
        return False
    if mention.phrase.endswith(("ly", "ing", "ed")):
        return False
    described = any(m.has(Tag.COLOUR, Tag.PATTERN) for m in reading.phrase.modifiers)
    follows = reading.at(1).tags
    listed = Tag.AND in follows or (Tag.COMMA in follows and not described)
    if listed and reading.head_ahead():
        return False
    return described or (reading.carrying and reading.phrase.indefinite)


def _take_unknown(reading: Reading, mention: Mention) -> None:
    """A thing that the lexicon does not know, or («with a gold buckle») a part of one."""
    last, of = reading.last, Tag.OF in reading.phrase.before.tags
    if of and last is not None and last.role is Role.PART:
        state_modifiers(reading, last)
        reading.end_phrase(last)
        return
    wearer = last if last is reading.description.hair else reading.owner
    if reading.after_with and wearer is not None:
        add_named_part(reading, wearer, mention.phrase, mention)
        return
    thing = _unknown_item(reading, mention)
    reading.subject = [thing]
    _end_item(reading, thing)


def _unknown_item(reading: Reading, mention: Mention) -> Thing:
    thing = Thing(Role.ITEM, mention.phrase, mention.span, reading.name_span(mention))
    thing.known = False
    thing.negated = reading.negated
    if reading.carrying and not reading.phrase.modifiers:
        thing.state(Attribute.ACCESSORY, mention.phrase, mention.span)
    reading.description.items.append(thing)
    return thing


def _end_item(reading: Reading, thing: Thing) -> None:
    """The item is what the text now speaks of."""
    state_modifiers(reading, thing)
    put_at_side(reading, thing)
    reading.end_phrase(thing)
    reading.focus = reading.owner = thing
    reading.sentence_items.append(thing)
