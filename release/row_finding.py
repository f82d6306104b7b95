"""Finds one row of a release by its number, without reading the others."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from release.manifest import MANIFEST, read_manifest
from release.parquet_bounds import opened_parquet
from release.parquet_rows import shards_among
from schemas.errors import IntegrityError, UsageError

_LOOK = "`loupe release verify` tells what else is wrong"


def count_rows(folder: Path) -> int:
    """How many rows the release in `folder` says that it has.

    Raises:
        IntegrityError: its manifest cannot be read.
    """
    try:
        return read_manifest(folder).statistics.images
    except (ValueError, OSError) as error:
        raise IntegrityError(f"{folder / MANIFEST} cannot be read; {_LOOK}") from error


def find_row(
    folder: Path, number: int, columns: list[str], file_path: str | None = None
) -> dict[str, Any]:
    """These columns of the row with this number, from 1; its image must be `file_path`, if given.

    Raises:
        UsageError: the release has no such row.
        IntegrityError: the rows cannot be read.
    """
    name = file_path or f"row {number}"
    columns = [*columns, "file_path"]
    try:
        row = _read_row(folder, number, columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IntegrityError(f"the rows of {folder} cannot be read ({error}); {_LOOK}") from error
    if row is None:
        if number <= (count := count_rows(folder)):
            raise IntegrityError(
                f"{folder}: files with rows are missing, {name} among them; {_LOOK}"
            )
        raise UsageError(f"{folder} has no {name}: it holds {count:,} rows")
    if missing := [column for column in columns if row.get(column) is None]:
        raise IntegrityError(f"the rows of {folder} hold no {', '.join(missing)}; {_LOOK}")
    if file_path not in (None, row["file_path"]):
        raise UsageError(
            f"{folder} has no image {name}; that of row {number} is {row['file_path']}"
        )
    return row


def _read_row(folder: Path, number: int, columns: list[str]) -> dict[str, Any] | None:
    before = 0
    for shard in _shards(folder):
        with opened_parquet(shard) as file:
            metadata = file.metadata
            if number > before + metadata.num_rows:
                before += metadata.num_rows
                continue
            for group in range(metadata.num_row_groups):
                rows = metadata.row_group(group).num_rows
                if number > before + rows:
                    before += rows
                    continue
                table = file.read_row_group(group, columns, use_threads=False)
                row: dict[str, Any] = table.slice(number - before - 1, 1).to_pylist()[0]
                return row
    return None


def _shards(folder: Path) -> list[Path]:
    """The Parquet files of the rows, in the order of the rows."""
    names = (f"data/{path.name}" for path in (folder / "data").glob("*.parquet"))
    return [folder / name for name in shards_among(names)]
