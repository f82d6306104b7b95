"""A net under what the parser attaches wrongly: colours and sides that the source has nowhere."""

from collections.abc import Collection, Iterator

from models.builtin.person.description import Description
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute, Finding, Span
from stages.description_differences.colours import has_colour
from stages.description_differences.findings import added, contradicted


def strange_colours(
    source: Description, rewrite: Description, told: Collection[Span], lexicon: Lexicon
) -> Iterator[Finding]:
    """Colours that the source has nowhere, but for those that findings `told` of.

    Colours of skin are left to the comparison of persons, because they have words of their own.
    """
    known = {fact.value for fact in source.colours}
    if len(known) > 1:
        known.add("multicoloured")
    elsewhere = {fact.span for fact in rewrite.person.all(Attribute.SKIN)} | set(told)
    for fact in rewrite.colours:
        if has_colour(known, fact.value, lexicon):
            continue
        if not any(start <= fact.span[0] < end for start, end in elsewhere):
            yield added(fact)


def strange_sides(
    source: Description, rewrite: Description, told: Collection[Span]
) -> Iterator[Finding]:
    """A side that the source names nowhere, or names only for the other arm, hand or shoulder."""
    places = {(place.side, place.body.rstrip("s")): fact for place, fact in source.places}
    sides = {side for side, _ in places}
    for place, fact in rewrite.places:
        body = place.body.rstrip("s")
        other = places.get(("left" if place.side == "right" else "right", body))
        if fact.span in told or (place.side, body) in places:
            continue
        if other is not None:
            yield contradicted(other, fact)
        elif place.side not in sides:
            yield added(fact)
