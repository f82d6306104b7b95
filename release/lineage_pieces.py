"""Reads tables of `lineage/` that anybody may have changed: nothing ends but in a `ValueError`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from release.lineage_tables import LineageTable
from release.parquet_bounds import bounded_batches, opened_parquet

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
