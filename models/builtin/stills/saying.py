"""What is seen, or said, of a still as one value, so that both can be held against each other."""

from collections import Counter
from typing import NamedTuple

from models.builtin.stills.lexicon import RELATIONS, SIZES
from models.builtin.stills.reading import Reading
from models.builtin.stills.seeing import PERSON, SIGN, Seen, Thing

_ON_PX = 12.0
_OVERLAP = 0.3


class Group(NamedTuple):
    """Things of one kind and colour; None is what nobody says."""

    kind: str
    colour: str | None
    number: int | None
    size: str | None = None


class Content(NamedTuple):
    """What a still shows, as far as it is known.

    `relations` are (kind, `left` | `above` | `on`, kind); `clothes` (garment, colour).
    """

    groups: tuple[Group, ...]
    clothes: tuple[tuple[str, str], ...]
    action: str | None
    place: str | None
    style: str | None
    relations: tuple[tuple[str, str, str], ...]
    word: str | None


def content_of_image(seen: Seen) -> Content:
    """What was seen; groups in the order of how much there is of them, then from left to right."""
    counts: Counter[tuple[str, str | None]] = Counter()
    first: dict[tuple[str, str | None], Thing] = {}
    for thing in seen.things:
        key = (thing.kind, thing.colour)
        counts[key] += 1
        first.setdefault(key, thing)
    groups = tuple(
        Group(kind, colour, counts[kind, colour], _size_word(first[kind, colour].size))
        for kind, colour in first
    )
    people = [thing for thing in seen.things if thing.kind == PERSON]
    signs = [thing for thing in seen.things if thing.kind == SIGN and thing.word]
    single = [thing for thing in seen.things if counts[thing.kind, thing.colour] == 1]
    return Content(
        groups,
        people[0].clothes if people else (),
        people[0].action if people else None,
        seen.place,
        seen.style,
        _seen_relations(single),
        signs[0].word if signs else None,
    )


def content_of_text(reading: Reading) -> Content:
    """What was read."""
    groups = tuple(
        Group(
            mention.kind.value,
            mention.colour.value if mention.colour else None,
            int(mention.number.value) if mention.number else None,
            mention.size.value if mention.size else None,
        )
        for mention in reading.mentions
    )
    clothes = tuple(
        (garment.kind.value, garment.colour.value) for garment in reading.garments if garment.colour
    )
    relations = tuple(
        (groups[one].kind, relation, groups[two].kind) for one, relation, two in reading.related
    )
    return Content(
        groups,
        clothes,
        reading.actions[0].value if reading.actions else None,
        reading.places[0].value if reading.places else None,
        reading.styles[0].value if reading.styles else None,
        relations,
        reading.signs[0].value if reading.signs else None,
    )


def _size_word(size: str) -> str | None:
    return size if size in SIZES else None


def _seen_relations(things: list[Thing]) -> tuple[tuple[str, str, str], ...]:
    """Between every two single things: how the one lies to the other."""
    found = []
    for place, one in enumerate(things):
        for two in things[place + 1 :]:
            shared = min(one.right, two.right) - max(one.left, two.left)
            width = min(one.right - one.left, two.right - two.left)
            if shared < _OVERLAP * width:
                left, right = sorted((one, two), key=lambda thing: thing.left + thing.right)
                found.append((left.kind, RELATIONS[0], right.kind))
                continue
            upper, lower = sorted((one, two), key=lambda thing: thing.top + thing.bottom)
            touching = lower.top - upper.bottom < _ON_PX
            found.append((upper.kind, RELATIONS[2 if touching else 1], lower.kind))
    return tuple(found)
