"""Patterns, sleeves, hems and sides of an item."""

from collections.abc import Iterator, Mapping, Sequence

from models.builtin.person.description import Description, Thing
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute, Fact, Finding
from stages.description_differences.findings import added, changed, contradicted, left_out, lost
from stages.description_differences.scales import Placed, compare_on_scale

_SLEEVES = {"sleeveless": 0, "short sleeves": 1, "half sleeves": 2, "long sleeves": 3}
_REACHES = {
    "waist-length": 0,
    "hip-length": 1,
    "thigh-length": 2,
    "knee-length": 3,
    "calf-length": 4,
    "ankle-length": 5,
    "floor-length": 6,
}
# A «long» skirt or dress ends at the ankle, a «long» jacket at the thigh.
_FULL_REACHES = _REACHES | {"long": 5, "medium": 3, "short": 2}
_COAT_REACHES = _REACHES | {"long": 2, "medium": 1, "short": 0}
_LEGS = frozenset(("lower", "whole"))


def compare_patterns(source: Thing, rewrite: Thing, whole: Description) -> Iterator[Finding]:
    """Differences of pattern; one that another item of the source has may only have moved."""
    known = source.all(Attribute.PATTERN)
    theirs = rewrite.all(Attribute.PATTERN)
    if not known and not theirs:
        return
    said = {fact.value for fact in known}
    for fact in theirs:
        if fact.value in said:
            continue
        if known and fact.value != "graphic":
            yield contradicted(known[0], fact)
        else:
            elsewhere = any(fact.value in i.values(Attribute.PATTERN) for i in whole.items)
            yield added(fact, minor=elsewhere or fact.value == "graphic")
    yield from left_out(known, {fact.value for fact in theirs})


def compare_lengths(source: Thing, rewrite: Thing, lexicon: Lexicon) -> Iterator[Finding]:
    """Sleeves and ends of a garment, each on its scale; one step is a minor difference."""
    if not source.all(Attribute.LENGTH) and not rewrite.all(Attribute.LENGTH):
        return
    yield from compare_on_scale(_lengths(source, _SLEEVES), _lengths(rewrite, _SLEEVES))
    ends = [_lengths(thing, _reaches_of(thing, lexicon)) for thing in (source, rewrite)]
    yield from compare_on_scale(*ends)


def compare_sides(source: Sequence[Fact], rewrite: Sequence[Fact]) -> Iterator[Finding]:
    """Left for right, and a side that the source does not tell."""
    said = {fact.value for fact in source}
    for fact in rewrite:
        if fact.value not in said:
            yield changed(source, fact)
    if not rewrite:
        yield from map(lost, source)


def _lengths(thing: Thing, places: Mapping[str, int]) -> list[Placed]:
    facts = thing.all(Attribute.LENGTH)
    return [(places[fact.value], fact) for fact in facts if fact.value in places]


def _reaches_of(thing: Thing, lexicon: Lexicon) -> Mapping[str, int]:
    return _FULL_REACHES if lexicon.slot(thing.kind) in _LEGS else _COAT_REACHES
