"""What follows a noun and still describes it: «with long sleeves», «reaches his hips»."""

from models.builtin.person.description import Role
from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import Mention
from models.builtin.person.parser.attributes import state_modifiers
from models.builtin.person.parser.predicates import end_predicate
from models.builtin.person.parser.reading import Reading
from schemas.faithfulness import Attribute

_VERB_REACH = 4  # how many mentions a verb of reaching may stand before where it reaches


def take_sleeve(reading: Reading, mention: Mention) -> None:
    """«Long-sleeved» is a modifier, «(with) long sleeves» speaks of the garment before."""
    if not mention.phrase.endswith("sleeves") or reading.owner is None:
        reading.take_modifier(mention)
        return
    end_predicate(reading)
    reading.phrase.modifiers = [mention]
    state_modifiers(reading, reading.owner)
    reading.phrase.modifiers = []


def take_level(reading: Reading, mention: Mention) -> None:
    """«The jacket reaches his hips»: where a garment ends."""
    if Tag.ITEM in reading.at(1).tags:
        return
    end_predicate(reading)
    last = reading.last
    garment = last if last is not None and last.role is Role.ITEM else reading.owner
    reaches = any(Tag.REACHES in reading.at(-back).tags for back in range(1, _VERB_REACH + 1))
    if reaches and garment is not None:
        value = f"{mention.value(Tag.LEVEL)}-length"
        garment.state(Attribute.LENGTH, value, mention.span)
