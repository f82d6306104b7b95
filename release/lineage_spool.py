"""The tables of `lineage/` unpacked on disk, to be read for many rows one after the other.

A release's Parquet files are compressed: what is known of a few hundred entities lies in almost all
of their row groups. Unpacked and mapped into memory, each is found at once, and memory stays flat.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from release.lineage_tables import TABLES, LineageTable
from release.parquet_bounds import bounded_batches, opened_parquet
from schemas.errors import IntegrityError

_PREFIX = 16
"""So many hex digits of a key make a number of 64 bits."""


class SpooledTables:
    """The tables of the release in `folder`, unpacked in `spool`, an empty folder that is ours."""

    def __init__(self, folder: Path, spool: Path) -> None:
        self._tables = {table.name: _unpacked(folder, table, spool) for table in TABLES}

    def close(self) -> None:
        """Lets go of what was unpacked; the folder may be removed then."""
        self._tables.clear()

    def rows(self, table: LineageTable, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
        """The rows of a table with these keys, in their order."""
        return self._tables[table.name].rows(sorted(set(keys)))


class _Unpacked(NamedTuple):
    """Record batches in a mapped file, where each begins, and the first digits of all keys."""

    key: str
    batches: list[pa.RecordBatch]
    starts: NDArray[np.int64]
    prefixes: NDArray[np.uint64]

    def rows(self, keys: list[str]) -> Iterator[dict[str, Any]]:
        """The rows with these keys, which rise."""
        if not keys or not len(self.prefixes):
            return
        wanted = np.array([int(key[:_PREFIX], 16) for key in keys], np.uint64)
        first = np.searchsorted(self.prefixes, wanted, "left")
        last = np.searchsorted(self.prefixes, wanted, "right")
        places = np.concatenate([np.arange(*ends) for ends in zip(first, last, strict=True)])
        batches = np.searchsorted(self.starts, places, "right") - 1
        meant = set(keys)
        for batch in np.unique(batches):
            within = places[batches == batch] - self.starts[batch]
            for row in self.batches[batch].take(pa.array(np.unique(within))).to_pylist():
                if row[self.key] in meant:
                    yield row


def _unpacked(folder: Path, table: LineageTable, spool: Path) -> _Unpacked:
    key, target = table.schema.names[0], spool / f"{table.name}.arrow"
    prefixes = spool / f"{table.name}.keys"
    starts = [0]
    try:
        with (
            opened_parquet(folder / table.path, memory_map=True) as file,
            pa.OSFile(str(target), "wb") as sink,
            prefixes.open("wb") as numbers,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            for batch in bounded_batches(file, folder / table.path, table.group_rows):
                writer.write_batch(batch)
                numbers.write(_numbers(batch.column(key)).tobytes())
                starts.append(starts[-1] + batch.num_rows)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IntegrityError(
            f"{folder / table.path} cannot be read ({error}); "
            f"`loupe release verify` tells what is wrong"
        ) from error
    reader = pa.ipc.open_file(pa.memory_map(str(target)))
    batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    mapped = np.memmap(prefixes, np.uint64, "r") if starts[-1] else np.empty(0, np.uint64)
    return _Unpacked(key, batches, np.array(starts[:-1], np.int64), mapped)


def _numbers(keys: pa.Array) -> NDArray[np.uint64]:
    """The first digits of keys (32 hex digits each) as numbers, which rise as the keys do."""
    digits = bytes.fromhex("".join(keys.to_pylist()))
    whole = np.frombuffer(digits, ">u8").reshape(-1, 2)
    return whole[:, 0].astype(np.uint64)
