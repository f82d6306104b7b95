"""States the modifiers of a noun phrase of what its head names."""

from models.builtin.person.description import Role, Thing
from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import NOTHING, Mention
from models.builtin.person.parser.reading import Reading
from schemas.faithfulness import Attribute, Span

_SKIN_OF_COLOUR = {
    "white": "fair",
    "beige": "fair",
    "pink": "fair",
    "yellow": "medium",
    "brown": "dark",
    "black": "dark",
}
_SKIN_OF_SHADE = {"light": "fair", "dark": "dark"}


def state_modifiers(reading: Reading, thing: Thing) -> None:
    """States the modifiers collected so far of `thing`."""
    modifiers = reading.phrase.modifiers
    for place, mention in enumerate(modifiers):
        later = modifiers[place + 1 :]
        if thing.role is Role.PERSON:
            _state_of_person(reading, thing, mention, later)
            continue
        if thing.role is Role.HAIR:
            _state_of_hair(thing, mention, later)
        else:
            _state_of_item(reading, thing, mention)
        if Tag.COLOUR in mention.tags:
            _state_colour(thing, mention, modifiers[place - 1] if place else NOTHING)


def state_sex(reading: Reading, sex: str, span: Span) -> None:
    """States the sex that a noun or pronoun tells, if it tells one."""
    if sex in ("male", "female"):
        reading.description.person.state(Attribute.SEX, sex, span)


def _state_colour(thing: Thing, mention: Mention, previous: Mention) -> None:
    """A colour, together with the shade before it: «dark blue»."""
    shade = previous.value(Tag.SHADE)
    span = (previous.span[0] if shade else mention.span[0], mention.span[1])
    thing.state(Attribute.COLOUR, mention.value(Tag.COLOUR), span)
    if shade:
        thing.shades[span] = shade


def _state_of_item(reading: Reading, thing: Thing, mention: Mention) -> None:
    span = mention.span
    for tag, value in mention.values.items():
        if tag is Tag.PATTERN:
            thing.state(Attribute.PATTERN, value, span)
        elif tag is Tag.SLEEVE:
            sleeve = value if value == "sleeveless" else f"{value} sleeves"
            thing.state(Attribute.LENGTH, sleeve, span)
        elif tag is Tag.REACH:
            thing.state(Attribute.LENGTH, f"{value}-length", span)
        elif tag is Tag.SIZE:
            _state_size(reading, thing, value, span)


def _state_size(reading: Reading, thing: Thing, size: str, span: Span) -> None:
    if thing.kind == "sleeve":
        (reading.owner or thing).state(Attribute.LENGTH, f"{size} sleeves", span)
    elif thing.kind != "shorts" and size != "medium":
        thing.state(Attribute.LENGTH, size, span)


def _state_of_hair(hair: Thing, mention: Mention, later: list[Mention]) -> None:
    for tag, value in mention.values.items():
        if tag is Tag.SIZE:
            hair.state(Attribute.LENGTH, value, mention.span)
        elif tag is Tag.HAIR_STYLE:
            hair.state(Attribute.HAIR, value, mention.span)
        elif tag is Tag.SHADE and value == "dark" and not any(Tag.COLOUR in m.tags for m in later):
            hair.state(Attribute.COLOUR, "dark", mention.span)


def _state_of_person(
    reading: Reading, thing: Thing, mention: Mention, later: list[Mention]
) -> None:
    """`thing` is the person or the skin; the facts are the person's."""
    person, span = reading.description.person, mention.span
    for tag, value in mention.values.items():
        if tag is Tag.AGE:
            person.state(Attribute.AGE, value, span)
        elif tag is Tag.HEIGHT or tag is Tag.BUILD:
            person.state(Attribute.BUILD, f"{value} {tag}", span)
        elif tag is Tag.SKIN_TONE:
            person.state(Attribute.SKIN, value, span)
        elif tag is Tag.SIZE and value == "short" and thing is person:
            person.state(Attribute.BUILD, "short height", span)
        elif tag is Tag.COLOUR:
            _state_colour_of_person(reading, value, span)
        elif tag is Tag.SHADE and thing is reading.skin:
            _state_shade_of_skin(person, value, span, later)


def _state_colour_of_person(reading: Reading, colour: str, span: Span) -> None:
    """«A blond man», «a black woman»."""
    if colour == "blond":
        reading.description.hair.state(Attribute.COLOUR, colour, span)
    elif colour in _SKIN_OF_COLOUR:
        reading.description.person.state(Attribute.SKIN, _SKIN_OF_COLOUR[colour], span)


def _state_shade_of_skin(person: Thing, shade: str, span: Span, later: list[Mention]) -> None:
    if shade in _SKIN_OF_SHADE and not (later and Tag.COLOUR in later[0].tags):
        person.state(Attribute.SKIN, _SKIN_OF_SHADE[shade], span)
