"""Read Parquet files within limits.

Files may come from anyone. The sizes that a Parquet file states are checked against limits before
anything is read, and the bytes read are counted, because the stated sizes may be wrong. A file may
expand to at most `_MOST_EXPANSION` times its size plus `_FREE_BYTES`, far more than ids and images
can be compressed.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TYPES = {
    "string": pa.string(),
    "strings": pa.list_(pa.string()),
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "binary": pa.binary(),
}
"""The types of columns, by their names in `columns.toml` and `lineage/tables.toml`."""
WRITING: dict[str, Any] = {
    "version": "2.6",
    "data_page_version": "1.0",
    "write_page_index": True,
    "store_schema": True,
}
"""Settings of all files that are written: the same rows give the same bytes."""
_MOST_EXPANSION = 200
_FREE_BYTES = 64 << 20
GROUP_BYTES = 512 << 20
"""The limit of a row group, which some readers load as a whole."""
BATCH_BYTES = 1 << 30
"""The limit of a batch in which all rows repeat one value of a dictionary."""
_FOOTER_BYTES = 64 << 20
_MOST_PARTS = 1_000_000
_MOST_TEXT = 16 << 20
_TAIL = 8


@contextmanager
def opened_parquet(path: Path, **options: Any) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file whose footer is within the limits; `options` are for `ParquetFile`.

    Raises:
        ValueError: if it states sizes beyond the limits.
        Exception: whatever pyarrow raises for an invalid Parquet file.
    """
    size = path.stat().st_size
    _refuse_footer(path, size)
    with pq.ParquetFile(
        path,
        pre_buffer=False,
        thrift_string_size_limit=_MOST_TEXT,
        thrift_container_size_limit=_MOST_PARTS,
        **options,
    ) as file:
        _refuse_large(file.metadata, size)
        yield file


def bounded_batches(
    file: pq.ParquetFile, path: Path, rows: int, **options: Any
) -> Iterator[pa.RecordBatch]:
    """The batches of a file from `opened_parquet`; `options` are for `iter_batches`.

    Raises:
        ValueError: if it expands to more than any release has in a file of its size.
    """
    left = _most_bytes(path.stat().st_size)
    groups = options.get("row_groups") or range(file.num_row_groups)
    most = min(rows, _safe_rows(file.metadata, groups))
    for batch in file.iter_batches(most, use_threads=False, **options):
        left -= batch.nbytes
        if left < 0:
            raise ValueError(
                f"it unpacks to more than {_MOST_EXPANSION} times its size, which no release does"
            )
        yield batch


def _refuse_footer(path: Path, size: int) -> None:
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL))
        stated = int.from_bytes(file.read(4), "little")
    if stated > min(_FOOTER_BYTES, size):
        raise ValueError("it is cut off or damaged: its footer cannot be read")


def _refuse_large(facts: pq.FileMetaData, size: int) -> None:
    """Raise ValueError if a file states more rows, parts or bytes than a release has."""
    parts = facts.num_row_groups * facts.num_columns
    if parts > _MOST_PARTS:
        raise ValueError(f"it has {parts:,} columns of row groups; {_MOST_PARTS:,} are allowed")
    groups = [facts.row_group(place) for place in range(facts.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if max(rows, facts.num_rows) > size:
        raise ValueError(f"it states {max(rows, facts.num_rows):,} rows in {size:,} bytes")
    sizes = [group.total_byte_size for group in groups]
    if (largest := max(sizes, default=0)) > GROUP_BYTES:
        raise ValueError(
            f"a row group of it unpacks to {largest:,} bytes; {GROUP_BYTES:,} are allowed"
        )
    if (total := sum(sizes)) > (most := _most_bytes(size)):
        raise ValueError(f"it unpacks to {total:,} bytes; of its size {most:,} are allowed")


def _most_bytes(size: int) -> int:
    return _MOST_EXPANSION * size + _FREE_BYTES


def _safe_rows(facts: pq.FileMetaData, groups: Iterable[int]) -> int:
    """The safe number of rows of a batch, even if all repeat the largest value of a dictionary."""
    columns = (
        group.column(number)
        for group in map(facts.row_group, groups)
        for number in range(facts.num_columns)
    )
    sizes = [one.total_uncompressed_size for one in columns if one.has_dictionary_page]
    largest: int = max(sizes, default=1)
    return max(1, BATCH_BYTES // max(1, largest))
