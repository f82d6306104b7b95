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
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from db.lineage import SHORTEST_PREFIX, Lineage
from release import lineage_graph
from release.lineage_sorted import SortedTable
from release.lineage_spool import SpooledTables
from release.lineage_tables import ENTITIES, TABLES, LineageTable
from release.manifest import MANIFEST, read_manifest
from release.notices_files import erasure_of
from release.parquet_rows import shards_among
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
        if match := _FILE_NAME.fullmatch(name):
            return _image_of_row(self._folder, int(match[2]), f"images/{match[1]}")
        if _NUMBER.fullmatch(name) and int(name) <= _count_rows(self._folder):
            return _image_of_row(self._folder, int(name), None)
        return self._find_prefix(name)

    def _find_prefix(self, prefix: str) -> str:
        start = prefix.lower()
        if len(prefix) < SHORTEST_PREFIX or not _HEX.fullmatch(start):
            raise UsageError(
                f"{prefix!r} is none of the {_count_rows(self._folder):,} rows of {self._folder}, "
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


def _shards(folder: Path) -> list[Path]:
    """The Parquet files of the rows, in the order of the rows."""
    names = (f"data/{path.name}" for path in (folder / "data").glob("*.parquet"))
    return [folder / name for name in shards_among(names)]


def _count_rows(folder: Path) -> int:
    """How many rows the release says that it has."""
    try:
        return read_manifest(folder).statistics.images
    except (ValueError, OSError) as error:
        raise IntegrityError(f"{folder / MANIFEST} cannot be read; {_LOOK}") from error


def _image_of_row(folder: Path, number: int, file_path: str | None) -> str:
    """The entity id of the image in a row, which must be called `file_path`, where it is given."""
    name = file_path or f"row {number}"
    before = 0
    try:
        for shard in _shards(folder):
            metadata = pq.read_metadata(shard)
            if number > before + metadata.num_rows:
                before += metadata.num_rows
                continue
            with pq.ParquetFile(shard) as file:
                for group in range(metadata.num_row_groups):
                    rows = metadata.row_group(group).num_rows
                    if number > before + rows:
                        before += rows
                        continue
                    columns = ["file_path", "image_entity_id"]
                    row = file.read_row_group(group, columns).slice(number - before - 1, 1)
                    ((path, entity_id),) = (tuple(one.values()) for one in row.to_pylist())
                    if file_path in (None, path):
                        return str(entity_id)
                    raise UsageError(
                        f"{folder} has no image {name}; that of row {number} is {path}"
                    )
    except (pa.ArrowException, OSError) as error:
        raise IntegrityError(f"the rows of {folder} cannot be read ({error}); {_LOOK}") from error
    if number <= (count := _count_rows(folder)):
        raise IntegrityError(f"{folder}: files with rows are missing, {name} among them; {_LOOK}")
    raise UsageError(f"{folder} has no {name}: it holds {count:,} rows")
