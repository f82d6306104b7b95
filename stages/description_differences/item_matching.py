"""Pairs the items of a rewrite with those of its source."""

from dataclasses import dataclass
from functools import lru_cache

from models.builtin.person.description import Thing
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute

_GROUPS = {"upper": "torso", "outer": "torso", "whole": "torso", "clothing": "torso"}
_KEPT_PAIRS = 8192  # a description names some ten kinds out of some two hundred


@dataclass(frozen=True)
class Matching:
    """Who is whom: `pairs` of (source item, rewrite item), and what is left on each side."""

    pairs: tuple[tuple[Thing, Thing], ...]
    lost: tuple[Thing, ...]
    new: tuple[Thing, ...]


def match_items(source: list[Thing], rewrite: list[Thing], lexicon: Lexicon) -> Matching:
    """The best pairing of items whose kinds allow it, closest pairs first."""
    scored = sorted(
        (
            (_likeness(one, other, lexicon), -i, -j)
            for i, one in enumerate(source)
            for j, other in enumerate(rewrite)
            if related(one, other, lexicon)
        ),
        reverse=True,
    )
    taken_source: set[int] = set()
    taken_rewrite: set[int] = set()
    pairs = []
    for _, i, j in scored:
        if -i not in taken_source and -j not in taken_rewrite:
            taken_source.add(-i)
            taken_rewrite.add(-j)
            pairs.append((source[-i], rewrite[-j]))
    lost = tuple(item for i, item in enumerate(source) if i not in taken_source)
    new = tuple(item for j, item in enumerate(rewrite) if j not in taken_rewrite)
    return Matching(tuple(pairs), lost, new)


def related(one: Thing, other: Thing, lexicon: Lexicon) -> bool:
    """Whether both may be words for one item: equal kinds, or one more general than the other."""
    return _are_related(one.kind, other.kind, lexicon)


@lru_cache(maxsize=_KEPT_PAIRS)
def _are_related(one: str, other: str, lexicon: Lexicon) -> bool:
    if lexicon.is_a(one, other) or lexicon.is_a(other, one):
        return True
    kinds = (one, other)
    if "clothing" in kinds:
        return all(lexicon.attribute(kind) is Attribute.GARMENT for kind in kinds)
    return "top" in kinds and all(lexicon.slot(kind) in ("upper", "outer") for kind in kinds)


def same_place(one: Thing, other: Thing, lexicon: Lexicon) -> bool:
    """Whether the two are worn at one place: one may have been said instead of the other."""
    slots = [lexicon.slot(thing.kind) for thing in (one, other)]
    return bool(slots[0]) and len({_GROUPS.get(slot, slot) for slot in slots}) == 1


def colours_agree(one: tuple[str, ...], other: tuple[str, ...], lexicon: Lexicon) -> bool:
    """Whether some colour is in both."""
    return any(lexicon.same_colour(a, b) for a in one for b in other)


def _likeness(one: Thing, other: Thing, lexicon: Lexicon) -> float:
    score = 3.0 if one.kind == other.kind else 2.0
    if "clothing" in (one.kind, other.kind):
        score = 1.0
    mine, theirs = one.values(Attribute.COLOUR), other.values(Attribute.COLOUR)
    if mine and theirs:
        score += 1.5 if colours_agree(mine, theirs, lexicon) else -0.5
    sides = one.values(Attribute.SIDE), other.values(Attribute.SIDE)
    if all(sides):
        score += 0.4 if set(sides[0]) & set(sides[1]) else -0.2
    return score
