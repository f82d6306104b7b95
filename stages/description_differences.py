"""Compares what two descriptions state: every attribute that was added, lost or contradicted."""

import re
from collections.abc import Collection, Iterable, Iterator

from models.builtin.person.description import Description, Thing
from models.builtin.person.lexicon import Lexicon, load_lexicon
from schemas.faithfulness import Attribute, Fact, Finding, Span
from stages.item_matching import Matching, match_items, related, same_place

_POSTURES = frozenset(("walking", "standing", "sitting", "running", "riding", "crouching"))
_TIED = frozenset(("tied", "ponytail", "bun", "braid"))
_OPPOSED_STYLES = (
    (_TIED, frozenset(("loose",))),
    (frozenset(("bald",)), _TIED | {"loose", "curly", "straight", "bangs"}),
    (frozenset(("curly",)), frozenset(("straight",))),
)
_WEAK_STYLES = frozenset(("loose", "straight", "parted", "cropped"))
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
_SMALL_PARTS = frozenset(("zip", "button", "lace", "handle", "pocket", "lens"))
_LEGS = frozenset(("lower", "whole"))
_FULL_REACH = {"long": 5, "medium": 3, "short": 2}
_COAT_REACH = {"long": 2, "medium": 1, "short": 0}


def find_differences(source: Description, rewrite: Description) -> tuple[Finding, ...]:
    """Every attribute that `rewrite` adds to, loses from or contradicts in `source`."""
    lexicon = load_lexicon()
    findings = [
        *_persons(source.person, rewrite.person, lexicon),
        *_hair(source.hair, rewrite.hair, lexicon),
        *_items(source, rewrite, lexicon),
    ]
    told = {finding.rewrite.span for finding in findings if finding.rewrite is not None}
    return (*findings, *_strange_words(source, rewrite, told, lexicon))


def _strange_words(
    source: Description, rewrite: Description, told: set[Span], lexicon: Lexicon
) -> Iterator[Finding]:
    """Colours and sides that the source has nowhere: a net under what the parser attaches wrongly.

    Colours of skin are left to the comparison of persons, because they have words of their own.
    """
    skin = {fact.span for fact in rewrite.person.all(Attribute.SKIN)}
    known = [fact.value for fact in source.colours]
    for fact in rewrite.colours:
        seen = any(start <= fact.span[0] < end for start, end in told | skin)
        if not seen and not _has([*known, *_implied(known)], fact.value, lexicon):
            yield added(fact)
    yield from _strange_sides(source, rewrite, told)


def _implied(colours: list[str]) -> list[str]:
    return ["multicoloured"] if len(set(colours)) > 1 else []


def _strange_sides(source: Description, rewrite: Description, told: set[Span]) -> Iterator[Finding]:
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


def added(fact: Fact, minor: bool = False) -> Finding:
    """The finding that a rewrite states something of its own."""
    message = f"The rewrite adds {_said(fact)}, which the source does not say."
    return Finding(change="added", message=message, rewrite=fact, minor=minor)


def lost(fact: Fact) -> Finding:
    """The finding that a rewrite leaves something out."""
    return Finding(
        change="lost", message=f"The rewrite leaves out {_said(fact)}.", source=fact, minor=True
    )


def contradicted(source: Fact, rewrite: Fact, minor: bool = False) -> Finding:
    """The finding that a rewrite states something else."""
    message = f"The rewrite says {_said(rewrite)}; the source says {_said(source)}."
    return Finding(
        change="contradicted", message=message, source=source, rewrite=rewrite, minor=minor
    )


def _said(fact: Fact) -> str:
    if fact.attribute in (Attribute.GARMENT, Attribute.FOOTWEAR, Attribute.ACCESSORY):
        return f"«{fact.value}»"
    if fact.subject == "text":
        return f"«{fact.value}»"
    if fact.attribute is Attribute.SIDE:
        return f"that the {fact.subject} is on the {fact.value}"
    return f"{fact.attribute} «{fact.value}» of the {fact.subject}"


# The person


def _persons(source: Thing, rewrite: Thing, lexicon: Lexicon) -> Iterator[Finding]:
    yield from _sexes(source.all(Attribute.SEX), rewrite.all(Attribute.SEX))
    yield from _scale("age", source.all(Attribute.AGE), rewrite.all(Attribute.AGE), lexicon)
    for scale in ("height", "build"):
        yield from _scale(
            scale,
            [fact for fact in source.all(Attribute.BUILD) if fact.value.endswith(scale)],
            [fact for fact in rewrite.all(Attribute.BUILD) if fact.value.endswith(scale)],
            lexicon,
        )
    yield from _scale("skin", source.all(Attribute.SKIN), rewrite.all(Attribute.SKIN), lexicon)
    yield from _actions(source.all(Attribute.ACTION), rewrite.all(Attribute.ACTION))


def _sexes(source: tuple[Fact, ...], rewrite: tuple[Fact, ...]) -> Iterator[Finding]:
    said = {fact.value for fact in source}
    for fact in rewrite:
        if fact.value not in said:
            yield contradicted(source[0], fact) if source else added(fact)
    if source and not rewrite:
        yield lost(source[0])


def _scale(
    scale: str, source: Iterable[Fact], rewrite: Iterable[Fact], lexicon: Lexicon
) -> Iterator[Finding]:
    """Differences on an ordered scale; one step is what honest annotators differ by."""
    source, rewrite = tuple(source), tuple(rewrite)
    for fact in rewrite:
        if not source:
            yield added(fact, minor=scale != "age")
            continue
        nearest = min(source, key=lambda other: _steps(scale, other, fact, lexicon))
        if steps := _steps(scale, nearest, fact, lexicon):
            yield contradicted(nearest, fact, minor=steps == 1)
    if not rewrite:
        yield from (lost(fact) for fact in source)


def _steps(scale: str, one: Fact, other: Fact, lexicon: Lexicon) -> int:
    suffix = f" {scale}"
    return lexicon.steps(scale, one.value.removesuffix(suffix), other.value.removesuffix(suffix))


def _actions(source: tuple[Fact, ...], rewrite: tuple[Fact, ...]) -> Iterator[Finding]:
    said = {fact.value: fact for fact in source}
    postures = [fact for fact in source if fact.value in _POSTURES]
    for fact in rewrite:
        if fact.value in said:
            continue
        if fact.value in _POSTURES and postures:
            yield contradicted(postures[0], fact)
        else:
            yield added(fact)
    repeated = {fact.value for fact in rewrite}
    yield from (lost(fact) for fact in source if fact.value not in repeated)


# Hair


def _hair(source: Thing, rewrite: Thing, lexicon: Lexicon) -> Iterator[Finding]:
    yield from _colours(source, rewrite, lexicon)
    yield from _scale(
        "hair_length", source.all(Attribute.LENGTH), rewrite.all(Attribute.LENGTH), lexicon
    )
    yield from _styles(source.all(Attribute.HAIR), rewrite.all(Attribute.HAIR))


def _styles(source: tuple[Fact, ...], rewrite: tuple[Fact, ...]) -> Iterator[Finding]:
    said = {fact.value for fact in source}
    for fact in rewrite:
        if fact.value in said or (fact.value == "tied" and said & _TIED):
            continue
        opposed = next((other for other in source if _opposed(other.value, fact.value)), None)
        if opposed is not None:
            yield contradicted(opposed, fact)
        else:
            yield added(fact, minor=fact.value in _WEAK_STYLES)
    repeated = {fact.value for fact in rewrite}
    yield from (lost(fact) for fact in source if fact.value not in repeated)


def _opposed(one: str, other: str) -> bool:
    if one in _TIED and other in _TIED:
        return "tied" not in (one, other)
    return any(
        (one in left and other in right) or (other in left and one in right)
        for left, right in _OPPOSED_STYLES
    )


# Items


def _items(source: Description, rewrite: Description, lexicon: Lexicon) -> Iterator[Finding]:
    present = [item for item in source.items if not item.negated]
    matching = match_items(present, [item for item in rewrite.items if not item.negated], lexicon)
    for one, other in matching.pairs:
        yield from _kinds(one, other, lexicon)
        yield from _attributes(one, other, source, lexicon)
    yield from _unmatched(matching, present, source, lexicon)
    yield from _negated(source, rewrite, lexicon)


def _name(thing: Thing) -> Fact:
    """The fact that names an item; one with only attributes answers with its first."""
    return thing.facts[0]


def _kinds(source: Thing, rewrite: Thing, lexicon: Lexicon) -> Iterator[Finding]:
    if rewrite.kind == source.kind or not lexicon.is_a(rewrite.kind, source.kind):
        return
    yield added(_name(rewrite), minor=not lexicon.claims(rewrite.kind, source.kind))


def _unmatched(
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
            yield added(_name(item), minor=not item.known and _is_familiar(item, source, lexicon))
    yield from (lost(_name(item)) for item in left)


def _repeats(item: Thing, present: list[Thing], lexicon: Lexicon) -> bool:
    """Whether an item says again, without news, what another said: «completing her outfit»."""
    if item.kind == "clothing" and not item.values(Attribute.COLOUR):
        return True
    return any(
        lexicon.is_a(other.kind, item.kind)
        and not any(finding.change != "lost" for finding in _colours(other, item, lexicon))
        for other in present
    )


def _is_familiar(item: Thing, source: Description, lexicon: Lexicon) -> bool:
    """Whether the source has the word of an unknown thing, and its colours somewhere."""
    if item.kind in lexicon.parts or not re.search(
        rf"\b{re.escape(item.kind)}", source.text, re.IGNORECASE
    ):
        return False
    known = [colour for thing in source.things() for colour in thing.values(Attribute.COLOUR)]
    return all(_has(known, colour, lexicon) for colour in item.values(Attribute.COLOUR))


def _negated(source: Description, rewrite: Description, lexicon: Lexicon) -> Iterator[Finding]:
    for item in rewrite.items:
        if not item.negated:
            continue
        candidates = [other for other in source.items if related(other, item, lexicon)]
        if any(other.negated for other in candidates):
            continue
        yield contradicted(_name(candidates[0]), _name(item)) if candidates else added(_name(item))


def _attributes(
    source: Thing, rewrite: Thing, whole: Description, lexicon: Lexicon
) -> Iterator[Finding]:
    yield from _colours(source, rewrite, lexicon, whole.loose_colours())
    yield from _patterns(source, rewrite, whole)
    yield from _lengths(source, rewrite, lexicon)
    yield from _sides(source.all(Attribute.SIDE), rewrite.all(Attribute.SIDE))
    for part in rewrite.parts:
        yield from _part(source, part, whole, lexicon)


def _colours(
    source: Thing, rewrite: Thing, lexicon: Lexicon, loose: Collection[str] = ()
) -> Iterator[Finding]:
    """Differences of colour; `loose` are those that the source names of nothing known."""
    main, theirs = source.all(Attribute.COLOUR), rewrite.all(Attribute.COLOUR)
    known = [fact.value for fact in main]
    large = [part for part in source.parts if part.kind not in _SMALL_PARTS]
    around = [*source.inherited, *(c for part in large for c in part.values(Attribute.COLOUR))]
    shared = [fact for fact in theirs if _has(known, fact.value, lexicon)]
    for fact in theirs:
        if fact in shared:
            yield from _shades(source, rewrite, fact)
        elif (_has(around, fact.value, lexicon) and (shared or not main)) or (
            fact.value == "multicoloured" and len(known) + len(around) > 1
        ):
            continue
        else:
            nearest = _rest(main, theirs, lexicon) if main else None
            is_loose = _has(loose, fact.value, lexicon)
            yield contradicted(nearest, fact) if nearest else added(fact, minor=is_loose)
    said = [fact.value for fact in theirs]
    said += [c for part in rewrite.parts for c in part.values(Attribute.COLOUR)]
    yield from (lost(fact) for fact in main if not _has(said, fact.value, lexicon))


def _rest(main: tuple[Fact, ...], theirs: tuple[Fact, ...], lexicon: Lexicon) -> Fact:
    """The source's colour that a strange one most likely stands for."""
    said = [fact.value for fact in theirs]
    return next((fact for fact in main if not _has(said, fact.value, lexicon)), main[0])


def _has(colours: Collection[str], colour: str, lexicon: Lexicon) -> bool:
    return any(lexicon.same_colour(colour, other) for other in colours)


def _shades(source: Thing, rewrite: Thing, fact: Fact) -> Iterator[Finding]:
    shade = rewrite.shades.get(fact.span, "")
    for other in source.all(Attribute.COLOUR):
        opposite = {shade, source.shades.get(other.span, "")} == {"dark", "light"}
        if other.value == fact.value and opposite:
            yield contradicted(other, fact)


def _patterns(source: Thing, rewrite: Thing, whole: Description) -> Iterator[Finding]:
    known = source.all(Attribute.PATTERN)
    said = {fact.value for fact in known}
    for fact in rewrite.all(Attribute.PATTERN):
        if fact.value in said:
            continue
        elsewhere = any(fact.value in i.values(Attribute.PATTERN) for i in whole.items)
        if fact.value == "graphic" or not known:
            yield added(fact, minor=elsewhere or fact.value == "graphic")
        else:
            yield contradicted(known[0], fact)
    repeated = set(rewrite.values(Attribute.PATTERN))
    yield from (lost(fact) for fact in known if fact.value not in repeated)


def _lengths(source: Thing, rewrite: Thing, lexicon: Lexicon) -> Iterator[Finding]:
    """Sleeves and ends of a garment, each on its scale; one step is a minor difference."""
    for of_sleeve in (True, False):
        mine = _measured(source, of_sleeve, lexicon)
        theirs = _measured(rewrite, of_sleeve, lexicon)
        for place, fact in theirs:
            if not mine:
                yield added(fact, minor=True)
                continue
            nearest = _closest(mine, place)
            if steps := abs(nearest[0] - place):
                yield contradicted(nearest[1], fact, minor=steps == 1)
        if not theirs:
            yield from (lost(fact) for _, fact in mine)


def _closest(measured: list[tuple[int, Fact]], place: int) -> tuple[int, Fact]:
    return min(measured, key=lambda pair: abs(pair[0] - place))


def _measured(thing: Thing, of_sleeve: bool, lexicon: Lexicon) -> list[tuple[int, Fact]]:
    scale = _SLEEVES if of_sleeve else _reaches_of(thing, lexicon)
    facts = thing.all(Attribute.LENGTH)
    return [(scale[fact.value], fact) for fact in facts if fact.value in scale]


def _reaches_of(thing: Thing, lexicon: Lexicon) -> dict[str, int]:
    of_legs = lexicon.slot(thing.kind) in _LEGS
    return _REACHES | (_FULL_REACH if of_legs else _COAT_REACH)


def _sides(source: tuple[Fact, ...], rewrite: tuple[Fact, ...]) -> Iterator[Finding]:
    said = {fact.value for fact in source}
    for fact in rewrite:
        if fact.value not in said:
            yield contradicted(source[0], fact) if source else added(fact)
    if not rewrite:
        yield from (lost(fact) for fact in source)


def _part(source: Thing, part: Thing, whole: Description, lexicon: Lexicon) -> Iterator[Finding]:
    """A part's colour must be that of the same part, or one that the item has somewhere."""
    same = [other for other in source.parts if other.kind == part.kind]
    coloured = [other for other in same if other.values(Attribute.COLOUR)]
    everywhere = [
        *source.values(Attribute.COLOUR),
        *(colour for other in source.parts for colour in other.values(Attribute.COLOUR)),
    ]
    for fact in part.all(Attribute.COLOUR):
        known = [colour for other in coloured for colour in other.values(Attribute.COLOUR)]
        if _has(known or everywhere, fact.value, lexicon):
            continue
        if coloured:
            yield contradicted(coloured[0].all(Attribute.COLOUR)[0], fact)
        else:
            parts = (other for item in whole.items for other in item.parts)
            alike = [p.values(Attribute.COLOUR) for p in parts if p.kind == part.kind]
            moved = any(_has(colours, fact.value, lexicon) for colours in alike)
            yield added(fact, minor=moved or _is_familiar(part, whole, lexicon))
    said = part.all(Attribute.SIDE)
    yield from _sides(tuple(f for other in same for f in other.all(Attribute.SIDE)), said)
