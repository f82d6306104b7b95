"""Sides and places: what is at which hand, shoulder, foot."""

from models.builtin.person.description import Place, Thing
from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import NOTHING, Mention
from models.builtin.person.parser.predicates import end_predicate
from models.builtin.person.parser.reading import Reading
from schemas.faithfulness import Attribute, Span

_ENDS = frozenset((Tag.STOP, Tag.COMMA, Tag.AND))
_LEADS_IN = frozenset((Tag.PREPOSITION, Tag.WEAR, Tag.CARRY, Tag.OF, Tag.WITH))


def take_side(reading: Reading, mention: Mention) -> None:
    """«(In) her left hand»: of the item before, or of the next if the place was fronted."""
    body = reading.at(1).has(Tag.BODY, Tag.LEVEL)
    owned = reading.at(-1).has(Tag.POSSESSIVE, Tag.DEFINITE)
    end_predicate(reading)
    if not body and not (owned and reading.at(1).among(_ENDS)):
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
    if fronted or opens or item is None:
        reading.side = (place, mention.span)
    else:
        _put(item, place, mention.span)


def put_at_side(reading: Reading, item: Thing) -> None:
    """Puts an item where a place named before it waits for one."""
    if reading.side is not None and not item.negated:
        _put(item, *reading.side)
        reading.side = None


def take_body(reading: Reading, mention: Mention) -> None:
    """«In her hands», «on his back»: a place without a side."""
    if Tag.ITEM in reading.at(1).tags:
        return  # «wide-leg jeans»
    end_predicate(reading)
    before, item = reading.at(-1), reading.last
    elsewhere = Tag.SIDE in before.tags or before.phrase == "each"
    if item is not None and item in reading.sentence_items and not elsewhere:
        back = 2 if before.has(Tag.POSSESSIVE, Tag.DEFINITE, Tag.FILLER) else 1
        item.places.append(Place("", mention.phrase, reading.at(-back).phrase))


def _item_at_hand(reading: Reading) -> Thing | None:
    """What the sentence has at a hand or shoulder: the last accessory, else the last item."""
    for item in reversed(reading.sentence_items):
        is_accessory = reading.lexicon.attribute(item.kind) is Attribute.ACCESSORY
        if is_accessory and not item.values(Attribute.SIDE):
            return item
    return reading.sentence_items[-1] if reading.sentence_items else None


def _put(item: Thing, place: Place, span: Span) -> None:
    item.state(Attribute.SIDE, place.side, span)
    item.places.append(place)
