"""Compare two descriptions: every attribute added, lost or contradicted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product

from loupe.checks.person.description import Description, Thing
from loupe.checks.person.lexicon import INSIDE, Mention, Tag
from loupe.checks.person.stray_words import (
    LEXICON,
    added,
    contradicted,
    find_stray_words,
    has_colour,
    has_word,
    is_other_side,
    is_other_word,
    is_suggested,
    lost,
    says_otherwise,
    word_fact,
)
from loupe.schemas.faithfulness import Attribute, Fact, Finding

__all__ = ["find_differences"]


def _compare_values(
    source: Sequence[Fact],
    rewrite: Sequence[Fact],
    *,
    against: Callable[[Fact], Fact | None] | None = None,
    minor: Callable[[Fact], bool] = lambda _: False,
) -> Iterator[Finding]:
    """Find each value that only one side has.

    A value of the rewrite contradicts the fact of the source that `against` returns, by default the
    first. If there is none it is an addition, which may be `minor`.
    """
    said, theirs = {fact.value for fact in source}, {fact.value for fact in rewrite}
    for fact in rewrite:
        if fact.value not in said:
            other = against(fact) if against else next(iter(source), None)
            yield contradicted(other, fact) if other else added(fact, minor=minor(fact))
    yield from (lost(fact) for fact in source if fact.value not in theirs)


# Colours of an item or of the hair, with the shades that go with them.

_SMALL_PARTS = frozenset(("zip", "button", "lace", "handle", "pocket", "lens"))


def _compare_colours(
    source: Thing, rewrite: Thing, whole: Description | None = None
) -> Iterator[Finding]:
    """Compare colours; one without a known item in `whole` may describe `source`."""
    main, theirs = source.all(Attribute.COLOUR), rewrite.all(Attribute.COLOUR)
    if not main and not theirs:
        return
    known = [fact.value for fact in main]
    shared = [fact for fact in theirs if has_colour(known, fact.value)]
    around = _surrounding_colours(source) if len(shared) < len(theirs) else []
    allowed = around if shared or not main else []
    for fact in theirs:
        if fact in shared:
            yield from _opposite_shades(source, rewrite, fact)
        elif has_colour(allowed, fact.value) or _summarizes_colours(fact, known + around):
            continue
        elif main:
            yield contradicted(_replaced_colour(main, theirs), fact)
        else:
            loose = list(whole.loose_colours()) if whole is not None else []
            for item in whole.items if whole is not None else ():  # of a uniform
                if LEXICON.slot(item.kind) in ("whole", "clothing"):
                    loose += item.values(Attribute.COLOUR)
            loose += LEXICON.all_said(source.kind)  # blue jeans
            yield added(fact, minor=has_colour(loose, fact.value))
    said = [fact.value for fact in theirs] + _of_parts(rewrite.parts)
    yield from (lost(fact) for fact in main if not has_colour(said, fact.value))


def _summarizes_colours(fact: Fact, colours: list[str]) -> bool:
    """Whether «colourful» summarizes several colours."""
    return fact.value == "multicoloured" and len(colours) > 1


def _surrounding_colours(source: Thing) -> list[str]:
    """Return colours a rewrite may give the whole item: of large parts, or shared in a list."""
    large = [part for part in source.parts if part.kind not in _SMALL_PARTS]
    return [*source.inherited, *_of_parts(large)]


def _of_parts(parts: Sequence[Thing]) -> list[str]:
    return [colour for part in parts for colour in part.values(Attribute.COLOUR)]


def _replaced_colour(main: Sequence[Fact], theirs: Sequence[Fact]) -> Fact:
    """Return the source's colour that an unknown one most likely replaces."""
    said = [fact.value for fact in theirs]
    return next((fact for fact in main if not has_colour(said, fact.value)), main[0])


def _opposite_shades(source: Thing, rewrite: Thing, fact: Fact) -> Iterator[Finding]:
    """Find opposite shades, such as «light blue» for «dark blue»."""
    if not (source.shades and rewrite.shades):
        return
    shade = rewrite.shades.get(fact.span, "")
    for other in source.all(Attribute.COLOUR):
        shades = {shade, source.shades.get(other.span, "")}
        opposed = tuple(shades) in LEXICON.near["opposite_shades"]
        if opposed and LEXICON.are_near("colours", other.value, fact.value):
            yield contradicted(other, fact)


# Attributes that are measured in steps. Careful annotators may differ by one step.

Placed = tuple[int, Fact]
"""A fact with its position on a scale."""


def placed(facts: Iterable[Fact], scale: str) -> list[Placed]:
    """Return facts with their positions on a scale of the lexicon; values may end in its name."""
    return [(LEXICON.place(scale, fact.value.removesuffix(f" {scale}")), fact) for fact in facts]


def _compare_on_scale(
    source: Sequence[Placed], rewrite: Sequence[Placed], *, minor_if_added: bool = True
) -> Iterator[Finding]:
    """Compare each fact of the rewrite with the closest of the source; one step apart is minor."""
    for place, fact in rewrite:
        if not source:
            yield added(fact, minor=minor_if_added)
            continue
        steps, index = min((abs(other - place), index) for index, (other, _) in enumerate(source))
        if steps:
            apart = max(abs(other - place) for other, _ in source)
            yield contradicted(source[index][1], fact, minor=steps == apart == 1)
    if not rewrite:
        yield from (lost(fact) for _, fact in source)


# The hair: colour, length and how it is worn.

_TIED = frozenset(("tied", "ponytail", "bun", "braid"))
_WEAK = frozenset(("loose", "straight", "parted", "middle-parted", "side-parted", "cropped"))


def _compare_hair(source: Thing, rewrite: Thing) -> Iterator[Finding]:
    """Compare hair."""
    yield from _compare_colours(source, rewrite)
    yield from _compare_on_scale(_hair_lengths(source), _hair_lengths(rewrite))
    yield from _compare_details(source, rewrite)
    known, theirs = source.all(Attribute.HAIR), rewrite.all(Attribute.HAIR)
    said = {fact.value for fact in known}
    closer = said & _TIED and "tied" not in said  # «a ponytail» says that it is tied
    yield from _compare_values(
        known,
        [
            fact
            for fact in theirs
            if not (fact.value == "tied" and closer)
            and not any((fact.value, other) in LEXICON.near["styles"] for other in said)
        ],
        against=lambda fact: next((one for one in known if _are_opposed(one, fact)), None),
        minor=lambda fact: fact.value in _WEAK,
    )


def _hair_lengths(hair: Thing) -> list[Placed]:
    """Return the lengths of hair, also of styles that say one: cropped."""
    lengths = placed(hair.all(Attribute.LENGTH), "hair_length")
    for fact in hair.all(Attribute.HAIR):
        said = LEXICON.implied.get(fact.value, ())
        lengths += [(LEXICON.place("hair_length", length), fact) for length in said]
    return lengths


def _are_opposed(one: Fact, other: Fact) -> bool:
    pair = {one.value, other.value}
    if pair <= _TIED:
        return "tied" not in pair
    return (one.value, other.value) in LEXICON.near["opposite_styles"]


# Patterns, sleeves, hems and sides of an item.

_SLEEVES = {"sleeveless": 0, "short sleeves": 1, "half sleeves": 2, "long sleeves": 3}
# A «long» skirt or dress ends at the ankle, a «long» jacket at the thigh.
_FULL_REACHES = {"long": 5, "medium": 3, "short": 2}
_COAT_REACHES = {"long": 2, "medium": 1, "short": 0}
_SOCK_REACHES = {"long": 3, "medium": 4, "short": 5}
_PAIRED = ("feet", "socks", "wrist", "face")


def _compare_patterns(source: Thing, rewrite: Thing, whole: Description) -> Iterator[Finding]:
    """Compare patterns; one that another item of the source has may only have moved."""
    known, implied = source.all(Attribute.PATTERN), set(LEXICON.all_said(source.kind))
    implied |= {value for part in source.parts for value in part.values(Attribute.PATTERN)}
    implied |= {"striped"} if any(part.kind == "panel" for part in source.parts) else set()
    elsewhere = {value for item in whole.items for value in item.values(Attribute.PATTERN)}
    yield from _compare_values(
        known,
        [fact for fact in rewrite.all(Attribute.PATTERN) if fact.value not in implied],
        against=lambda fact: known[0] if known and fact.value != "graphic" else None,
        minor=lambda fact: (
            fact.value in elsewhere or fact.value == "graphic" or is_suggested(fact.value, whole)
        ),
    )


def _compare_lengths(source: Thing, rewrite: Thing) -> Iterator[Finding]:
    """Compare sleeves and lengths of a garment, each on its scale; one step is minor."""
    if not (source.all(Attribute.LENGTH) or rewrite.all(Attribute.LENGTH)):
        return
    sleeves, ends = [], []
    for thing in (source, rewrite):
        on_legs = LEXICON.slot(thing.kind) in ("lower", "whole")
        reaches = {f"{level}-length": n for n, level in enumerate(LEXICON.scales["reach"])}
        on_feet = LEXICON.slot(thing.kind) in ("feet", "socks")
        reaches |= _SOCK_REACHES if on_feet else _FULL_REACHES if on_legs else _COAT_REACHES
        facts = thing.all(Attribute.LENGTH)
        sleeves.append([(_SLEEVES[one.value], one) for one in facts if one.value in _SLEEVES])
        ends.append([(reaches[one.value], one) for one in facts if one.value in reaches])
    yield from _compare_on_scale(*sleeves)
    if sleeves[1] and not sleeves[0]:  # «sleeveless» for «with puffed sleeves»
        parts = (part for part in source.parts if part.kind == "sleeve" and part.span != (0, 0))
        named = next((word_fact(Attribute.DETAIL, part.kind, part.span) for part in parts), None)
        if named is not None and sleeves[1][0][0] == 0:
            yield contradicted(named, sleeves[1][0][1])
    reached = [place for place, _ in ends[0]]
    meant = [  # «long» may mean any greater length
        (next((other for other in reached if other >= place), place), fact)
        if fact.value == "long"
        else (place, fact)
        for place, fact in ends[1]
    ]
    yield from _compare_on_scale(ends[0], meant)


def _compare_alternatives(source: Sequence[Fact], rewrite: Sequence[Fact]) -> Iterator[Finding]:
    """Find alternatives: left for right, another sex, or what the source does not say."""
    found = _compare_values(source, rewrite)
    yield from (one for one in found if not (rewrite and one.change == "lost"))


def _compare_materials(source: Thing, rewrite: Thing) -> Iterator[Finding]:
    """Compare materials, except those that the name of an item implies."""
    around = [value for one in (source, *source.parts) for value in one.values(Attribute.MATERIAL)]
    implied = LEXICON.all_said(source.kind) | LEXICON.all_said(rewrite.kind)
    known, theirs = source.all(Attribute.MATERIAL), rewrite.all(Attribute.MATERIAL)
    for fact in theirs:
        near = any(LEXICON.are_near("materials", fact.value, other) for other in around)
        if not near and fact.value not in implied:
            yield contradicted(known[0], fact) if known else added(fact)
    yield from (one for one in _compare_values(known, theirs) if one.change == "lost")


def _compare_details(source: Thing, rewrite: Thing) -> Iterator[Finding]:
    """Compare size, fit, shape and state; an addition without contradiction is minor."""
    known, implied = source.all(Attribute.DETAIL), LEXICON.all_said(source.kind)

    def against(fact: Fact) -> Fact | None:
        opposed = (one for one in known if LEXICON.are_opposed(one.value, fact.value))
        by_name = any(LEXICON.are_opposed(fact.value, one) for one in implied)
        return next(opposed, source.facts[0] if by_name else None)

    theirs = [fact for fact in rewrite.all(Attribute.DETAIL) if fact.value not in implied]
    found = _compare_values(known, theirs, against=against, minor=lambda _: True)
    yield from (finding for finding in found if finding.change != "lost")


def _compare_counts(source: Thing, rewrite: Thing, whole: Description) -> Iterator[Finding]:
    """Compare counts, such as «two bags» for one; two shoes are a pair."""
    if not rewrite.all(Attribute.COUNT):
        return
    each = any(mention.phrase == "each" for mention in whole.mentions)
    same = [item for item in whole.items if LEXICON.is_a(item.kind, rewrite.kind)]
    paired = LEXICON.slot(rewrite.kind) in _PAIRED or len(same) == 2 or each
    usual = {"2"} if paired else set[str]()
    usual |= set() if source.all(Attribute.COUNT) else {"1"}
    usual |= {"several"} if whole.text[slice(*source.span)].endswith("s") else set()
    theirs = [one for one in rewrite.all(Attribute.COUNT) if one.value not in usual]
    found = _compare_values(source.all(Attribute.COUNT), theirs)
    yield from (finding for finding in found if finding.change != "lost")


def _compare_places(source: Thing, rewrite: Thing) -> Iterator[Finding]:
    """Compare places, such as a bag at the hand for one on the back; adjacent places are equal."""
    known, theirs = source.all(Attribute.PLACE), rewrite.all(Attribute.PLACE)
    places = [fact.value for fact in known] or LEXICON.places_said(source.kind)
    pairs = [(fact.value, place) for fact in theirs for place in places]
    if pairs and not any(LEXICON.are_near("places", *pair) for pair in pairs):
        yield contradicted(known[0] if known else source.facts[0], theirs[0])


# Pairs the items of a rewrite with those of its source.

_GROUPS = {"upper": "torso", "outer": "torso", "whole": "torso", "clothing": "torso"}
_KEPT_PAIRS = 8192  # a description names some ten kinds out of some two hundred

Matching = tuple[list[tuple[Thing, Thing]], list[Thing], list[Thing]]
"""Pairs of (source item, rewrite item), and the unpaired items of each side."""


def _match_items(source: list[Thing], rewrite: list[Thing]) -> Matching:
    """Return the best pairing of items of compatible kinds, closest pairs first."""
    whole = all(any(item.kind == "clothing" for item in items) for items in (source, rewrite))
    scored = sorted(
        (
            (-_likeness(one, other), i, j)
            for i, one in enumerate(source)
            for j, other in enumerate(rewrite)
            if related(one.kind, other.kind)
            and not (whole and (one.kind == "clothing") != (other.kind == "clothing"))
        ),
    )
    pairs: dict[int, int] = {}
    for _, i, j in scored:
        if i not in pairs and j not in pairs.values():
            pairs[i] = j
    left = [item for i, item in enumerate(source) if i not in pairs]
    new = [item for j, item in enumerate(rewrite) if j not in pairs.values()]
    return [(source[i], rewrite[j]) for i, j in pairs.items()], left, new


@lru_cache(maxsize=_KEPT_PAIRS)
def related(one: str, other: str) -> bool:
    """Whether both may be kinds of one item: equal, or one more general than the other."""
    if LEXICON.is_a(one, other) or LEXICON.is_a(other, one):
        return True
    kinds = (one, other)
    if kinds in LEXICON.near["kinds"]:
        return True
    if "clothing" in kinds:
        return all(LEXICON.attribute(kind) is Attribute.GARMENT for kind in kinds)
    return "top" in kinds and all(LEXICON.slot(kind) in ("upper", "outer") for kind in kinds)


def same_place(one: Thing, other: Thing) -> bool:
    """Whether both are worn at one place, so that one may replace the other."""
    slots = [LEXICON.slot(thing.kind) for thing in (one, other)]
    return bool(slots[0]) and len({_GROUPS.get(slot, slot) for slot in slots}) == 1


def _likeness(one: Thing, other: Thing) -> float:
    score = 3.0 if one.kind == other.kind else 2.0
    if "clothing" in (one.kind, other.kind):
        score = 1.0
    mine, theirs = one.values(Attribute.COLOUR), other.values(Attribute.COLOUR)
    if mine and theirs:
        score += 1.5 if any(has_colour(mine, colour) for colour in theirs) else -0.5
    sides = one.values(Attribute.SIDE), other.values(Attribute.SIDE)
    if all(sides):
        score += 0.4 if set(sides[0]) & set(sides[1]) else -0.2
    return score


# Parts of items: collars, soles, stripes.

_ON_CLOTHES = frozenset(("front", "back", "chest"))


def _compare_part(source: Thing, part: Thing, whole: Description) -> Iterator[Finding]:
    """Compare a part of a rewrite with the same parts of the `source` item."""
    same = [other for other in source.parts if other.kind == part.kind]
    for fact in part.all(Attribute.COLOUR):
        yield from _compare_colour(source, same, fact, part, whole)
    for other in same[:1]:
        yield from _compare_counts(other, part, whole)
        if {*part.values(Attribute.PLACE), *other.values(Attribute.PLACE)} <= _ON_CLOTHES:
            yield from _compare_places(other, part)
        yield from _compare_materials(other, part)
        details = set(part.values(Attribute.DETAIL))
        if not any(details <= set(one.values(Attribute.DETAIL)) for one in same):
            yield from _compare_details(other, part)
    sides = [fact for other in same for fact in other.all(Attribute.SIDE)]
    yield from _compare_alternatives(sides, part.all(Attribute.SIDE))


def _is_coloured_as(thing: Thing, source: Description) -> bool:
    """Whether an unknown word only describes something in colours that the source has."""
    known = [colour for colour, _ in source.colours]
    colours = thing.values(Attribute.COLOUR)
    if not colours:
        return _is_familiar(thing, source)
    return all(has_colour(known, colour) for colour in colours)


def _is_familiar(thing: Thing, source: Description) -> bool:
    """Whether the source has the word of an unknown thing, and its colours anywhere."""
    if thing.kind in LEXICON.parts or not has_word(source.text, thing.kind):
        return False
    known = [colour for other in source.things() for colour in other.values(Attribute.COLOUR)]
    return all(has_colour(known, colour) for colour in thing.values(Attribute.COLOUR))


def _compare_colour(
    source: Thing, same: Sequence[Thing], fact: Fact, part: Thing, whole: Description
) -> Iterator[Finding]:
    """Compare the colour of a part with that of the same part, or with any colour of the item."""
    theirs = [other for thing in same for other in thing.all(Attribute.COLOUR)]
    known = [other.value for other in theirs] or _colours_anywhere(source)
    if has_colour(known, fact.value):
        return
    if theirs:
        yield contradicted(theirs[0], fact)
    else:
        parts = (other for item in whole.items for other in item.parts if other.kind == part.kind)
        moved = any(has_colour(p.values(Attribute.COLOUR), fact.value) for p in parts)
        yield added(fact, minor=moved or _is_familiar(part, whole))


def _colours_anywhere(item: Thing) -> list[str]:
    return [colour for thing in (item, *item.parts) for colour in thing.values(Attribute.COLOUR)]


# Items that are worn and carried: added, lost, replaced, denied, or named more closely.


def _compare_items(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Compare all items of two descriptions."""
    present = [item for item in source.items if not item.negated]
    if any(
        i.kind != "clothing" and LEXICON.attribute(i.kind) is Attribute.GARMENT for i in present
    ):
        present = [i for i in present if i.kind != "clothing" or i.values(Attribute.COLOUR)]
    theirs = [item for item in rewrite.items if not item.negated]
    theirs = [item for item in theirs if not _sums_up_clothes(item, present)]
    pairs, left, new = _match_items(present, theirs)
    for one, other in pairs:
        yield from _compare_kinds(one, other)
        found = _compare_attributes(one, other, source)
        if other.kind == "clothing" != one.kind:  # «her outfit consists of …» repeats no details
            found = (finding for finding in found if finding.change != "lost")
        yield from found
    yield from _compare_unmatched(left, new, present, source)
    yield from _compare_negated(source, rewrite)


def _sums_up_clothes(item: Thing, present: list[Thing]) -> bool:
    """Whether a rewrite summarizes clothes by colour: «dressed in grey and yellow»."""
    if (
        item.kind != "clothing"
        or item.carried
        or any(other.kind == "clothing" for other in present)
    ):
        return False
    worn = (Attribute.GARMENT, Attribute.FOOTWEAR)
    colours = [
        colour
        for other in present
        if LEXICON.attribute(other.kind) in worn
        for colour in other.values(Attribute.COLOUR)
    ]
    own = item.values(Attribute.COLOUR)
    return bool(own) and all(has_colour(colours, colour) for colour in own)


def _name(thing: Thing) -> Fact:
    """Return the fact that names an item; if it has only attributes or parts, the first of them."""
    return (thing.facts or thing.parts[0].facts)[0]


def _compare_kinds(source: Thing, rewrite: Thing) -> Iterator[Finding]:
    if rewrite.kind != source.kind and LEXICON.is_a(rewrite.kind, source.kind):
        yield added(_name(rewrite), minor=not LEXICON.claims(rewrite.kind, source.kind))


def _compare_attributes(source: Thing, rewrite: Thing, whole: Description) -> Iterator[Finding]:
    yield from _compare_colours(source, rewrite, whole)
    yield from _compare_patterns(source, rewrite, whole)
    yield from _compare_materials(source, rewrite)
    yield from _compare_details(source, rewrite)
    yield from _compare_counts(source, rewrite, whole)
    if LEXICON.attribute(source.kind) is Attribute.ACCESSORY:
        yield from _compare_places(source, rewrite)
    yield from _compare_lengths(source, rewrite)
    yield from _compare_alternatives(source.all(Attribute.SIDE), rewrite.all(Attribute.SIDE))
    for part in rewrite.parts:
        yield from _compare_part(source, part, whole)


def _compare_unmatched(
    left: list[Thing], new: list[Thing], present: list[Thing], source: Description
) -> Iterator[Finding]:
    """Compare items that only one side has: replaced, denied before, added or lost."""
    for item in new:
        negated = next((i for i in source.items if i.negated and related(i.kind, item.kind)), None)
        instead = next((other for other in left if same_place(other, item)), None)
        if negated is not None:
            yield contradicted(_name(negated), _name(item))
        elif instead is not None and not _is_named_in(item, source):
            left.remove(instead)
            yield contradicted(_name(instead), _name(item))
        elif not _repeats(item, present):
            yield added(_name(item), minor=_is_named_in(item, source))
    yield from (lost(_name(item)) for item in left)


def _is_named_in(item: Thing, source: Description) -> bool:
    """Whether the source has the word without the item: «clipped to his belt», «high-heeled»."""
    if not item.known:
        return says_otherwise(source, item.kind) or _is_coloured_as(item, source)
    if any(related(other.kind, item.kind) for other in source.items):
        return False
    if any(item.kind in LEXICON.all_said(other.kind) for other in source.items):
        return True  # the vest of a three-piece suit
    if is_suggested(item.kind, source):
        return True
    details = {value for value, _ in source.named[Tag.DETAIL]}
    if not details.isdisjoint(LEXICON.implied.get(item.kind, ())):
        return True
    return any(
        LEXICON.is_a(mention.value(Tag.ITEM), item.kind) or item.kind in mention.phrase.split()
        for mention in source.mentions
    )


def _repeats(item: Thing, present: list[Thing]) -> bool:
    """Whether an item only repeats what another said: «completing her outfit»."""
    if item.kind == "clothing" and not item.values(Attribute.COLOUR):
        return True
    return any(
        LEXICON.is_a(other.kind, item.kind)
        and not any(finding.change != "lost" for finding in _compare_colours(other, item))
        for other in present
    )


def _compare_negated(source: Description, rewrite: Description) -> Iterator[Finding]:
    """Find negations such as «no bag» if the source has one or does not mention any."""
    for item in rewrite.items:
        if not item.negated:
            continue
        candidates = [other for other in source.items if related(other.kind, item.kind)]
        details = [value for value, _ in source.named[Tag.DETAIL]]
        if any(LEXICON.are_opposed(*p) for p in product(details, LEXICON.all_said(item.kind))):
            continue  # «without high heels» for «flat»
        if not any(other.negated for other in candidates):
            denied = _name(item)
            yield contradicted(_name(candidates[0]), denied) if candidates else added(denied)


# The person: sex, age, height, build, skin, and what the person does.

_ON_FOOT = ("standing", "walking")
_POSTURES = frozenset(("walking", "standing", "sitting", "running", "riding", "crouching"))


def _compare_persons(source: Thing, rewrite: Thing, whole: Description) -> Iterator[Finding]:
    """Compare two persons, regardless of clothes."""
    sexes = whole.values(Tag.PERSON, Tag.PRONOUN)
    found = _compare_alternatives(source.all(Attribute.SEX), rewrite.all(Attribute.SEX))
    yield from (one for one in found if one.rewrite is None or one.rewrite.value not in sexes)
    for scale in ("age", "height", "build", "skin"):
        mine, theirs = _facts(source, scale), _facts(rewrite, scale)
        if mine or theirs:
            yield from _compare_on_scale(
                placed(mine, scale),
                placed(theirs, scale),
                minor_if_added=scale != "age",
            )
    yield from _compare_details(source, rewrite)
    known = source.all(Attribute.ACTION)
    postures = [fact for fact in known if fact.value in _POSTURES]
    yield from _compare_values(
        known,
        rewrite.all(Attribute.ACTION),
        against=lambda fact: postures[0] if postures and fact.value in _POSTURES else None,
        minor=lambda fact: (
            is_suggested(fact.value, whole) or (fact.value in _ON_FOOT and not postures)
        ),
    )


def _facts(person: Thing, scale: str) -> Sequence[Fact]:
    """Return facts on a scale; height and build share one attribute, and values tell them apart."""
    if scale in ("height", "build"):
        return [fact for fact in person.all(Attribute.BUILD) if fact.value.endswith(scale)]
    return person.all(Attribute(scale))


def _is_age_of_youth(finding: Finding, source: Description) -> bool:
    """Whether it only says that a boy or a girl is young."""
    fact = finding.rewrite
    if fact is None or fact.attribute is not Attribute.AGE or not source.tagged(Tag.YOUTH):
        return False
    return LEXICON.place("age", fact.value) <= LEXICON.place("age", "young")


# Attributes whose item is open: «in black, her coat over one arm» has two readings.

_OPEN = {
    Attribute.COLOUR: (Tag.COLOUR,),
    Attribute.PATTERN: (Tag.PATTERN, Tag.PATTERN_NOUN),
    Attribute.MATERIAL: (Tag.MATERIAL,),
    Attribute.SIDE: (Tag.SIDE,),
    Attribute.PLACE: (Tag.BODY, Tag.LEVEL),
    Attribute.LENGTH: (Tag.LEVEL, Tag.REACH),
    Attribute.COUNT: (Tag.NUMBER,),
}
_ANYWHERE = {Attribute.HAIR: Tag.HAIR_STYLE, Attribute.ACTION: Tag.ACTION}
_NOUNS = frozenset(
    (
        *(Tag.ITEM, Tag.PART, Tag.HAIR, Tag.SKIN, Tag.THING, Tag.OTHER, Tag.BODY),
        *(Tag.HAIR_STYLE, Tag.PATTERN, Tag.MATERIAL),
    )
)
_NEAR = 4  # words between an attribute and its noun


def is_open(finding: Finding, source: Description, rewrite: Description) -> bool:
    """Whether the attribute may belong to the noun that the source gives it to.

    It may if that noun is in the same sentence of the rewrite, unless the attribute is directly
    before another noun, or the rewrite says it more often than the source.
    """
    fact = finding.rewrite
    if fact is None or fact.subject == "text":
        return False
    if fact.attribute in _ANYWHERE and finding.change == "added":
        tag = _ANYWHERE[fact.attribute]
        return any(mention.values.get(tag) == fact.value for mention in source.mentions)
    if fact.attribute not in _OPEN:
        return False
    if finding.source is not None and LEXICON.are_near("colours", finding.source.value, fact.value):
        return False  # only its shade differs
    ours, theirs = (_places_of(fact, text) for text in (source, rewrite))
    at = [i for i in theirs if fact.span[0] <= rewrite.mentions[i].span[0] < fact.span[1]]
    if not ours or not at or len(theirs) > len(ours):
        return False
    noun = _noun_after(rewrite.mentions, at[0])
    said = {noun} if noun else _nouns_around(rewrite.mentions, at[0], len(rewrite.mentions))
    return any(
        _may_name_the_same(one, other)
        for place in ours
        for one in _nouns_of(source.mentions, place, directly=bool(noun))
        for other in said
    )


def _is_of_lost_item(
    finding: Finding, findings: Sequence[Finding], source: Description, rewrite: Description
) -> bool:
    """Whether an item that the rewrite seems to leave out has the attribute: «checks beneath»."""
    fact = finding.rewrite
    if fact is None or fact.attribute not in (Attribute.PATTERN, Attribute.MATERIAL):
        return False
    starts = [mention.span[0] for mention in rewrite.mentions]
    if fact.span[0] in starts and _noun_after(rewrite.mentions, starts.index(fact.span[0])):
        return False
    lost_names = {one.source.span for one in findings if one.change == "lost" and one.source}
    return any(
        item.span in lost_names and fact.value in item.values(fact.attribute)
        for item in source.items
    )


def _places_of(fact: Fact, text: Description) -> list[int]:
    """Return the positions of words that may mean the value of `fact`."""
    table = "colours" if fact.attribute is Attribute.COLOUR else "places"
    value = fact.value.removesuffix("-length")
    return [
        place
        for place, mention in enumerate(text.mentions)
        for tag in _OPEN[fact.attribute]
        if tag in mention.tags and LEXICON.are_near(table, mention.values[tag], value)
    ]


def _nouns_of(mentions: Sequence[Mention], place: int, *, directly: bool) -> set[str]:
    """Return the noun that the attribute at `place` is before, or those near it."""
    noun = _noun_after(mentions, place) if directly else ""
    return {noun} if noun else _nouns_around(mentions, place, _NEAR)


def _may_name_the_same(one: str, other: str) -> bool:
    if related(one, other) or one[:4] == other[:4] or one in LEXICON.alike.get(other, ()):
        return True
    return one in LEXICON.related.get(other, ()) or other in LEXICON.related.get(one, ())


def _noun_after(mentions: Sequence[Mention], place: int) -> str:
    """Return the noun of the attribute at `place` that follows in the same noun phrase, if any."""
    for mention in mentions[place + 1 :]:
        if mention.has(Tag.ITEM, Tag.PART, Tag.HAIR):
            return _key(mention)
        if not mention.among(INSIDE):
            break
    return ""


def _nouns_around(mentions: Sequence[Mention], place: int, reach: int) -> set[str]:
    """Return the nouns of the sentence that are at most `reach` words from `place`."""
    found = set[str]()
    for step in (1, -1):
        for distance in range(1, reach + 1):
            at = place + step * distance
            if not 0 <= at < len(mentions) or Tag.STOP in mentions[at].tags:
                break
            if mentions[at].among(_NOUNS) and len(mentions[at].phrase) > 2:
                found.add(_key(mentions[at]))
    return found


def _key(mention: Mention) -> str:
    """Return what is equal for words of equal meaning."""
    if mention.has(Tag.HAIR, Tag.HAIR_STYLE):
        return "hair"
    named = (mention.value(tag) for tag in (Tag.ITEM, Tag.PART, Tag.PATTERN, Tag.MATERIAL))
    return next(filter(None, named), mention.phrase)


# The comparison of two whole descriptions.


def find_differences(source: Description, rewrite: Description) -> tuple[Finding, ...]:
    """Find every attribute that `rewrite` adds to, loses from or contradicts in `source`.

    The same words say the same, also where a statement in them cannot be read.
    """
    if source.text.casefold().split() == rewrite.text.casefold().split():
        return ()
    findings = [
        *_compare_persons(source.person, rewrite.person, source),
        *_compare_hair(source.hair, rewrite.hair),
        *_compare_items(source, rewrite),
    ]
    findings = [
        one.model_copy(update={"minor": True})
        if is_open(one, source, rewrite)
        or _is_age_of_youth(one, source)
        or _is_of_lost_item(one, findings, source, rewrite)
        or is_other_word(one, source, rewrite)
        or is_other_side(one, source)
        else one
        for one in findings
    ]
    reported = {one.rewrite.span for one in findings if one.rewrite is not None and not one.minor}
    findings += find_stray_words(source, rewrite, reported)
    return tuple(findings)
