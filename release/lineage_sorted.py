"""Finds rows of a sorted Parquet file by their first column, reading few of its row groups."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from release.lineage_tables import LineageTable
from release.parquet_bounds import opened_parquet
from schemas.errors import IntegrityError

_LOOK = "`loupe release verify` tells what is wrong"


class SortedTable:
    """A table of the release in `folder`, opened when it is first read."""

    def __init__(self, folder: Path, table: LineageTable) -> None:
        self._path = folder / table.path
        self._table = table
        self._opened = ExitStack()
        self._key = table.schema.names[0]

    def close(self) -> None:
        """Closes the file, if it was opened."""
        self._opened.close()

    def rows(self, keys: Iterable[str]) -> Iterator[dict[str, object]]:
        """The rows with these keys, in their order.

        Raises:
            IntegrityError: the file cannot be read, or has other columns.
        """
        wanted: dict[int, set[str]] = {}
        for key in keys:
            for group in self._groups_of(key, key):
                wanted.setdefault(group, set()).add(key)
        for group in sorted(wanted):
            yield from self._matching(group, wanted[group])

    def keys_between(self, first: str, last: str) -> Iterator[str]:
        """The different keys from `first` to `last`, rising.

        Raises:
            IntegrityError: as for `rows`.
        """
        for group in self._groups_of(first, last):
            column = self._read(group, [self._key]).column(0)
            within = pc.and_(pc.greater_equal(column, first), pc.less_equal(column, last))
            yield from pc.unique(column.filter(within)).to_pylist()

    @cached_property
    def _file(self) -> pq.ParquetFile:
        try:
            file = self._opened.enter_context(opened_parquet(self._path, memory_map=True))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._fault(error) from error
        if not file.schema_arrow.equals(self._table.schema):
            raise self._fault(f"its columns must be {self._table.schema.names}")
        return file

    @cached_property
    def _bounds(self) -> tuple[list[str], list[str]]:
        """The least and the greatest key of each row group."""
        metadata = self._file.metadata
        columns = [
            metadata.row_group(group).column(0).statistics
            for group in range(metadata.num_row_groups)
        ]
        if any(column is None or not column.has_min_max for column in columns):
            raise self._fault("its row groups have no statistics")
        return [one.min for one in columns], [one.max for one in columns]

    def _groups_of(self, first: str, last: str) -> range:
        """The row groups that may hold keys from `first` to `last`."""
        least, greatest = self._bounds
        return range(bisect_left(greatest, first), bisect_right(least, last))

    def _matching(self, group: int, keys: set[str]) -> list[dict[str, object]]:
        found = self._read(group, None)
        wanted = pa.array(sorted(keys), pa.string())
        matching: list[dict[str, object]] = found.filter(
            pc.is_in(found.column(self._key), value_set=wanted)
        ).to_pylist()
        return matching

    def _read(self, group: int, columns: list[str] | None) -> pa.Table:
        try:
            return self._file.read_row_group(group, columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise self._fault(error) from error

    def _fault(self, why: object) -> IntegrityError:
        return IntegrityError(f"{self._path} cannot be read ({why}); {_LOOK}")
