"""Noun phrases without a head: predicates («the hat is black») and «in black»."""

from models.builtin.person.description import Role, Thing
from models.builtin.person.lexicon import Tag
from models.builtin.person.parser.attributes import state_modifiers
from models.builtin.person.parser.reading import HEADS, Reading
from schemas.faithfulness import Attribute

_OF_PERSONS = frozenset((Tag.AGE, Tag.HEIGHT, Tag.BUILD, Tag.SKIN_TONE))
_BEFORE_DRESSED = frozenset((Tag.WEAR, Tag.PERSON, Tag.BE, Tag.ACTION))


def end_predicate(reading: Reading) -> None:
    """Ends the noun phrase here: what it has collected goes to what it speaks of."""
    phrase = reading.phrase
    if phrase.modifiers:
        for target in _targets(reading):
            state_modifiers(reading, target)
        phrase.modifiers = []
    phrase.definite = phrase.indefinite = False


def _targets(reading: Reading) -> list[Thing]:
    if reading.negated:
        return []
    if reading.copula:
        return reading.subject or [reading.description.person]
    phrase, last = reading.phrase, reading.last
    if last is not None and phrase.before.among(HEADS):
        return [last]
    if phrase.before.phrase == "in":
        return [_dressed_in(reading)]
    if last is not None and (
        Tag.OF in phrase.before.tags or phrase.earlier_still.phrase.endswith("ed")
    ):
        return [last]
    return _trim(reading) or _person(reading)


def _trim(reading: Reading) -> list[Thing]:
    """«A coat with white fur»: a part that only its material names."""
    owner, modifiers = reading.owner, reading.phrase.modifiers
    if owner is None or reading.last is None:
        return []
    if Tag.WITH not in reading.phrase.before.tags or Tag.MATERIAL not in modifiers[-1].tags:
        return []
    trim = Thing(Role.PART, "trim", modifiers[0].span, modifiers[0].span)
    owner.parts.append(trim)
    return [trim]


def _person(reading: Reading) -> list[Thing]:
    """«Of medium build» is said of the person without a verb; other words are not."""
    if any(mention.among(_OF_PERSONS) for mention in reading.phrase.modifiers):
        return [reading.description.person]
    return []


def _dressed_in(reading: Reading) -> Thing:
    """«A jacket in blue», «dressed in black»."""
    phrase, last = reading.phrase, reading.last
    dressed = phrase.earlier_still.among(_BEFORE_DRESSED)
    if not dressed and last is not None and last.role is not Role.PERSON:
        return last
    span = phrase.modifiers[0].span
    clothing = Thing(Role.ITEM, "clothing", span, span)
    clothing.state(Attribute.GARMENT, "clothing", span)
    if any(Tag.COLOUR in mention.tags for mention in phrase.modifiers):
        reading.description.items.append(clothing)
    return clothing
