"""Reads tables of a lineage in pieces, with ids as bytes."""

import binascii
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from release.lineage import LineageTable
from release.parquet_rows import bounded_batches, opened_parquet

# Ids as bytes: a million of them take 16 MB, and are looked up without a loop.

_DIGITS = 32
_ID = np.dtype("S16")
Ids = NDArray[np.bytes_]
"""Ids of 128 bits as bytes, shape (n,)."""


def numbers_in(values: pa.Array) -> NDArray[np.int64]:
    """Integers without nulls, or booleans as 0 and 1.

    `to_numpy` would import pandas, which takes 40 MB and half a second.
    """
    return np.from_dlpack(values.cast(pa.int64())).astype(np.int64, copy=False)


def truths_in(values: pa.Array) -> NDArray[np.bool_]:
    """Booleans without nulls."""
    return numbers_in(values).astype(bool)


def text_array(texts: Sequence[str]) -> pa.StringArray:
    """An array of texts; unlike `pa.array`, it does not import pandas."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))
    )


def text_scalar(text: str) -> pa.StringScalar:
    """A text scalar for kernels, which would convert a `str` using pandas."""
    return text_array([text])[0]


def array_of(numbers: NDArray[np.int64]) -> pa.Array:
    """An array of numbers, made without pandas."""
    held = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, held])


def ids_of(texts: Sequence[str]) -> Ids:
    """Convert valid ids of 32 hex digits."""
    return np.frombuffer(bytes.fromhex("".join(texts)), _ID)


def ids_in(texts: pa.Array) -> Ids:
    """Convert and check a column of ids of 32 hex digits each.

    Raises:
        ValueError: if a value is something else, or null.
    """
    if isinstance(texts, pa.DictionaryArray):
        return ids_in(texts.dictionary)[numbers_in(texts.indices)]
    if not len(texts):
        return np.empty(0, _ID)
    if texts.null_count:
        raise ValueError("an id is missing")
    _, offsets, digits = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    digits = digits[int(ends[0]) : int(ends[-1])].to_pybytes()
    if np.any(np.diff(ends) != _DIGITS) or digits != digits.lower():
        raise ValueError(f"an id must have {_DIGITS} lower-case hex digits")
    try:
        return np.frombuffer(binascii.unhexlify(digits), _ID)
    except binascii.Error as error:
        raise ValueError(f"an id must have {_DIGITS} hex digits ({error})") from error


def hex_of(id_: bytes) -> str:
    """An id as hex digits; NumPy strips zeros at its end."""
    return id_.ljust(_ID.itemsize, b"\0").hex()


def framed_column(texts: pa.Array) -> pa.Array:
    """Each text preceded by its length, as in `schemas.base.framed`."""
    lengths = pc.binary_length(texts).cast(pa.string())
    return pc.binary_join_element_wise(lengths, texts, text_scalar(":"))


class SortedIds:
    """Unique ids in ascending order."""

    def __init__(self, pieces: Sequence[Ids] = ()) -> None:
        self.ids: Ids = np.concatenate([np.empty(0, _ID), *pieces])
        self._first = _first_half(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def is_sorted(self) -> bool:
        """Whether the ids are strictly ascending."""
        return bool(np.all(self.ids[:-1] < self.ids[1:]))

    def places(self, ids: Ids) -> NDArray[np.int64]:
        """The position of each of these ids, -1 for missing ones; shape (n,)."""
        if not len(self):
            return np.full(len(ids), -1, np.int64)
        wanted = _first_half(ids)
        order = np.argsort(wanted)  # looking up sorted ids is three times as fast
        places = np.empty(len(ids), np.int64)
        places[order] = np.searchsorted(self._first, wanted[order])
        places[places == len(self)] = 0
        # only manipulated ids have equal first halves
        tied = (self.ids[places] != ids) & (self._first[places] == wanted)
        places[tied] = np.searchsorted(self.ids, ids[tied])
        places[places == len(self)] = 0
        return np.where(self.ids[places] == ids, places, -1)


def _first_half(ids: Ids) -> NDArray[np.uint64]:
    """The first 64 bits of each id, which are compared faster than bytes."""
    return ids.view(">u8")[::2].astype(np.uint64)


# Reads tables one piece at a time.

PIECE_ROWS = 1 << 14
READING_FAULTS = (
    *(pa.ArrowException, ValueError, OSError, KeyError, IndexError, TypeError),
    *(OverflowError, MemoryError, RuntimeError),
)
"""The exceptions that pyarrow raises for damaged files."""


def pieces(
    folder: Path, table: LineageTable, encoded: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The columns of a table in non-empty pieces; `encoded` columns as dictionaries.

    All values are checked against their types (text is UTF-8, indices of dictionaries are valid),
    and nulls occur only in columns that allow them.

    Raises:
        Exception: one of `READING_FAULTS` if it is not such a table, or damaged.
    """
    path = folder / table.path
    wanted = pa.schema(
        (one.name, pa.dictionary(pa.int32(), one.type) if one.name in encoded else one.type)
        for one in table.schema
    )
    with opened_parquet(path, read_dictionary=list(encoded)) as file:
        if not file.schema_arrow.equals(wanted):
            names = file.schema_arrow.names
            raise ValueError(f"its columns must be {table.schema.names}; got {names}")
        for piece in bounded_batches(file, path, PIECE_ROWS):
            if piece.num_rows:
                _check(table, piece)
                yield piece
            release_memory()


def release_memory() -> None:
    """Return Arrow's freed memory to the system; otherwise it keeps up to four times as much."""
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
