"""Reads the lineage in a release without database, network or blob store."""

import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pydantic_core import from_json

from loupe.db.entities import SHORTEST_PREFIX
from loupe.db.lineage import (
    ActivityNode,
    AgentNode,
    CallNode,
    DecisionNode,
    EntityNode,
    Lineage,
    TracedEntity,
    agents_of,
    ancestors,
)
from loupe.release.format.files import is_disk_full
from loupe.release.format.findings import ADVICE
from loupe.release.format.manifest import read_manifest, require_release
from loupe.release.format.parquet import bounded_batches, opened_parquet
from loupe.release.format.row_files import find_row
from loupe.release.format.rows import image_path, number_in
from loupe.release.lineage import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    TABLES,
    LineageTable,
)
from loupe.release.withdrawn.files import erasure_of
from loupe.schemas.base import digest_of
from loupe.schemas.encoding import ImageEncoding
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.grouping import grouped
from loupe.schemas.processes import scratch_database

_Row = Mapping[str, Any]
_Rows = Callable[[LineageTable, Iterable[str]], Iterable[_Row]]
"""The rows of a table whose first column is one of these keys, in order."""


class _SortedTable:
    """A table in a release, of which few row groups are read.

    Raises:
        IntegrityError: if the file cannot be read, or has other columns; also from all methods.
    """

    def __init__(self, folder: Path, table: LineageTable) -> None:
        self._path = folder / table.path
        self._key = ds.field(table.schema.names[0])
        with _faults_as_errors(self._path):
            with opened_parquet(self._path, memory_map=True) as file:
                if not file.schema_arrow.equals(table.schema):
                    raise ValueError(f"its columns must be {table.schema.names}")
            self._rows = ds.dataset(self._path)

    def rows(self, keys: Iterable[str]) -> Iterator[_Row]:
        """The rows with these keys, in order."""
        yield from self._read(self._key.isin(pa.array(sorted(keys), pa.string()))).to_pylist()

    def keys_between(self, first: str, last: str) -> Iterator[str]:
        """The distinct keys from `first` to `last`, ascending."""
        found = self._read((self._key >= first) & (self._key <= last))
        yield from pc.unique(found.column(0)).to_pylist()

    def _read(self, filter_: pc.Expression) -> pa.Table:
        """The rows that pass a filter; only row groups that may have some are read."""
        with _faults_as_errors(self._path):
            return self._rows.to_table(filter=filter_, use_threads=False)


@contextmanager
def _faults_as_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        if is_disk_full(error):  # of the spool
            raise
        raise IntegrityError(f"{path} cannot be read ({error}); {ADVICE}") from error


def _spooled(folder: Path, database: sqlite3.Connection) -> _Rows:
    """The tables of the release in `folder`, unpacked into a new database."""
    for table in TABLES:
        _unpack(folder, table, database)

    def rows(table: LineageTable, keys: Iterable[str]) -> Iterator[_Row]:
        query = (
            f"SELECT row FROM {table.name} "  # noqa: S608 our own words
            "WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key, number"
        )
        for (row,) in database.execute(query, (json.dumps(list(keys)),)):
            yield from_json(row)

    return rows


def _unpack(folder: Path, table: LineageTable, database: sqlite3.Connection) -> None:
    path, key, number = folder / table.path, table.schema.names[0], count()
    columns = "key, number, row, PRIMARY KEY (key, number)"
    database.execute(f"CREATE TABLE {table.name} ({columns}) WITHOUT ROWID")
    insert = f"INSERT INTO {table.name} VALUES (?, ?, ?)"  # noqa: S608 our own words
    with _faults_as_errors(path), opened_parquet(path, memory_map=True) as file:
        for batch in bounded_batches(file, path, table.group_rows):
            rows = batch.to_pylist()
            values = ((row[key], next(number), orjson.dumps(row)) for row in rows)
            database.executemany(insert, values)


NO_PAYLOAD = "{}"
"""The payload of a withdrawn entity, of which nothing is released."""


def _entity(row: _Row, parents: Iterable[tuple[str, str]]) -> EntityNode:
    entity = TracedEntity(
        id=row["id"],
        dataset=row["dataset"],
        kind=row["kind"],
        state=row["state"],
        payload=NO_PAYLOAD if row["payload"] is None else row["payload"],
        withheld=tuple(row["withheld"]),
    )
    return EntityNode(entity, row["activity"], row["model_call"], tuple(parents))


def _activity(row: _Row) -> ActivityNode:
    configuration = _object(ACTIVITIES, row["id"], row["configuration"])
    return ActivityNode(
        row["id"], row["stage"], row["version"], configuration, tuple(row["agents"])
    )


def _call(row: _Row) -> CallNode:
    if row["cost"] is not None and not math.isfinite(row["cost"]):
        raise IntegrityError(
            f"{CALLS.path} says that {row['key']} cost {row['cost']}; it must be a finite number"
        )
    values = {name: value for name, value in row.items() if name not in ("agent", "use")}
    values["parameters"] = _object(CALLS, row["key"], row["parameters"])
    return CallNode(agent_id=row["agent"], **values)


def _object(table: LineageTable, id_: str, text: str | None) -> dict[str, Any]:
    try:
        values = json.loads(text or "")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise IntegrityError(
            f"{table.path} has a payload of {id_} that is not a JSON object; {ADVICE}"
        )
    return values


def _from_encoder(traced: Lineage, encoding: ImageEncoding, row: _Row) -> Lineage:
    """The lineage of a released image, given that of the stored one."""
    stored = traced.entities[traced.root].entity
    settings = encoding.model_dump(exclude={"version", "libraries"})
    agent = AgentNode(digest_of("agent", encoding.name), "software", *encoding.name.split("@"))
    activity = ActivityNode(
        digest_of("activity", encoding.name, encoding.libraries, stored.id),
        "encode_image",
        str(encoding.version),
        {**settings, "libraries": encoding.libraries},
        (agent.id,),
    )
    values = {name: row[name] for name in ("sha256", "width_px", "height_px")}
    entity = TracedEntity(
        id=digest_of("released_image", row["sha256"], stored.id),
        dataset=stored.dataset,
        kind="released_image",
        state=stored.state,
        payload=json.dumps(values),
        withheld=(),
    )
    node = EntityNode(entity, activity.id, None, (("encoded_from", stored.id),))
    return traced._replace(
        root=entity.id,
        entities={entity.id: node, **traced.entities},
        activities={activity.id: activity, **traced.activities},
        agents={agent.id: agent, **traced.agents},
    )


_NUMBER = re.compile(r"[1-9][0-9]{0,11}")
_HEX = re.compile(r"[0-9a-f]+")
_LAST = "g"  # sorts after all hex digits


class ReleasedLineage:
    """The lineage in a release's `folder`; see `open_lineage`."""

    def __init__(self, folder: Path, entities: _SortedTable, rows: _Rows) -> None:
        self._folder = folder
        self._entities = entities
        self._rows = rows

    def trace(self, entity_id: str) -> Lineage:
        """Return an entity and everything that it was derived from: see `loupe.db.lineage.trace`.

        Raises:
            UsageError: if the release does not know the entity.
            IntegrityError: if the tables cannot be read, or are inconsistent.
        """
        if not any(True for _ in self._rows(ENTITIES, [entity_id])):
            raise UsageError(f"no entity {entity_id!r} is in the lineage of {self._folder}")
        return self.trace_page([entity_id])

    def trace_named(self, name: str) -> Lineage:
        """Return the lineage of the entity called `name`: see `find`.

        A row whose image was encoded for the release starts with that image, which its encoder made
        from the stored one.

        Raises:
            UsageError: if no entity has this name, or several have.
            IntegrityError: if the tables cannot be read, or are inconsistent.
        """
        traced = self.trace(self.find(name))
        encoding = read_manifest(self._folder).encoding
        row = self._row(name, ["sha256", "width_px", "height_px"]) if encoding else None
        if encoding is None or row is None:
            return traced
        return _from_encoder(traced, encoding, row)

    def trace_page(self, entity_ids: Sequence[str]) -> Lineage:
        """The lineage of several entities at once; its root is the first of them.

        Breadth first: each table is read once per generation.

        Raises:
            IntegrityError: if an entity or a reference is missing, or a table cannot be read.
        """
        entities = ancestors(entity_ids, self._nodes)
        stages = self._complete(ACTIVITIES, {one.activity_id for one in entities.values()})
        activities = {row["id"]: _activity(row) for row in stages}
        keys = {one.model_call_key for one in entities.values() if one.model_call_key}
        calls = {row["key"]: _call(row) for row in self._complete(CALLS, keys)}
        decisions: dict[str, list[DecisionNode]] = {}
        names = ("entity", "verdict", "agent", "reason", "successor")
        for row in self._rows(DECISIONS, entities):
            decision = DecisionNode(*(row[name] for name in names))
            decisions.setdefault(decision.entity_id, []).append(decision)
        agents = {
            row["id"]: AgentNode(row["id"], row["kind"], row["name"], row["revision"])
            for row in self._complete(AGENTS, agents_of(activities, calls, decisions))
        }
        return Lineage(entity_ids[0], entities, activities, agents, calls, decisions)

    def _nodes(self, ids: Sequence[str]) -> list[EntityNode]:
        links = self._rows(DERIVATIONS, ids)
        parents = grouped((row["child"], (row["role"], row["parent"])) for row in links)
        return [_entity(row, parents[row["id"]]) for row in self._complete(ENTITIES, ids)]

    def _complete(self, table: LineageTable, keys: Iterable[str]) -> list[_Row]:
        """Raise unless there is one row for each key."""
        wanted = set(keys)
        found = list(self._rows(table, wanted))
        if missing := wanted - {row[table.schema.names[0]] for row in found}:
            raise IntegrityError(
                f"{table.path} has no row for {min(missing)}, which other tables name; {ADVICE}"
            )
        return found

    def find(self, name: str) -> str:
        """The id of the entity called `name`.

        Args:
            name: an id or at least its first six digits; or the number of a row or the file name of
                its image (`12`, `12_13.jpg`, `images/12.jpg`), for that image.

        Raises:
            UsageError: if no entity has this name, or several have.
            IntegrityError: if the release cannot be read.
        """
        row = self._row(name, ["image_entity_id"])
        return self._find_prefix(name) if row is None else str(row["image_entity_id"])

    def captions_of(self, name: str) -> dict[str, str]:
        """The captions of the row called `name`, by entity id; empty if `name` is an id.

        Raises:
            UsageError: if there is no such row.
            IntegrityError: if the release cannot be read.
        """
        row = self._row(name, ["caption_entity_ids", "captions"])
        if row is None:
            return {}
        return dict(zip(row["caption_entity_ids"], row["captions"], strict=False))

    @cached_property
    def _row_count(self) -> int:
        return read_manifest(self._folder).statistics.images

    def _row(self, name: str, columns: list[str]) -> dict[str, Any] | None:
        """Columns of the row called `name`; None if no row has this name."""
        path = image_path(name)
        if number := number_in(path):
            return find_row(self._folder, number, columns, path)
        if _NUMBER.fullmatch(name) and int(name) <= self._row_count:
            return find_row(self._folder, int(name), columns)
        return None

    def _find_prefix(self, prefix: str) -> str:
        start = prefix.lower()
        if len(prefix) < SHORTEST_PREFIX or not _HEX.fullmatch(start):
            raise UsageError(
                f"{prefix!r} is none of the {self._row_count:,} rows of {self._folder}, "
                f"no file name of an image, and no id ({SHORTEST_PREFIX} hex digits or more)"
            )
        found = list(islice(self._entities.keys_between(start, start + _LAST), 2))
        if not found:
            raise UsageError(
                f"no entity in the lineage of {self._folder} has an id that starts with "
                f"{prefix!r}: it has what is in the release, and what that was made "
                f"from; the store may know more (`loupe lineage` without --release)"
            )
        if len(found) > 1:
            raise UsageError(
                f"several entities have an id that starts with {prefix!r}; give more of it"
            )
        return found[0]


@contextmanager
def open_lineage(folder: Path, *, spool: Path | None = None) -> Iterator[ReleasedLineage]:
    """Open the lineage in the release in `folder`.

    Args:
        folder: the release.
        spool: an empty folder in which to unpack the tables, for many queries; it takes some
            hundred megabytes for 100,000 rows.

    Raises:
        UsageError: if `folder` is not a release.
        IntegrityError: if a table is missing, or cannot be read.
    """
    require_release(folder)
    for table in TABLES:
        if not (folder / table.path).is_file():
            why = erasure_of(folder, table.path) or f"{table.path} is missing"
            raise IntegrityError(f"{folder}: {why}; {ADVICE}")
    tables = {table.name: _SortedTable(folder, table) for table in TABLES}
    entities = tables[ENTITIES.name]
    if spool is None:
        yield ReleasedLineage(folder, entities, lambda table, keys: tables[table.name].rows(keys))
        return
    with closing(scratch_database("", spool / "lineage.db")) as database:
        yield ReleasedLineage(folder, entities, _spooled(folder, database))
