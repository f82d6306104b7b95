"""What is worn and carried: items added, lost, replaced, denied, or named more closely."""

from collections.abc import Iterator

from models.builtin.person.description import Description, Thing
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute, Fact, Finding
from stages.description_differences.colours import compare_colours
from stages.description_differences.findings import added, changed, contradicted, lost
from stages.description_differences.garments import (
    compare_lengths,
    compare_patterns,
    compare_sides,
)
from stages.description_differences.item_matching import (
    Matching,
    match_items,
    related,
    same_place,
)
from stages.description_differences.parts import compare_part, is_familiar


def compare_items(source: Description, rewrite: Description, lexicon: Lexicon) -> Iterator[Finding]:
    """Differences between all items of two descriptions."""
    present = [item for item in source.items if not item.negated]
    matching = match_items(present, [item for item in rewrite.items if not item.negated], lexicon)
    for one, other in matching.pairs:
        yield from _compare_kinds(one, other, lexicon)
        yield from _compare_attributes(one, other, source, lexicon)
    yield from _compare_unmatched(matching, present, source, lexicon)
    yield from _compare_negated(source, rewrite, lexicon)


def _name(thing: Thing) -> Fact:
    """The fact that names an item; one with only attributes answers with its first."""
    return thing.facts[0]


def _compare_kinds(source: Thing, rewrite: Thing, lexicon: Lexicon) -> Iterator[Finding]:
    if rewrite.kind != source.kind and lexicon.is_a(rewrite.kind, source.kind):
        yield added(_name(rewrite), minor=not lexicon.claims(rewrite.kind, source.kind))


def _compare_attributes(
    source: Thing, rewrite: Thing, whole: Description, lexicon: Lexicon
) -> Iterator[Finding]:
    yield from compare_colours(source, rewrite, lexicon, whole)
    yield from compare_patterns(source, rewrite, whole)
    yield from compare_lengths(source, rewrite, lexicon)
    yield from compare_sides(source.all(Attribute.SIDE), rewrite.all(Attribute.SIDE))
    for part in rewrite.parts:
        yield from compare_part(source, part, whole, lexicon)


def _compare_unmatched(
    matching: Matching, present: list[Thing], source: Description, lexicon: Lexicon
) -> Iterator[Finding]:
    left = list(matching.lost)
    for item in matching.new:
        negated = next((i for i in source.items if i.negated and related(i, item, lexicon)), None)
        instead = next((other for other in left if same_place(other, item, lexicon)), None)
        if negated is not None:
            yield contradicted(_name(negated), _name(item))
        elif instead is not None:
            left.remove(instead)
            yield contradicted(_name(instead), _name(item))
        elif not _repeats(item, present, lexicon):
            yield added(_name(item), minor=not item.known and is_familiar(item, source, lexicon))
    yield from (lost(_name(item)) for item in left)


def _repeats(item: Thing, present: list[Thing], lexicon: Lexicon) -> bool:
    """Whether an item says again, without news, what another said: «completing her outfit»."""
    if item.kind == "clothing" and not item.values(Attribute.COLOUR):
        return True
    return any(
        lexicon.is_a(other.kind, item.kind)
        and not any(finding.change != "lost" for finding in compare_colours(other, item, lexicon))
        for other in present
    )


def _compare_negated(
    source: Description, rewrite: Description, lexicon: Lexicon
) -> Iterator[Finding]:
    """«No bag», where the source has one or does not speak of any."""
    for item in rewrite.items:
        if not item.negated:
            continue
        candidates = [other for other in source.items if related(other, item, lexicon)]
        if not any(other.negated for other in candidates):
            yield changed([_name(other) for other in candidates[:1]], _name(item))
