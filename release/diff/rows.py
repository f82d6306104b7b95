"""Compares the rows of two releases: pairs of rows, their values and their texts."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple, Self, TypeVar

from rapidfuzz.distance import Indel

from release.changes import FieldChange
from release.diff.reading import (
    ANCHOR,
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
"""A text is an edit of another one if at least this share of their words, in order, is equal."""

T = TypeVar("T")
_TextPair = tuple[PlacedText, PlacedText]


def _paired(
    before: list[T], after: list[T], *keys: Callable[[T], Hashable]
) -> tuple[list[tuple[T, T]], list[T], list[T]]:
    """Pair values with equal keys, for each key function in turn; also returns the rest."""
    pairs: list[tuple[T, T]] = []
    for key in keys:
        waiting: defaultdict[Hashable, list[T]] = defaultdict(list)
        for one in reversed(after):
            waiting[key(one)].append(one)
        left = []
        for one in before:
            if others := waiting[key(one)]:
                pairs.append((one, others.pop()))
            else:
                left.append(one)
        unpaired = {id(one) for others in waiting.values() for one in others}
        before, after = left, [one for one in after if id(one) in unpaired]
    return pairs, before, after


def text_changes(field: str, before: Texts, after: Texts) -> Iterator[TextChange]:
    """The differences between two lists of texts, by index; empty if they are equal.

    Swapping the arguments swaps the sides of the changes.
    """
    if before == after:
        return
    old, new = (
        [PlacedText(place=place, values=values) for place, values in enumerate(texts)]
        for texts in (before, after)
    )
    equal, old, new = _paired(old, new, lambda one: canonical_json(one.values))
    pairs, old, new = _paired(old, new, lambda one: one.values["entity_id"], _said)
    pairs += _take_edited(old, new)
    found: list[tuple[TextKind, PlacedText | None, PlacedText | None]] = []
    for one, other in pairs:
        found.append(("restated" if _said(one) == _said(other) else "edited", one, other))
    found += [("removed", one, None) for one in old]
    found += [("added", None, one) for one in new]
    places = [other.place for _, other in sorted(equal, key=lambda pair: pair[0].place)]
    if places != sorted(places):
        found += [("reordered", *pair) for pair in equal if pair[0].place != pair[1].place]
    changes = [
        TextChange(kind=kind, field=field, before=one, after=other) for kind, one, other in found
    ]
    yield from sorted(changes, key=lambda one: _unordered(one.before, one.after))


def _said(text: PlacedText) -> tuple[Any, ...]:
    return tuple(text.values.get(name) for name in SAID_VALUES)


def _take_edited(before: list[PlacedText], after: list[PlacedText]) -> Iterator[_TextPair]:
    """Remove the most similar texts from both sides as pairs, most similar first."""
    candidates = [
        (old, new, similarity)
        for old in before
        for new in after
        if (similarity := _similarity(old, new)) >= _SAME_SENTENCE
    ]
    candidates.sort(key=lambda one: (-one[2], *_unordered(one[0], one[1])[::-1]))
    for old, new, _ in candidates:
        if old in before and new in after:
            before.remove(old)
            after.remove(new)
            yield old, new


def _similarity(old: PlacedText, new: PlacedText) -> float:
    """The share of equal words in equal order, 0 to 1; 0 for texts in different languages."""
    if old.values.get("language") != new.values.get("language"):
        return 0.0
    words = old.values["text"].split(), new.values["text"].split()
    return Indel.normalized_similarity(*words, score_cutoff=_SAME_SENTENCE)


def _unordered(old: PlacedText | None, new: PlacedText | None) -> tuple[list[int], list[str]]:
    """Positions and contents of a pair, independent of the order of the releases."""
    present = [one for one in (old, new) if one is not None]
    return sorted(one.place for one in present), sorted(
        canonical_json(one.values) for one in present
    )


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

    def values(self) -> dict[str, dict[str, Any]]:
        """All compared values: `fields` by name, and the lists of `texts`."""
        values: dict[str, dict[str, Any]] = json.loads(self.content)
        if self.anchor is not None:
            values["fields"][ANCHOR] = self.anchor
        return values

    def identity(self) -> str:
        """The identity that it shows."""
        return str(self.values()["fields"]["identity"])


Pair = tuple[_FoundRow | None, _FoundRow | None]
"""A row of the first release and the row of the same image in the second."""


class RowPairs:
    """Pairs rows by source and path. Use it in a `with` statement.

    Rows are stored in a temporary file that the system removes. If a release shows an image in
    several rows, they are paired by entity, then by identity and split, then by identity; remaining
    rows are paired in order.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("")
        self._database.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, rows: Iterable[ComparableRow], *, later: bool) -> int:
        """Add the rows of one of the releases; returns their number."""
        insert = "INSERT INTO compared VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        cursor = self._database.executemany(insert, (_stored(row, later) for row in rows))
        return max(0, cursor.rowcount)

    def pairs(self) -> Iterator[Pair]:
        """All rows, once each, by source and path; None if one release has no such row."""
        self._database.execute(_INDEX)
        rows = map(_found, self._database.execute(_ROWS))
        for _, same in groupby(rows, key=lambda row: (row.source, row.source_file_path)):
            yield from _row_pairs(list(same))


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


def _row_pairs(rows: list[_FoundRow]) -> Iterator[Pair]:
    """Pair rows of one image; None if a release has no such row."""
    before, after = [one for one in rows if not one.later], [one for one in rows if one.later]
    if len(before) <= 1 and len(after) <= 1:
        yield (before[0] if before else None, after[0] if after else None)
        return
    paired, before, after = _paired(
        before,
        after,
        lambda one: one.place.entity_id,
        lambda one: (one.identity(), one.place.split),
        _FoundRow.identity,
        lambda _: None,
    )
    pairs: list[Pair] = [*paired, *((one, None) for one in before), *((None, one) for one in after)]

    def order(pair: Pair) -> list[tuple[str, str]]:
        """A sort key independent of the order of the releases."""
        return sorted((one.content, one.anchor or "") for one in pair if one is not None)

    yield from sorted(pairs, key=order)


_NOTHING = Withdrawn()


def row_differences(pairs: RowPairs, withdrawn: Withdrawn = _NOTHING) -> Iterator[RowDifference]:
    """The differences of all rows that are not equal, by source and path.

    `withdrawn` are the withdrawals that the later release states.

    The result for swapped releases has the same order.
    """
    for pair in pairs.pairs():
        if (difference := _difference(pair, withdrawn)) is not None:
            yield difference


def _difference(pair: Pair, withdrawn: Withdrawn) -> RowDifference | None:
    before, after = pair
    if before is None or after is None:
        return _one_sided(pair, withdrawn)
    if (before.content, before.anchor) == (after.content, after.anchor):
        return None
    old, new = before.values(), after.values()
    fields = tuple(
        FieldChange(field=name, before=old["fields"].get(name), after=new["fields"].get(name))
        for name in sorted(old["fields"].keys() | new["fields"].keys())
        if old["fields"].get(name) != new["fields"].get(name)
    )
    texts = tuple(
        withdrawn.named(change)
        for name in sorted(old["texts"].keys() | new["texts"].keys())
        for change in text_changes(name, old["texts"].get(name, []), new["texts"].get(name, []))
    )
    return RowDifference(
        kind=_kind({one.field for one in fields}, {one.kind for one in texts}),
        source=before.source,
        source_file_path=before.source_file_path,
        before=before.place,
        after=after.place,
        fields=fields,
        texts=texts,
    )


def _kind(fields: set[str], texts: set[TextKind]) -> RowKind:
    if "split" in fields:
        return "moved"
    if not fields <= TOLD_FIELDS or not texts <= {"withdrawn", "restated"}:
        return "changed"
    return "withdrawn" if "withdrawn" in texts else "restated"


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
