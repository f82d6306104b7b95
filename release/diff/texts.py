"""How the texts of a row changed: added, removed, edited, restated, reordered."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from rapidfuzz.distance import Indel

from release.diff.form import SAID_VALUES, Texts
from release.diff.records import PlacedText, TextChange, TextKind
from schemas.base import canonical_json

SAME_SENTENCE = 0.5
"""A text is an edit of another one where this share of their words, in order, is the same."""

_Pair = tuple[PlacedText, PlacedText]
_Sides = tuple[list[PlacedText], list[PlacedText]]


def text_changes(field: str, before: Texts, after: Texts) -> Iterator[TextChange]:
    """What differs between two lists of texts, by place; nothing where they are equal.

    Looked at from the other side, the same changes come with their sides exchanged.
    """
    if before == after:
        return
    sides = _placed(before), _placed(after)
    equal, sides = _matched(sides, lambda one: canonical_json(one.values))
    same_entity, sides = _matched(sides, lambda one: one.values["entity_id"])
    same_words, sides = _matched(sides, _said)
    edited, (removed, added) = _edited(sides)
    changes = [_paired(field, *pair) for pair in (*same_entity, *same_words, *edited)]
    changes += [TextChange(kind="removed", field=field, before=one, after=None) for one in removed]
    changes += [TextChange(kind="added", field=field, before=None, after=one) for one in added]
    changes += _reordered(field, equal)
    yield from sorted(changes, key=_order)


def says_the_same(change: TextChange) -> bool:
    """Whether only the facts about a text changed."""
    return change.kind == "restated"


def _placed(texts: Texts) -> list[PlacedText]:
    return [PlacedText(place=place, values=values) for place, values in enumerate(texts)]


def _said(text: PlacedText) -> tuple[Any, ...]:
    return tuple(text.values.get(name) for name in SAID_VALUES)


def _matched(sides: _Sides, key: Callable[[PlacedText], Hashable]) -> tuple[list[_Pair], _Sides]:
    """Texts with equal keys, paired in their order, and what is left of both sides."""
    waiting: dict[Hashable, list[PlacedText]] = defaultdict(list)
    for one in reversed(sides[1]):
        waiting[key(one)].append(one)
    pairs, left = list[_Pair](), list[PlacedText]()
    for one in sides[0]:
        if others := waiting[key(one)]:
            pairs.append((one, others.pop()))
        else:
            left.append(one)
    return pairs, (left, _without(sides[1], (pair[1] for pair in pairs)))


def _without(texts: Iterable[PlacedText], taken: Iterable[PlacedText]) -> list[PlacedText]:
    places = {one.place for one in taken}
    return [one for one in texts if one.place not in places]


def _edited(sides: _Sides) -> tuple[list[_Pair], _Sides]:
    """The likest texts, paired from the likest on, and what is left of both sides."""
    candidates = [
        (old, new, similarity)
        for old in sides[0]
        for new in sides[1]
        if (similarity := _likeness(old, new)) >= SAME_SENTENCE
    ]
    candidates.sort(key=lambda one: (-one[2], _unordered(one[0], one[1])))
    pairs, old_places, new_places = list[_Pair](), set[int](), set[int]()
    for old, new, _ in candidates:
        if old.place not in old_places and new.place not in new_places:
            pairs.append((old, new))
            old_places.add(old.place)
            new_places.add(new.place)
    left = _without(sides[0], (one for one, _ in pairs))
    return pairs, (left, _without(sides[1], (one for _, one in pairs)))


def _likeness(old: PlacedText, new: PlacedText) -> float:
    """The share of equal words in equal order, from 0 to 1; 0 for texts of different languages."""
    if old.values.get("language") != new.values.get("language"):
        return 0.0
    words = old.values["text"].split(), new.values["text"].split()
    return Indel.normalized_similarity(*words, score_cutoff=SAME_SENTENCE)


def _unordered(old: PlacedText, new: PlacedText) -> tuple[list[str], list[int]]:
    """A pair, the same whichever side is the earlier."""
    contents = sorted(canonical_json(one.values) for one in (old, new))
    return contents, sorted((old.place, new.place))


def _paired(field: str, old: PlacedText, new: PlacedText) -> TextChange:
    kind: TextKind = "restated" if _said(old) == _said(new) else "edited"
    return TextChange(kind=kind, field=field, before=old, after=new)


def _reordered(field: str, equal: list[_Pair]) -> list[TextChange]:
    """Equal texts whose order changed."""
    places = [new.place for _, new in sorted(equal, key=lambda pair: pair[0].place)]
    if places == sorted(places):
        return []
    return [
        TextChange(kind="reordered", field=field, before=old, after=new)
        for old, new in equal
        if old.place != new.place
    ]


def _order(change: TextChange) -> tuple[list[int], list[str]]:
    """By place, the same whichever side is the earlier."""
    present = [one for one in (change.before, change.after) if one is not None]
    contents = sorted(canonical_json(one.values) for one in present)
    return sorted(one.place for one in present), contents
