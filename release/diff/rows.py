"""Compares the rows of two releases: their form, pairs of rows, and their texts."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

from rapidfuzz.distance import Indel

from release.changes import FieldChange
from release.diff.reading import (
    ANCHOR,
    NOTHING_WITHDRAWN,
    SAID_VALUES,
    TOLD_FIELDS,
    ComparableRow,
    Texts,
    Withdrawn,
)
from release.diff.records import (
    PlacedText,
    RowDifference,
    RowKind,
    RowPlace,
    TextChange,
    TextKind,
)
from release.rows import natural_key
from schemas.base import canonical_json

_SAME_SENTENCE = 0.5
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
    changes = [_paired_texts(field, *pair) for pair in (*same_entity, *same_words, *edited)]
    changes += [TextChange(kind="removed", field=field, before=one, after=None) for one in removed]
    changes += [TextChange(kind="added", field=field, before=None, after=one) for one in added]
    changes += _reordered(field, equal)
    yield from sorted(changes, key=_text_order)


def _says_the_same(change: TextChange) -> bool:
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
        if (similarity := _likeness(old, new)) >= _SAME_SENTENCE
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
    return Indel.normalized_similarity(*words, score_cutoff=_SAME_SENTENCE)


def _unordered(old: PlacedText, new: PlacedText) -> tuple[list[str], list[int]]:
    """A pair, the same whichever side is the earlier."""
    contents = sorted(canonical_json(one.values) for one in (old, new))
    return contents, sorted((old.place, new.place))


def _paired_texts(field: str, old: PlacedText, new: PlacedText) -> TextChange:
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


def _text_order(change: TextChange) -> tuple[list[int], list[str]]:
    """By place, the same whichever side is the earlier."""
    present = [one for one in (change.before, change.after) if one is not None]
    contents = sorted(canonical_json(one.values) for one in present)
    return sorted(one.place for one in present), contents


_TABLES = """
    PRAGMA journal_mode=OFF;
    PRAGMA synchronous=OFF;
    CREATE TABLE compared (
        later, source_key, path_key, source, path, entity, anchor, place, content
    );
"""
_INDEX = "CREATE INDEX compared_by_entity ON compared (later, entity)"
_ROWS = """
    SELECT later, source, path, place, content, CASE WHEN anchor IS NOT NULL THEN (
        SELECT min(named.source || ': ' || named.path) FROM compared AS named
        WHERE named.later = compared.later AND named.entity = compared.anchor
    ) END
    FROM compared ORDER BY source_key, path_key, later, content, rowid
"""


class _FoundRow(NamedTuple):
    """A row of one of the releases; `later` for the second."""

    later: bool
    source: str
    source_file_path: str
    place: RowPlace
    content: str
    anchor: str | None

    def is_like(self, other: "_FoundRow") -> bool:
        """Whether both say the same in everything that is compared."""
        return self.content == other.content and self.anchor == other.anchor

    def values(self) -> dict[str, dict[str, Any]]:
        """All that is compared: `fields` by name, and the lists of `texts`."""
        values: dict[str, dict[str, Any]] = json.loads(self.content)
        if self.anchor is not None:
            values["fields"][ANCHOR] = self.anchor
        return values


Pair = tuple[_FoundRow | None, _FoundRow | None]
"""A row of the first release and the one of the second that is of the same image."""


class RowPairs:
    """Pairs rows by source and path in it. To be used in a `with`.

    `file` must be new; without one, rows are in a temporary file that the system removes. Where a
    release shows one image of a source in several rows, these are distinguished by entity, then by
    identity and split, then by identity; what is left is paired in its order.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._database = sqlite3.connect(file or "")
        self._database.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, rows: Iterable[ComparableRow], *, later: bool) -> int:
        """Remembers the rows of one of the releases; gives their number."""
        insert = "INSERT INTO compared VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        cursor = self._database.executemany(insert, (_stored(row, later) for row in rows))
        return max(0, cursor.rowcount)

    def pairs(self) -> Iterator[Pair]:
        """All rows, each once, by source and path; None where one release has no such row."""
        self._database.execute(_INDEX)
        rows = map(_found, self._database.execute(_ROWS))
        for _, same in groupby(rows, key=lambda row: (row.source, row.source_file_path)):
            yield from _paired(list(same))


def _stored(row: ComparableRow, later: bool) -> tuple[object, ...]:
    return (
        later,
        natural_key(row.source),
        natural_key(row.source_file_path),
        row.source,
        row.source_file_path,
        row.place.entity_id,
        row.anchor_entity_id,
        row.place.model_dump_json(),
        canonical_json({"fields": row.fields, "texts": row.texts}),
    )


def _found(stored: tuple[int, str, str, str, str, str | None]) -> _FoundRow:
    later, source, path, place, content, anchor = stored
    return _FoundRow(
        bool(later), source, path, RowPlace.model_validate_json(place), content, anchor
    )


def _paired(rows: list[_FoundRow]) -> Iterator[Pair]:
    before, after = [one for one in rows if not one.later], [one for one in rows if one.later]
    if len(before) <= 1 and len(after) <= 1:
        yield (before[0] if before else None, after[0] if after else None)
        return
    pairs = list[Pair]()
    for key in (_entity, _person_and_split, _person, _anything):
        before, after = _match(before, after, key, pairs)
    pairs += [(one, None) for one in before]
    pairs += [(None, one) for one in after]
    yield from sorted(pairs, key=_order)


def _match(
    before: list[_FoundRow],
    after: list[_FoundRow],
    key: Callable[[_FoundRow], Hashable],
    pairs: list[Pair],
) -> tuple[list[_FoundRow], list[_FoundRow]]:
    """Adds rows with equal keys to `pairs`, in their order; gives what is left."""
    waiting: dict[Hashable, list[_FoundRow]] = {}
    for one in reversed(after):
        waiting.setdefault(key(one), []).append(one)
    left = []
    for one in before:
        if others := waiting.get(key(one)):
            pairs.append((one, others.pop()))
        else:
            left.append(one)
    unpaired = {id(one) for others in waiting.values() for one in others}
    return left, [one for one in after if id(one) in unpaired]


def _entity(row: _FoundRow) -> Hashable:
    return row.place.entity_id


def _person_and_split(row: _FoundRow) -> Hashable:
    return row.values()["fields"]["identity"], row.place.split


def _person(row: _FoundRow) -> Hashable:
    return str(row.values()["fields"]["identity"])


def _anything(_: _FoundRow) -> Hashable:
    return None


def _order(pair: Pair) -> list[tuple[str, str]]:
    """The same whichever side is the earlier."""
    return sorted((one.content, one.anchor or "") for one in pair if one is not None)


def row_differences(
    pairs: RowPairs, withdrawn: Withdrawn = NOTHING_WITHDRAWN
) -> Iterator[RowDifference]:
    """The differences of all rows that are not the same, by source and path in it.

    `withdrawn` is what the later release states as withdrawn.

    Looked at from the other side, the same differences come in the same order.
    """
    for pair in pairs.pairs():
        if (difference := _difference(pair, withdrawn)) is not None:
            yield difference


def _difference(pair: Pair, withdrawn: Withdrawn) -> RowDifference | None:
    before, after = pair
    if before is None or after is None:
        return _one_sided(pair, withdrawn)
    if before.is_like(after):
        return None
    old, new = before.values(), after.values()
    fields = tuple(_field_changes(old["fields"], new["fields"]))
    texts = tuple(_text_changes(old["texts"], new["texts"], withdrawn))
    return RowDifference(
        kind=_kind(fields, texts),
        source=before.source,
        source_file_path=before.source_file_path,
        before=before.place,
        after=after.place,
        fields=fields,
        texts=texts,
    )


def _one_sided(pair: Pair, withdrawn: Withdrawn) -> RowDifference | None:
    before, after = pair
    row: _FoundRow | None = after or before
    if row is None:
        return None
    values = row.values()
    gone: RowKind = "withdrawn" if withdrawn.takes_row(row.place, values["texts"]) else "removed"
    return RowDifference(
        kind=gone if after is None else "added",
        source=row.source,
        source_file_path=row.source_file_path,
        before=before and before.place,
        after=after and after.place,
        row=values,
    )


def _field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    for field in sorted(before.keys() | after.keys()):
        old, new = before.get(field), after.get(field)
        if old != new:
            yield FieldChange(field=field, before=old, after=new)


def _text_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], withdrawn: Withdrawn
) -> Iterator[TextChange]:
    for field in sorted(before.keys() | after.keys()):
        for change in text_changes(field, before.get(field, []), after.get(field, [])):
            yield withdrawn.details(change)


def _kind(fields: tuple[FieldChange, ...], texts: tuple[TextChange, ...]) -> RowKind:
    names = {one.field for one in fields}
    if "split" in names:
        return "moved"
    gone = [one for one in texts if one.kind == "withdrawn"]
    others = (one for one in texts if one.kind != "withdrawn")
    if not names <= TOLD_FIELDS or not all(map(_says_the_same, others)):
        return "changed"
    return "withdrawn" if gone else "restated"
