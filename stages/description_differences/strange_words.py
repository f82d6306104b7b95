"""A net under what the parser attaches wrongly: colours and sides that the source has nowhere."""

from collections.abc import Collection, Iterator

from models.builtin.person.description import Description
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute, Fact, Finding, Span
from stages.description_differences.colours import has_colour
from stages.description_differences.findings import added, contradicted


def strange_colours(
    source: Description, rewrite: Description, told: Collection[Span], lexicon: Lexicon
) -> Iterator[Finding]:
    """Colours that the source has nowhere, but for those that findings `told` of.

    Colours of skin are left to the comparison of persons, because they have words of their own.
    """
    known = {colour for colour, _ in source.colours}
    if len(known) > 1:
        known.add("multicoloured")
    elsewhere = {fact.span for fact in rewrite.person.all(Attribute.SKIN)} | set(told)
    for colour, span in rewrite.colours:
        if has_colour(known, colour, lexicon):
            continue
        if not any(start <= span[0] < end for start, end in elsewhere):
            yield added(_word(Attribute.COLOUR, colour, span))


def strange_sides(
    source: Description, rewrite: Description, told: Collection[Span]
) -> Iterator[Finding]:
    """A side that the source names nowhere, or names only for the other arm, hand or shoulder."""
    spans = {(place.side, place.body.rstrip("s")): span for place, span in source.places}
    sides = {side for side, _ in spans}
    for place, span in rewrite.places:
        body = place.body.rstrip("s")
        if span in told or (place.side, body) in spans:
            continue
        fact = _word(Attribute.SIDE, place.side, span)
        other_side = "left" if place.side == "right" else "right"
        if (other_side, body) in spans:
            other = _word(Attribute.SIDE, other_side, spans[other_side, body])
            yield contradicted(other, fact)
        elif place.side not in sides:
            yield added(fact)


def _word(attribute: Attribute, value: str, span: Span) -> Fact:
    """That the text has this word, whatever it says it of."""
    return Fact(subject="text", attribute=attribute, value=value, span=span)
