"""The hair: colour, length and how it is worn."""

from collections.abc import Iterator, Sequence

from models.builtin.person.description import Thing
from models.builtin.person.lexicon import Lexicon
from schemas.faithfulness import Attribute, Fact, Finding
from stages.description_differences.colours import compare_colours
from stages.description_differences.findings import added, contradicted, left_out
from stages.description_differences.scales import Placed, compare_on_scale, placed

_TIED = frozenset(("tied", "ponytail", "bun", "braid"))
_OPPOSED = (
    (_TIED, frozenset(("loose",))),
    (frozenset(("bald",)), _TIED | {"loose", "curly", "straight", "bangs"}),
    (frozenset(("curly",)), frozenset(("straight",))),
)
_WEAK = frozenset(("loose", "straight", "parted", "cropped"))


def compare_hair(source: Thing, rewrite: Thing, lexicon: Lexicon) -> Iterator[Finding]:
    """Differences of hair."""
    yield from compare_colours(source, rewrite, lexicon)
    yield from compare_on_scale(_lengths(source, lexicon), _lengths(rewrite, lexicon))
    yield from _styles(source.all(Attribute.HAIR), rewrite.all(Attribute.HAIR))


def _lengths(hair: Thing, lexicon: Lexicon) -> list[Placed]:
    return placed(hair.all(Attribute.LENGTH), "hair_length", lexicon)


def _styles(source: Sequence[Fact], rewrite: Sequence[Fact]) -> Iterator[Finding]:
    said = {fact.value for fact in source}
    for fact in rewrite:
        if fact.value in said or (fact.value == "tied" and said & _TIED):
            continue
        opposed = next((other for other in source if _are_opposed(other.value, fact.value)), None)
        if opposed is not None:
            yield contradicted(opposed, fact)
        else:
            yield added(fact, minor=fact.value in _WEAK)
    yield from left_out(source, {fact.value for fact in rewrite})


def _are_opposed(one: str, other: str) -> bool:
    if one in _TIED and other in _TIED:
        return "tied" not in (one, other)
    return any(
        (one in left and other in right) or (other in left and one in right)
        for left, right in _OPPOSED
    )
