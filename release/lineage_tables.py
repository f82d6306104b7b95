"""The tables of `lineage/`: W3C PROV restricted to a release, for DuckDB and `loupe lineage`.

Each is sorted by its first columns, so that what is known of one id lies in one or two row groups,
which the statistics in the file tell. Nothing in them says when or where anything was stored:
activities are told by what was carried out and by whom, not by their runs.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from release.files import DigestingFile
from release.parquet_bounds import opened_parquet
from schemas.release import ReleasedFile

FOLDER = "lineage"
_STRING = pa.string()
_STRINGS = pa.list_(pa.string())


class CallUse(StrEnum):
    """What a model call of a lineage was made for, and so whether the manifest counts it."""

    RELEASED = "released"
    """A text or strategy that the lineage holds; counted."""
    LEFT_OUT = "left_out"
    """Texts of released images that are not in the release themselves; counted."""
    OTHER = "other"
    """Anything else that the lineage holds; not counted."""


class LineageTable(NamedTuple):
    """A table of `lineage/`.

    Attributes:
        name: of the table; its file is `lineage/<name>.parquet`.
        schema: its columns; the first `keys` of them say how it is sorted.
        keys: how many columns tell rows apart.
        repeating: columns (leaves) with few different values.
        group_rows: rows of a row group, at most.
        nullable: columns that say nothing in some rows.
    """

    name: str
    schema: pa.Schema
    keys: int
    repeating: tuple[str, ...]
    group_rows: int
    nullable: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Where it lies in a release."""
        return f"{FOLDER}/{self.name}.parquet"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that it is sorted by."""
        return tuple(self.schema.names[: self.keys])


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


ENTITIES = LineageTable(
    "entities",
    _schema(
        id=_STRING,
        dataset=_STRING,
        kind=_STRING,
        state=_STRING,
        payload=_STRING,
        withheld=_STRINGS,
        activity=_STRING,
        model_call=_STRING,
    ),
    keys=1,
    repeating=("dataset", "kind", "state", "withheld.list.element", "activity"),
    group_rows=4096,
    nullable=("payload", "model_call"),
)
DERIVATIONS = LineageTable(
    "derivations",
    _schema(child=_STRING, role=_STRING, parent=_STRING),
    keys=3,
    repeating=("child", "role"),
    group_rows=16384,
)
DECISIONS = LineageTable(
    "decisions",
    _schema(
        entity=_STRING,
        number=pa.int32(),
        verdict=_STRING,
        agent=_STRING,
        reason=_STRING,
        successor=_STRING,
    ),
    keys=2,
    repeating=("verdict", "agent", "reason"),
    group_rows=8192,
    nullable=("successor",),
)
CALLS = LineageTable(
    "calls",
    _schema(
        key=_STRING,
        agent=_STRING,
        prompt_digest=_STRING,
        parameters=_STRING,
        status=_STRING,
        tokens_in=pa.int64(),
        tokens_out=pa.int64(),
        cost=pa.float64(),
        currency=_STRING,
        use=_STRING,
    ),
    keys=1,
    repeating=("agent", "prompt_digest", "parameters", "status", "currency", "use"),
    group_rows=8192,
    nullable=("tokens_in", "tokens_out", "cost", "currency"),
)
ACTIVITIES = LineageTable(
    "activities",
    _schema(id=_STRING, stage=_STRING, version=_STRING, configuration=_STRING, agents=_STRINGS),
    keys=1,
    repeating=("stage", "version", "agents.list.element"),
    group_rows=8192,
)
AGENTS = LineageTable(
    "agents",
    _schema(id=_STRING, kind=_STRING, name=_STRING, revision=_STRING, withheld=_STRINGS),
    keys=1,
    repeating=("kind", "revision", "withheld.list.element"),
    group_rows=8192,
)
TABLES = (ENTITIES, DERIVATIONS, DECISIONS, CALLS, ACTIVITIES, AGENTS)
"""All of them, in the order in which they are written."""


def write_table(folder: Path, table: LineageTable, rows: Iterable[Sequence[Any]]) -> ReleasedFile:
    """A table of a release with these rows, which come sorted, a row group in memory at a time."""
    file = DigestingFile(folder / table.path)
    try:
        with pq.ParquetWriter(pa.PythonFile(file, "w"), table.schema, **_settings(table)) as writer:
            for page in _pages(rows, table.group_rows):
                columns = [
                    pa.array(column, type_)
                    for column, type_ in zip(
                        zip(*page, strict=True), table.schema.types, strict=True
                    )
                ]
                writer.write_table(
                    pa.Table.from_arrays(columns, schema=table.schema), row_group_size=len(page)
                )
    finally:
        file.close()
    return file.as_released(table.path)


def same_rows(first: Path, second: Path) -> bool:
    """Whether two tables hold the same rows, a row group in memory at a time.

    Releases that were written by different versions of pyarrow do, though their bytes differ.

    Raises:
        ValueError: one of them cannot be read.
        OSError: likewise.
    """
    with opened_parquet(first) as ours, opened_parquet(second) as theirs:
        sizes = [
            [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
            for file in (ours, theirs)
        ]
        return sizes[0] == sizes[1] and all(
            ours.read_row_group(place).equals(theirs.read_row_group(place))
            for place in range(len(sizes[0]))
        )


def _settings(table: LineageTable) -> dict[str, Any]:
    """Fixed as for the rows (`release.parquet_rows`): the same rows give the same bytes."""
    return {
        "version": "2.6",
        "data_page_version": "1.0",
        "compression": "ZSTD",
        "compression_level": 3,
        "use_dictionary": list(table.repeating),
        "write_statistics": True,
        "write_page_index": True,
        "store_schema": True,
        "sorting_columns": [pq.SortingColumn(place) for place in range(table.keys)],
    }


def _pages(rows: Iterable[Sequence[Any]], size: int) -> Iterator[list[Sequence[Any]]]:
    page: list[Sequence[Any]] = []
    for row in rows:
        page.append(row)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page
