"""The person and the hair: nouns, pronouns, hair styles, and what the person does."""

from models.builtin.person.description import Thing
from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import Mention
from models.builtin.person.parser.attributes import state_modifiers, state_sex
from models.builtin.person.parser.predicates import end_predicate
from models.builtin.person.parser.reading import HEADS, MODIFIERS, Reading
from schemas.faithfulness import Attribute

_STYLE_NOUNS = frozenset(("ponytail", "bun", "braid", "bangs", "bald"))
_BEFORE_HAIR = MODIFIERS | {Tag.AND, Tag.COMMA, Tag.HAIR_STYLE}


def take_person(reading: Reading, mention: Mention) -> None:
    """«A young man»: the person described, unless it is somebody beside or on the person."""
    if _is_somebody_else(reading):
        reading.phrase.modifiers = []
        return
    person = reading.description.person
    if Tag.AGE in mention.tags:
        reading.phrase.modifiers.append(mention)
    state_modifiers(reading, person)
    state_sex(reading, mention.value(Tag.PERSON), mention.span)
    if person.span == (0, 0):
        person.span = mention.span
    reading.end_phrase(person)
    reading.subject, reading.person_acts = [person], reading.at(1).phrase != "'s"


def take_pronoun(reading: Reading, mention: Mention) -> None:
    """«He», «she»; «they» may also be shoes."""
    end_predicate(reading)
    focus = reading.focus
    plural = mention.phrase == "they" and focus is not None and focus.kind.endswith("s")
    if focus is not None and plural and Tag.BE in reading.at(1).tags:
        reading.subject = [focus]
    else:
        reading.subject = [reading.description.person]
        state_sex(reading, mention.value(Tag.PRONOUN), mention.span)
    reading.copula, reading.after_with, reading.person_acts = False, False, True


def take_figure(reading: Reading, _mention: Mention) -> None:
    """«His build is slim»."""
    _end_head(reading, reading.description.person)


def take_skin(reading: Reading, _mention: Mention) -> None:
    """«Fair skin»."""
    _end_head(reading, reading.skin)


def take_hair(reading: Reading, mention: Mention) -> None:
    """«Long brown hair»."""
    hair = reading.description.hair
    _end_head(reading, hair)
    if hair.span == (0, 0):
        hair.span = mention.span


def take_hair_style(reading: Reading, mention: Mention) -> None:
    """«In a ponytail», «straight hair», «her hair is loose»."""
    style, hair = mention.value(Tag.HAIR_STYLE), reading.description.hair
    if style in _STYLE_NOUNS:
        state_modifiers(reading, hair)
        hair.state(Attribute.HAIR, style, mention.span)
        reading.end_phrase(hair)
    elif _leads_to_hair(reading) or reading.at(1).among(HEADS) or not _is_of_hair(reading):
        reading.take_modifier(mention)
    else:
        end_predicate(reading)
        hair.state(Attribute.HAIR, style, mention.span)


def take_action(reading: Reading, mention: Mention) -> None:
    """«Walking», «rides»: what the person does, unless a thing does it."""
    if Tag.ITEM in reading.at(1).tags and not reading.at(-1).has(Tag.BE, Tag.PRONOUN):
        return  # «cycling shorts»
    end_predicate(reading)
    if not reading.negated and not _item_acts(reading):
        person = reading.description.person
        person.state(Attribute.ACTION, mention.value(Tag.ACTION), mention.span)
    reading.copula = False


def _end_head(reading: Reading, thing: Thing) -> None:
    state_modifiers(reading, thing)
    reading.subject = [thing]
    reading.end_phrase(thing)


def _is_somebody_else(reading: Reading) -> bool:
    """Whether «a woman» here is a picture, a fitting or a companion."""
    if reading.phrase.definite or not reading.description.states_anything():
        return False
    if reading.at(1).phrase == "'s" or reading.after_with or reading.carrying:
        return True
    first = reading.position - len(reading.phrase.modifiers) - 1
    while first >= 0 and reading.mentions[first].has(Tag.INDEFINITE, Tag.OTHER, Tag.FILLER):
        first -= 1
    relations = (Tag.PREPOSITION, Tag.CARRY, Tag.IGNORED)
    return first >= 0 and reading.mentions[first].has(*relations)


def _is_of_hair(reading: Reading) -> bool:
    hair = reading.description.hair
    return reading.last is hair or hair in reading.subject


def _leads_to_hair(reading: Reading) -> bool:
    """Whether the noun is «hair», next or, in a phrase that has begun, after other modifiers."""
    if not reading.phrase.modifiers:
        return Tag.HAIR in reading.at(1).tags
    for mention in reading.mentions[reading.position + 1 :]:
        if Tag.HAIR in mention.tags:
            return True
        if not mention.among(_BEFORE_HAIR):
            return False
    return False


def _item_acts(reading: Reading) -> bool:
    """Whether the verb here is said of a thing: «the glasses sit on her nose»."""
    if reading.person_acts:
        return False
    back = 1
    while reading.at(-back).has(Tag.OTHER, Tag.FILLER):
        back += 1
    return reading.at(-back).has(Tag.ITEM, Tag.PART, Tag.HAIR, Tag.PATTERN_NOUN)
