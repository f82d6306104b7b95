"""Rows of two releases, brought together image by image on disk: memory does not grow with them."""

import json
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

from release.diff.form import ANCHOR, ComparableRow
from release.diff.records import RowPlace
from release.ordering import natural_key
from schemas.base import canonical_json

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


class FoundRow(NamedTuple):
    """A row of one of the releases; `later` for the second."""

    later: bool
    source: str
    source_file_path: str
    place: RowPlace
    content: str
    anchor: str | None

    def is_like(self, other: "FoundRow") -> bool:
        """Whether both say the same in everything that is compared."""
        return self.content == other.content and self.anchor == other.anchor

    def values(self) -> dict[str, dict[str, Any]]:
        """All that is compared: `fields` by name, and the lists of `texts`."""
        values: dict[str, dict[str, Any]] = json.loads(self.content)
        if self.anchor is not None:
            values["fields"][ANCHOR] = self.anchor
        return values


Pair = tuple[FoundRow | None, FoundRow | None]
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


def _found(stored: tuple[int, str, str, str, str, str | None]) -> FoundRow:
    later, source, path, place, content, anchor = stored
    return FoundRow(bool(later), source, path, RowPlace.model_validate_json(place), content, anchor)


def _paired(rows: list[FoundRow]) -> Iterator[Pair]:
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
    before: list[FoundRow],
    after: list[FoundRow],
    key: Callable[[FoundRow], Hashable],
    pairs: list[Pair],
) -> tuple[list[FoundRow], list[FoundRow]]:
    """Adds rows with equal keys to `pairs`, in their order; gives what is left."""
    waiting: dict[Hashable, list[FoundRow]] = {}
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


def _entity(row: FoundRow) -> Hashable:
    return row.place.entity_id


def _person_and_split(row: FoundRow) -> Hashable:
    return row.values()["fields"]["identity"], row.place.split


def _person(row: FoundRow) -> Hashable:
    return str(row.values()["fields"]["identity"])


def _anything(_: FoundRow) -> Hashable:
    return None


def _order(pair: Pair) -> list[tuple[str, str]]:
    """The same whichever side is the earlier."""
    return sorted((one.content, one.anchor or "") for one in pair if one is not None)
