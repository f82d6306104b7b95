"""Checks the references of `lineage/`: between its tables, and from the rows into them.

Tables are read in pieces, and their ids are compared as arrays of bytes: a million of them take
16 MB and are looked up without a loop.
"""

import binascii
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from loupe.release.format.findings import Findings
from loupe.release.format.manifest import MANIFEST
from loupe.release.format.parquet import bounded_batches, opened_parquet
from loupe.release.format.rows import entity_ids_in, number_in
from loupe.release.lineage import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    FOLDER,
    TABLES,
    LineageTable,
)
from loupe.schemas.release import Manifest
from loupe.schemas.validation import fault_of

_DIGITS = 32
_ID = np.dtype("S16")
Ids = NDArray[np.bytes_]
"""Ids of 128 bits as bytes, shape (n,)."""
_PIECE_ROWS = 1 << 14
READING_FAULTS = (
    *(pa.ArrowException, ValueError, OSError, KeyError, IndexError, TypeError),
    *(OverflowError, MemoryError, RuntimeError),
)
"""The exceptions that pyarrow raises for damaged files."""


class LineageChecks:
    """Checks the tables in the order of their references, then the rows that it is given."""

    def __init__(self, folder: Path, manifest: Manifest, findings: Findings) -> None:
        self._folder = folder
        self._manifest = manifest
        self._findings = findings
        self._ids: dict[str, Ids] = {}
        self._is_read = False

    def check_tables(self) -> None:
        """Report missing and unsorted rows of the tables, and references to nothing."""
        if any(self._findings.concerns(table.path) for table in TABLES):
            return  # damaged tables are not compared, and reading them may fail
        missing = [table.path for table in TABLES if not (self._folder / table.path).is_file()]
        for path in missing:
            self._findings.add("file_missing", f"{path} is missing", path)
        if missing:
            return
        for table in (AGENTS, ACTIVITIES, CALLS, ENTITIES, DERIVATIONS, DECISIONS):
            try:
                self._check_table(table)
            except READING_FAULTS as error:
                what = f"{table.path} cannot be read: {fault_of(error)}"
                self._findings.add("lineage_unreadable", what, table.path)
                return
        self._check_manifest()
        self._is_read = True

    def check_rows(self, shard: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check that all entities that rows name are in the tables.

        Rows are not checked if the tables could not be read.

        Raises:
            ValueError: if a row names something else than an id.
        """
        if not self._is_read:
            return
        named = [entity_ids_in(row) for row in rows]
        ids = ids_of(list(chain.from_iterable(named)))
        missing = ~self._is_known(ENTITIES.name, ids)
        if not np.any(missing):
            return
        unknown = set(ids[missing].tolist())
        for row, many in zip(rows, named, strict=True):
            for one in many:
                if _bytes_of(one) in unknown:
                    what = f"names {one}, which is not in {ENTITIES.path}"
                    number = number_in(row["file_path"]) or 0
                    self._findings.add_row("lineage_incomplete", what, shard, number)
                    break

    def _check_table(self, table: LineageTable) -> None:
        last = np.empty(0, _ID)
        known, count = [last], 0
        for columns in _pieces(self._folder, table):
            ids = ids_in(columns[0])
            count += len(ids)
            rows = np.concatenate([last, ids])
            is_unique = table.keys == 1
            in_order = rows[:-1] < rows[1:] if is_unique else rows[:-1] <= rows[1:]
            if not np.all(in_order):
                what = f"is not sorted by {', '.join(table.key_columns)}, or has rows twice"
                self._add("lineage_unsorted", table, what)
            if is_unique:  # other tables refer to it
                known.append(ids)
            last = ids[-1:]
            for column, to in table.references.items():
                self._check_references(table, column, columns[column], to)
        self._ids[table.name] = np.unique(np.concatenate(known))
        wanted = getattr(self._manifest.lineage, table.name)
        if count != wanted:
            self._add("totals_differ", table, f"has {count:,} rows; {MANIFEST} says {wanted:,}")

    def _check_references(
        self, table: LineageTable, column: str, values: pa.Array, to: str
    ) -> None:
        if pa.types.is_list(values.type):
            values = values.flatten()
        ids = ids_in(values.drop_null())
        missing = ids[~self._is_known(to, ids)]
        if len(missing):
            more = f" ({len(missing) - 1:,} more)" if len(missing) > 1 else ""
            what = f"names {_hex_of(missing[0])}, which is not in {FOLDER}/{to}.parquet{more}"
            self._findings.add("lineage_broken", f"{table.path}: {column} {what}", table.path)

    def _check_manifest(self) -> None:
        """Check that what the manifest names is in the tables."""
        named = self._manifest.stated_entities
        is_known = self._is_known(ENTITIES.name, ids_of(named))
        for id_, is_there in zip(named, is_known.tolist(), strict=True):
            if not is_there:
                self._add("lineage_incomplete", ENTITIES, f"has no {id_}; {MANIFEST} names it")

    def _is_known(self, table: str, ids: Ids) -> NDArray[np.bool_]:
        """Whether each of these ids is in a table that was read before; shape (n,)."""
        known = self._ids[table]
        if not len(known):
            return np.zeros(len(ids), bool)
        places = np.searchsorted(known, ids)
        places[places == len(known)] = 0
        return np.equal(known[places], ids)

    def _add(self, fault: str, table: LineageTable, what: str) -> None:
        self._findings.add(fault, f"{table.path} {what}", table.path)


def _bytes_of(text: str) -> bytes:
    """An id as NumPy shows it, which strips zeros at its end."""
    return bytes.fromhex(text).rstrip(b"\0")


def _hex_of(id_: bytes) -> str:
    return id_.ljust(_ID.itemsize, b"\0").hex()


def ids_of(texts: Sequence[str]) -> Ids:
    """Convert ids of 32 hex digits.

    Raises:
        ValueError: if a value is something else.
    """
    return _from_digits("".join(texts).encode(), len(texts))


def ids_in(texts: pa.Array) -> Ids:
    """Convert a column of ids of 32 hex digits each.

    Raises:
        ValueError: if a value is something else, or null.
    """
    if isinstance(texts, pa.DictionaryArray):
        # `to_numpy` would import pandas, which takes 40 MB
        places = np.from_dlpack(texts.indices.cast(pa.int64())).astype(np.int64, copy=False)
        return np.take(ids_in(texts.dictionary), places)
    if not len(texts):
        return np.empty(0, _ID)
    if texts.null_count:
        raise ValueError("an id is missing")
    _, offsets, digits = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if np.any(np.diff(ends) != _DIGITS):
        raise ValueError(f"an id must have {_DIGITS} lower-case hex digits")
    return _from_digits(digits[int(ends[0]) : int(ends[-1])].to_pybytes(), len(texts))


def _from_digits(digits: bytes, count: int) -> Ids:
    if len(digits) != _DIGITS * count or digits != digits.lower():
        raise ValueError(f"an id must have {_DIGITS} lower-case hex digits")
    try:
        return np.frombuffer(binascii.unhexlify(digits), _ID)
    except binascii.Error as error:
        raise ValueError(f"an id must have {_DIGITS} hex digits ({error})") from error


def _pieces(folder: Path, table: LineageTable) -> Iterator[pa.RecordBatch]:
    """The columns of a table in non-empty pieces, repeating ones as dictionaries.

    All values are checked against their types (text is UTF-8, indices of dictionaries are valid),
    and nulls occur only in columns that allow them.

    Raises:
        Exception: one of `READING_FAULTS` if it is not such a table, or damaged.
    """
    path, repeating = folder / table.path, set(table.repeating)
    wanted = []
    for one in table.schema:
        type_ = pa.dictionary(pa.int32(), one.type) if one.name in repeating else one.type
        wanted.append((one.name, type_))
    with opened_parquet(path, read_dictionary=repeating & set(table.schema.names)) as file:
        if not file.schema_arrow.equals(pa.schema(wanted)):
            names = file.schema_arrow.names
            raise ValueError(f"its columns must be {table.schema.names}; got {names}")
        for piece in bounded_batches(file, path, _PIECE_ROWS):
            if piece.num_rows:
                _check_values(table, piece)
                yield piece
            # otherwise Arrow keeps up to four times as much memory
            pa.default_memory_pool().release_unused()


def _check_values(table: LineageTable, piece: pa.RecordBatch) -> None:
    piece.validate(full=True)
    for name in piece.schema.names:
        column = piece[name]
        has_nulls = column.null_count > 0
        if isinstance(column, pa.DictionaryArray):
            has_nulls |= column.dictionary.null_count > 0
        if pa.types.is_list(column.type):
            has_nulls |= column.flatten().null_count > 0
        if has_nulls and name not in table.nullable:
            raise ValueError(f"there is a row without {name}")
