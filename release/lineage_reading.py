"""Reads the lineage that a release carries: no database, no network, no blob store.

    with open_lineage(folder) as lineage:
        traced = lineage.trace(lineage.find("images/12.jpg"))

For the pages of a report, which ask of all rows one after the other, give it a folder to unpack the
tables in::

    with TemporaryDirectory() as spool, open_lineage(folder, spool=Path(spool)) as lineage:
        for page in pages(entity_ids, 500):
            direct = lineage.trace_page(page, generations=1)
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from db.lineage import SHORTEST_PREFIX, Lineage
from release import lineage_graph
from release.lineage_sorted import SortedTable
from release.lineage_spool import SpooledTables
from release.lineage_tables import ENTITIES, TABLES, LineageTable
from release.manifest import MANIFEST
from release.notices_files import erasure_of
from release.row_finding import count_rows, find_row
from schemas.errors import IntegrityError, UsageError

_FILE_NAME = re.compile(r"(?:images/)?((?:[1-9][0-9]*_)?([1-9][0-9]*)\.[a-z]+)")
_NUMBER = re.compile(r"[1-9][0-9]{0,11}")
_HEX = re.compile(r"[0-9a-f]+")
_LAST = "g"  # comes after all hex digits
_LOOK = "`loupe release verify` tells what else is wrong"


class ReleasedLineage:
    """The lineage in a release's `folder`; see the module. To be used in a `with`."""

    def __init__(self, folder: Path, found_in: "_PackedTables | SpooledTables") -> None:
        self._folder = folder
        self._found_in = found_in

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes what was opened."""
        self._found_in.close()

    def trace(self, entity_id: str) -> Lineage:
        """All that an entity was derived from, itself included, as `db.lineage.trace` tells it.

        Raises:
            UsageError: the release does not know the entity.
            IntegrityError: the tables cannot be read, or do not hold together.
        """
        if not any(True for _ in self._found_in.rows(ENTITIES, [entity_id])):
            raise UsageError(f"no entity {entity_id!r} stands in the lineage of {self._folder}")
        return lineage_graph.trace(self._found_in, [entity_id])

    def trace_page(self, entity_ids: Sequence[str], generations: int | None = None) -> Lineage:
        """The lineage of several entities at once, its root the first of them.

        With `generations`, only so many: 0 for the entities alone, 1 for their parents too. What
        these were derived from is named in `parents`, and not among `entities`.

        Raises:
            IntegrityError: an entity is not in the tables, or they cannot be read.
        """
        return lineage_graph.trace(self._found_in, entity_ids, generations)

    def find(self, name: str) -> str:
        """The id of the entity that is called `name`.

        Args:
            name: an id or its first six digits; or the number of a row or the file name of its
                image (`12`, `12_13.jpg`, `images/12.jpg`), for that image.

        Raises:
            UsageError: there is none, or several.
            IntegrityError: the release cannot be read.
        """
        row = self._row(name, ["image_entity_id"])
        return self._find_prefix(name) if row is None else str(row["image_entity_id"])

    def captions_of(self, name: str) -> dict[str, str]:
        """The captions of the row that is called `name`, by entity id; none where it is an id.

        Raises:
            UsageError: there is no such row.
            IntegrityError: the release cannot be read.
        """
        row = self._row(name, ["caption_entity_ids", "captions"])
        return (
            {}
            if row is None
            else dict(zip(row["caption_entity_ids"], row["captions"], strict=False))
        )

    @cached_property
    def _row_count(self) -> int:
        return count_rows(self._folder)

    def _row(self, name: str, columns: list[str]) -> dict[str, Any] | None:
        """These columns of the row that is called `name`; None where it is not the name of one."""
        if match := _FILE_NAME.fullmatch(name):
            return find_row(self._folder, int(match[2]), columns, f"images/{match[1]}")
        if _NUMBER.fullmatch(name) and int(name) <= self._row_count:
            return find_row(self._folder, int(name), columns)
        return None

    def _find_prefix(self, prefix: str) -> str:
        start = prefix.lower()
        if len(prefix) < SHORTEST_PREFIX or not _HEX.fullmatch(start):
            raise UsageError(
                f"{prefix!r} is none of the {self._row_count:,} rows of {self._folder}, "
                f"no file name of an image, and no id ({SHORTEST_PREFIX} hex digits or more)"
            )
        found: list[str] = []
        table = SortedTable(self._folder, ENTITIES)
        try:
            for one in table.keys_between(start, start + _LAST):
                found.append(one)
                if len(found) > 1:
                    break
        finally:
            table.close()
        if not found:
            raise UsageError(
                f"no entity in the lineage of {self._folder} has an id that starts with "
                f"{prefix!r}: it tells of what stands in the release, and of what that was made "
                f"from; the store may know more (`loupe lineage` without --release)"
            )
        if len(found) > 1:
            raise UsageError(
                f"several entities have an id that starts with {prefix!r}; give more of it"
            )
        return found[0]


class _PackedTables:
    """The tables as they lie in a release."""

    def __init__(self, folder: Path) -> None:
        self._tables = {table.name: SortedTable(folder, table) for table in TABLES}

    def close(self) -> None:
        for table in self._tables.values():
            table.close()

    def rows(self, table: LineageTable, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
        return self._tables[table.name].rows(keys)


def open_lineage(folder: Path, *, spool: Path | None = None) -> ReleasedLineage:
    """The lineage that the release in `folder` carries.

    Args:
        folder: the release.
        spool: an empty folder to unpack the tables in, for asking often; it takes some hundred
            megabytes for 100,000 rows.

    Raises:
        UsageError: there is no release in `folder`.
        IntegrityError: a table is missing, or with `spool` cannot be read.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
    for table in TABLES:
        if not (folder / table.path).is_file():
            raise IntegrityError(f"{folder}: {_why_missing(folder, table.path)}; {_LOOK}")
    found_in = _PackedTables(folder) if spool is None else SpooledTables(folder, spool)
    return ReleasedLineage(folder, found_in)


def _why_missing(folder: Path, path: str) -> str:
    return erasure_of(folder, path) or f"{path} is missing"
