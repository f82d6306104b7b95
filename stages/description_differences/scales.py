"""Attributes that are measured in steps; one step is what honest annotators differ by."""

from collections.abc import Iterable, Iterator, Sequence

from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Fact, Finding
from stages.description_differences.findings import added, contradicted, lost

Placed = tuple[int, Fact]
"""A fact with its place on a scale."""


def placed(facts: Iterable[Fact], scale: str, lexicon: Lexicon) -> list[Placed]:
    """Facts with their places on a scale of the lexicon; values may end in its name."""
    return [(lexicon.place(scale, fact.value.removesuffix(f" {scale}")), fact) for fact in facts]


def compare_on_scale(
    source: Sequence[Placed], rewrite: Sequence[Placed], *, minor_if_added: bool = True
) -> Iterator[Finding]:
    """Each fact of the rewrite beside the closest of the source; one step apart is minor."""
    for place, fact in rewrite:
        if not source:
            yield added(fact, minor=minor_if_added)
            continue
        steps, index = min((abs(other - place), index) for index, (other, _) in enumerate(source))
        if steps:
            yield contradicted(source[index][1], fact, minor=steps == 1)
    if not rewrite:
        yield from (lost(fact) for _, fact in source)
