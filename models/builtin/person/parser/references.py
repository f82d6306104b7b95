"""Which item a head noun means: one named before, the subject by a closer name, or a new one."""

from models.builtin.person.description import Role, Thing
from models.builtin.person.lexicon import Tag
from models.builtin.person.mentions import Mention
from models.builtin.person.parser.reading import Reading
from schemas.faithfulness import Attribute


def find_item(reading: Reading, mention: Mention) -> Thing:
    """The item that the head noun `mention` names."""
    kind = _shortened(reading, mention.value(Tag.ITEM))
    return (
        _renamed(reading, kind, mention)
        or _earlier_item(reading, kind)
        or _new_item(reading, kind, mention)
    )


def earlier_of_kind(reading: Reading, kind: str) -> Thing | None:
    """The last item that `kind` may be another word for."""
    is_a = reading.lexicon.is_a
    for item in reversed(reading.description.items):
        if is_a(item.kind, kind) or is_a(kind, item.kind):
            return item
    return None


def _shortened(reading: Reading, kind: str) -> str:
    """«Short blue trousers» are shorts."""
    is_short = any(m.value(Tag.SIZE) == "short" for m in reading.phrase.modifiers)
    return "shorts" if kind == "trousers" and is_short else kind


def _renamed(reading: Reading, kind: str, mention: Mention) -> Thing | None:
    """«Her top is a yellow camisole»: the subject, under the closer of both names."""
    subject = reading.subject[0] if reading.subject else None
    if not reading.copula or subject is None or subject.role is not Role.ITEM:
        return None
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
        earlier = earlier_of_kind(reading, kind)
    if earlier is None and reading.at(-1).phrase in ("the", "this", "these"):
        earlier = _only_in_slot(reading, kind)
    return earlier if earlier is not None and _may_be(reading, earlier) else None


def _only_in_slot(reading: Reading, kind: str) -> Thing | None:
    """«The pants» after «shorts»: the one item that is worn where this kind is worn."""
    slot_of = reading.lexicon.slot
    there = [item for item in reading.description.items if slot_of(item.kind) == slot_of(kind)]
    return there[0] if len(there) == 1 else None


def _may_be(reading: Reading, earlier: Thing) -> bool:
    """Whether a phrase without «a» may mean an item named before: not in other colours."""
    same, known = reading.lexicon.same_colour, earlier.values(Attribute.COLOUR)
    named = [m.value(Tag.COLOUR) for m in reading.phrase.modifiers if Tag.COLOUR in m.tags]
    if known and not all(any(same(colour, other) for other in known) for colour in named):
        return False
    return reading.phrase.definite or bool(named) or not reading.and_after_head


def _new_item(reading: Reading, kind: str, mention: Mention) -> Thing:
    thing = Thing(Role.ITEM, kind, mention.span, reading.name_span(mention))
    thing.negated = reading.negated
    thing.carried = reading.carrying
    value = f"no {kind}" if reading.negated else kind
    thing.state(reading.lexicon.kinds[kind].attribute, value, mention.span)
    if reading.and_after_head and not reading.phrase.modifiers and reading.last is not None:
        thing.inherited = reading.last.values(Attribute.COLOUR)
    reading.description.items.append(thing)
    return thing
