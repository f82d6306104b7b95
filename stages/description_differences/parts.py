"""Parts of items: collars, soles, stripes."""

import re
from collections.abc import Iterator, Sequence

from models.builtin.person.description import Description, Thing
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute, Fact, Finding
from stages.description_differences.colours import has_colour
from stages.description_differences.findings import added, contradicted
from stages.description_differences.garments import compare_sides


def compare_part(
    source: Thing, part: Thing, whole: Description, lexicon: Lexicon
) -> Iterator[Finding]:
    """Differences between a part of a rewrite and the same parts of the `source` item."""
    same = [other for other in source.parts if other.kind == part.kind]
    for fact in part.all(Attribute.COLOUR):
        yield from _compare_colour(source, same, fact, part, whole, lexicon)
    sides = [fact for other in same for fact in other.all(Attribute.SIDE)]
    yield from compare_sides(sides, part.all(Attribute.SIDE))


def is_familiar(thing: Thing, source: Description, lexicon: Lexicon) -> bool:
    """Whether the source has the word of an unknown thing, and its colours somewhere."""
    if thing.kind in lexicon.parts or not _has_word(source.text, thing.kind):
        return False
    known = [colour for other in source.things() for colour in other.values(Attribute.COLOUR)]
    return all(has_colour(known, colour, lexicon) for colour in thing.values(Attribute.COLOUR))


def _has_word(text: str, start: str) -> bool:
    return bool(re.search(rf"\b{re.escape(start)}", text, re.IGNORECASE))


def _compare_colour(
    source: Thing,
    same: Sequence[Thing],
    fact: Fact,
    part: Thing,
    whole: Description,
    lexicon: Lexicon,
) -> Iterator[Finding]:
    """A part's colour must be that of the same part, or one that the item has somewhere."""
    theirs = [other for thing in same for other in thing.all(Attribute.COLOUR)]
    known = [other.value for other in theirs] or _colours_anywhere(source)
    if has_colour(known, fact.value, lexicon):
        return
    if theirs:
        yield contradicted(theirs[0], fact)
    else:
        parts = (other for item in whole.items for other in item.parts if other.kind == part.kind)
        moved = any(has_colour(p.values(Attribute.COLOUR), fact.value, lexicon) for p in parts)
        yield added(fact, minor=moved or is_familiar(part, whole, lexicon))


def _colours_anywhere(item: Thing) -> list[str]:
    return [colour for thing in (item, *item.parts) for colour in thing.values(Attribute.COLOUR)]
