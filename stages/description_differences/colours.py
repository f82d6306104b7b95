"""Colours of an item or of the hair, with the shades that go with them."""

from collections.abc import Collection, Iterator, Sequence

from models.builtin.person.description import Description, Thing
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute, Fact, Finding
from stages.description_differences.findings import added, contradicted, lost

_SMALL_PARTS = frozenset(("zip", "button", "lace", "handle", "pocket", "lens"))


def compare_colours(
    source: Thing, rewrite: Thing, lexicon: Lexicon, whole: Description | None = None
) -> Iterator[Finding]:
    """Differences of colour; one that `whole` names of nothing known may be meant of `source`."""
    main, theirs = source.all(Attribute.COLOUR), rewrite.all(Attribute.COLOUR)
    if not main and not theirs:
        return
    known = [fact.value for fact in main]
    shared = [fact for fact in theirs if has_colour(known, fact.value, lexicon)]
    around = _around(source) if len(shared) < len(theirs) else []
    allowed = around if shared or not main else []
    for fact in theirs:
        if fact in shared:
            yield from _opposite_shades(source, rewrite, fact)
        elif has_colour(allowed, fact.value, lexicon) or _sums_up(fact, known + around):
            continue
        elif main:
            yield contradicted(_rest(main, theirs, lexicon), fact)
        else:
            loose = whole.loose_colours() if whole is not None else ()
            yield added(fact, minor=has_colour(loose, fact.value, lexicon))
    said = [fact.value for fact in theirs] + _of_parts(rewrite.parts)
    yield from (lost(fact) for fact in main if not has_colour(said, fact.value, lexicon))


def has_colour(colours: Collection[str], colour: str, lexicon: Lexicon) -> bool:
    """Whether one of `colours` may be another word for `colour`."""
    if colour in colours:
        return True
    return any(lexicon.same_colour(colour, other) for other in colours)


def _sums_up(fact: Fact, colours: list[str]) -> bool:
    """Whether «colourful» is a word for several colours."""
    return fact.value == "multicoloured" and len(colours) > 1


def _around(source: Thing) -> list[str]:
    """Colours that a rewrite may say of the whole item: of its large parts, or lent in a list."""
    large = [part for part in source.parts if part.kind not in _SMALL_PARTS]
    return [*source.inherited, *_of_parts(large)]


def _of_parts(parts: Sequence[Thing]) -> list[str]:
    return [colour for part in parts for colour in part.values(Attribute.COLOUR)]


def _rest(main: Sequence[Fact], theirs: Sequence[Fact], lexicon: Lexicon) -> Fact:
    """The source's colour that a strange one most likely stands for."""
    said = [fact.value for fact in theirs]
    return next((fact for fact in main if not has_colour(said, fact.value, lexicon)), main[0])


def _opposite_shades(source: Thing, rewrite: Thing, fact: Fact) -> Iterator[Finding]:
    """«Light blue» for «dark blue»."""
    if not (source.shades and rewrite.shades):
        return
    shade = rewrite.shades.get(fact.span, "")
    for other in source.all(Attribute.COLOUR):
        shades = {shade, source.shades.get(other.span, "")}
        if other.value == fact.value and shades == {"dark", "light"}:
            yield contradicted(other, fact)
