"""Tables of a lineage: read by pieces or by key, and their ids as numbers."""

import binascii
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from release.lineage import LineageTable
from release.parquet_rows import bounded_batches, opened_parquet
from schemas.errors import IntegrityError

# Ids as numbers: a million of them fit into 16 MB, and are looked up without a loop.

_DIGITS = 32
Words = NDArray[np.uint64]
"""Ids of 128 bits, shape (n, 2): the first and the last 64 bits of each."""


def numbers_in(values: pa.Array) -> NDArray[np.int64]:
    """Whole numbers, none of them null, or truth values as 0 and 1.

    Not by `to_numpy`, which imports pandas: that takes 40 MB and half a second.
    """
    return np.from_dlpack(values.cast(pa.int64())).astype(np.int64, copy=False)


def text_array(texts: Sequence[str]) -> pa.StringArray:
    """An array of texts; unlike `pa.array`, it does not import pandas either."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))
    )


def text_scalar(text: str) -> pa.StringScalar:
    """A text for kernels; they turn a bare `str` into a scalar with the help of pandas."""
    return text_array([text])[0]


def array_of(numbers: NDArray[np.int64]) -> pa.Array:
    """The other way round, without pandas as well."""
    held = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, held])


def words_of_texts(ids: Sequence[str]) -> Words:
    """Ids of 32 hex digits, which are known to be that, as numbers."""
    return np.frombuffer(bytes.fromhex("".join(ids)), ">u8").reshape(-1, 2).astype(np.uint64)


def words_of(ids: pa.Array) -> Words:
    """Ids of 32 hex digits as numbers.

    Raises:
        ValueError: one of them is something else, or null.
    """
    if isinstance(ids, pa.DictionaryArray):
        return words_of(ids.dictionary)[numbers_in(ids.indices)]
    if not len(ids):
        return np.empty((0, 2), np.uint64)
    if ids.null_count:
        raise ValueError("an id is missing")
    _, offsets, digits = ids.buffers()
    ends = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    if np.any(np.diff(ends) != _DIGITS):
        raise ValueError(f"an id must have {_DIGITS} hex digits")
    digits = digits[int(ends[0]) : int(ends[-1])].to_pybytes()
    if digits != digits.lower():
        raise ValueError("the hex digits of an id must be lower-case")
    try:
        data = binascii.unhexlify(digits)
    except binascii.Error as error:
        raise ValueError(f"an id must have {_DIGITS} hex digits ({error})") from error
    return np.frombuffer(data, ">u8").reshape(-1, 2).astype(np.uint64)


def framed_column(texts: pa.Array) -> pa.Array:
    """Each text behind its length, as `schemas.base.framed` has them."""
    lengths = pc.binary_length(texts).cast(pa.string())
    return pc.binary_join_element_wise(lengths, texts, text_scalar(":"))


class SortedIds:
    """Different ids in their order."""

    def __init__(self, pieces: Sequence[Words]) -> None:
        nothing = np.empty(0, np.uint64)
        self._first = np.concatenate([nothing, *(words[:, 0] for words in pieces)])
        self._last = np.concatenate([nothing, *(words[:, 1] for words in pieces)])

    def __len__(self) -> int:
        return len(self._first)

    def shown(self, place: int) -> str:
        """The id at a place."""
        return f"{int(self._first[place]):016x}{int(self._last[place]):016x}"

    def is_sorted(self) -> bool:
        """Whether each is greater than the one before."""
        before, after = self._first[:-1], self._first[1:]
        tied = before == after
        rising = self._last[:-1] < self._last[1:]
        return bool(np.all((before < after) | (tied & rising)))

    def places(self, words: Words) -> NDArray[np.int64]:
        """The place of each of these ids, -1 for those that are not there; shape (n,)."""
        if not len(self) or not len(words):
            return np.full(len(words), -1, np.int64)
        order = np.argsort(words[:, 0])  # near ones are looked up together: thrice as fast
        places = np.empty(len(words), np.int64)
        places[order] = np.searchsorted(self._first, words[order, 0])
        places[places == len(self)] = 0
        found = (self._first[places] == words[:, 0]) & (self._last[places] == words[:, 1])
        doubtful = np.flatnonzero(~found & (self._first[places] == words[:, 0]))
        for place in doubtful:  # ids that share 64 bits: there are none but made ones
            later = int(places[place])
            while later < len(self) and self._first[later] == words[place, 0]:
                if self._last[later] == words[place, 1]:
                    places[place], found[place] = later, True
                    break
                later += 1
        return np.where(found, places, -1)


# Reads tables a piece at a time.

PIECE_ROWS = 1 << 14
READING_FAULTS = (
    *(pa.ArrowException, ValueError, OSError, KeyError, IndexError, TypeError),
    *(OverflowError, MemoryError, RuntimeError),
)
"""What pyarrow raises, in one place or another, of a file that somebody damaged."""


class UnreadableTableError(ValueError):
    """A table of a lineage cannot be read; `path` is its file in the release."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path


def pieces(
    folder: Path, table: LineageTable, columns: Sequence[str], encoded: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Some columns of a table, a piece at a time and none empty; `encoded` ones as dictionaries.

    All that they hold is what their types say (text is UTF-8, a dictionary has its indices), and
    only columns that may be null are.

    Raises:
        FileNotFoundError: there is no such file.
        UnreadableTableError: it is no such table, or damaged.
    """
    path = folder / table.path
    try:
        with opened_parquet(path) as file:
            if not file.schema_arrow.equals(table.schema):
                names = file.schema_arrow.names
                raise ValueError(f"its columns must be {table.schema.names}; got {names}")
        with opened_parquet(path, read_dictionary=list(encoded)) as file:
            for piece in bounded_batches(file, path, PIECE_ROWS, columns=list(columns)):
                if piece.num_rows:
                    _check(table, piece)
                    yield piece
                give_back()
    except FileNotFoundError:
        raise
    except READING_FAULTS as error:
        why = str(error) or type(error).__name__
        raise UnreadableTableError(table.path, why) from error


def give_back() -> None:
    """Gives what Arrow let go of back to the system, which else it keeps: four times the most."""
    pa.default_memory_pool().release_unused()


def _check(table: LineageTable, piece: pa.RecordBatch) -> None:
    piece.validate(full=True)
    for name in piece.schema.names:
        column = piece[name]
        is_empty = column.null_count > 0
        if isinstance(column, pa.DictionaryArray):
            is_empty |= column.dictionary.null_count > 0 and name not in table.nullable
        if pa.types.is_list(column.type):
            is_empty |= column.flatten().null_count > 0
        if is_empty and name not in table.nullable:
            raise ValueError(f"there is a row without {name}")


# Finds rows of a sorted Parquet file by their first column, reading few of its row groups.

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
