"""The person: sex, age, height, build, skin, and what the person does."""

from collections.abc import Iterator, Sequence

from models.builtin.person.description import Thing
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute, Fact, Finding
from stages.description_differences.findings import added, changed, contradicted, left_out, lost
from stages.description_differences.scales import compare_on_scale, placed

_POSTURES = frozenset(("walking", "standing", "sitting", "running", "riding", "crouching"))


def compare_persons(source: Thing, rewrite: Thing, lexicon: Lexicon) -> Iterator[Finding]:
    """Differences between two persons, whatever they wear."""
    yield from _sexes(source.all(Attribute.SEX), rewrite.all(Attribute.SEX))
    for scale in ("age", "height", "build", "skin"):
        mine, theirs = _facts(source, scale), _facts(rewrite, scale)
        if mine or theirs:
            yield from compare_on_scale(
                placed(mine, scale, lexicon),
                placed(theirs, scale, lexicon),
                minor_if_added=scale != "age",
            )
    yield from _actions(source.all(Attribute.ACTION), rewrite.all(Attribute.ACTION))


def _facts(person: Thing, scale: str) -> Sequence[Fact]:
    """The facts on a scale; height and build share one attribute, and their values say which."""
    if scale in ("height", "build"):
        return [fact for fact in person.all(Attribute.BUILD) if fact.value.endswith(scale)]
    return person.all(Attribute(scale))


def _sexes(source: Sequence[Fact], rewrite: Sequence[Fact]) -> Iterator[Finding]:
    said = {fact.value for fact in source}
    for fact in rewrite:
        if fact.value not in said:
            yield changed(source, fact)
    if source and not rewrite:
        yield lost(source[0])


def _actions(source: Sequence[Fact], rewrite: Sequence[Fact]) -> Iterator[Finding]:
    said = {fact.value for fact in source}
    postures = [fact for fact in source if fact.value in _POSTURES]
    for fact in rewrite:
        if fact.value in said:
            continue
        if fact.value in _POSTURES and postures:
            yield contradicted(postures[0], fact)
        else:
            yield added(fact)
    yield from left_out(source, {fact.value for fact in rewrite})
