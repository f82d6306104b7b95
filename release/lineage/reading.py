"""Reads the lineage that a release carries: no database, no network, no blob store."""

import json
import math
import re
import sqlite3
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol, Self

import orjson
import pyarrow as pa
from pydantic_core import from_json

from db.lineage import (
    SHORTEST_PREFIX,
    ActivityNode,
    AgentNode,
    CallNode,
    DecisionNode,
    EntityNode,
    Lineage,
    TracedEntity,
)
from release.folder import is_disk_full
from release.lineage import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    TABLES,
    LineageTable,
)
from release.lineage.ids import SortedTable
from release.manifest import MANIFEST
from release.notices_files import erasure_of
from release.parquet_rows import bounded_batches, count_rows, find_row, opened_parquet
from schemas.errors import IntegrityError, UsageError

_BARE: Final = "{}"
_SUMMARIES: Final[Mapping[str, Mapping[str, str]]] = tomllib.loads(
    files("release.lineage").joinpath("summaries.toml").read_text("utf-8")
)


def summarize(kind: str, payload: str, longest: int | None = None) -> str:
    """An entity's payload (JSON) for people, on one line.

    Each value is cut at `longest` characters. Of a list the length is shown, nested objects are
    left out, and what cannot be printed is replaced. Of a kind without a form of its own, all
    values are shown with their names; of a payload without fields, nothing.

    Raises:
        IntegrityError: the payload is no JSON, which a release that somebody changed may hold.
    """
    try:
        values = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(
            f"the payload of an entity of the kind {kind!r} is not JSON; `loupe release verify` "
            f"tells what is wrong"
        ) from error
    if not isinstance(values, Mapping):
        return ""
    words = _SUMMARIES.get(kind) or {name: _named(name) for name in values}
    details = (_details(values, field, form, longest) for field, form in words.items())
    return printable(", ".join(one for one in details if one))


def printable(text: str) -> str:
    """A text on one line; what cannot be printed is replaced."""
    text = " ".join(text.split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _named(field: str) -> str:
    name = field.replace("_", " ").replace("{", "{{").replace("}", "}}")
    return f"{name} {_BARE}"


def _details(payload: Mapping[str, Any], field: str, form: str, longest: int | None) -> str:
    value: Any = payload
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, list):
        words = field.rpartition(".")[2].replace("_", " ")
        return f"{len(value):,} {words}" if value else ""
    return form.format(" ".join(str(value)[:longest].split()))


class _SpooledTables:
    """The tables of the release in `folder`, unpacked in `spool`, an empty folder that is ours."""

    def __init__(self, folder: Path, spool: Path) -> None:
        self._database = sqlite3.connect(spool / "lineage.db")
        self._database.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")
        for table in TABLES:
            self._unpack(folder, table)

    def close(self) -> None:
        """Lets go of what was unpacked; the folder may be removed then."""
        self._database.close()

    def rows(self, table: LineageTable, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
        """The rows of a table with these keys, in their order."""
        query = (
            f"SELECT row FROM {table.name} "  # noqa: S608 our own words
            "WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key, number"
        )
        for (row,) in self._database.execute(query, (json.dumps(list(keys)),)):
            yield from_json(row)

    def _unpack(self, folder: Path, table: LineageTable) -> None:
        path, key = folder / table.path, table.schema.names[0]
        columns = "key, number, row, PRIMARY KEY (key, number)"
        self._database.execute(f"CREATE TABLE {table.name} ({columns}) WITHOUT ROWID")
        insert = f"INSERT INTO {table.name} VALUES (?, ?, ?)"  # noqa: S608 our own words
        number = count()
        try:
            with opened_parquet(path, memory_map=True) as file:
                for batch in bounded_batches(file, path, table.group_rows):
                    self._database.executemany(
                        insert,
                        ((row[key], next(number), orjson.dumps(row)) for row in batch.to_pylist()),
                    )
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            if is_disk_full(error):  # of the spool
                raise
            raise IntegrityError(
                f"{path} cannot be read ({error}); `loupe release verify` tells what is wrong"
            ) from error


_Row = Mapping[str, Any]
NO_PAYLOAD = "{}"
"""What stands for the payload of an entity that was withdrawn: nothing of it is released."""


class _LineageRows(Protocol):
    """Where the rows of the tables are found by their first column."""

    def rows(self, table: LineageTable, keys: Iterable[str]) -> Iterable[_Row]:
        """The rows of a table with these keys, in their order."""
        ...


def trace(
    found_in: _LineageRows, entity_ids: Sequence[str], generations: int | None = None
) -> Lineage:
    """The lineage of one or several entities; its root is the first of them.

    Breadth first: each table is asked once a generation. With `generations`, only so many are
    read: 1 for the parents, whose own parents are named but not read.

    Raises:
        IntegrityError: an entity, or what it refers to, is not in the tables.
    """
    entities: dict[str, EntityNode] = {}
    generation, details = sorted(set(entity_ids)), 0
    while generation:
        nodes = _nodes(found_in, generation)
        entities.update((node.entity.id, node) for node in nodes)
        if generations is not None and details == generations:
            break
        details += 1
        parents = {parent for node in nodes for _, parent in node.parents}
        generation = sorted(parents - entities.keys())
    activities = {
        row["id"]: _activity(row)
        for row in _complete(found_in, ACTIVITIES, {one.activity_id for one in entities.values()})
    }
    keys = {one.model_call_key for one in entities.values() if one.model_call_key}
    calls = {row["key"]: _call(row) for row in _complete(found_in, CALLS, keys)}
    decisions: dict[str, list[DecisionNode]] = {}
    for row in found_in.rows(DECISIONS, entities):
        decisions.setdefault(row["entity"], []).append(_decision(row))
    agent_ids = {agent for activity in activities.values() for agent in activity.agent_ids}
    agent_ids.update(call.agent_id for call in calls.values())
    agent_ids.update(one.agent_id for many in decisions.values() for one in many)
    agents = {row["id"]: _agent(row) for row in _complete(found_in, AGENTS, agent_ids)}
    return Lineage(entity_ids[0], entities, activities, agents, calls, decisions)


def _complete(found_in: _LineageRows, table: LineageTable, keys: Iterable[str]) -> list[_Row]:
    """One row for each key."""
    wanted = set(keys)
    found = list(found_in.rows(table, wanted))
    if missing := wanted - {row[table.schema.names[0]] for row in found}:
        raise IntegrityError(
            f"{table.path} has no row for {min(missing)}, which other tables name; "
            f"`loupe release verify` tells what is wrong"
        )
    return found


def _nodes(found_in: _LineageRows, ids: Sequence[str]) -> list[EntityNode]:
    parents: dict[str, list[tuple[str, str]]] = {}
    for row in found_in.rows(DERIVATIONS, ids):
        parents.setdefault(row["child"], []).append((row["role"], row["parent"]))
    return [_entity(row, parents.get(row["id"], ())) for row in _complete(found_in, ENTITIES, ids)]


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
    return ActivityNode(
        row["id"],
        row["stage"],
        row["version"],
        _object(ACTIVITIES, row["id"], row["configuration"]),
        tuple(row["agents"]),
    )


def _call(row: _Row) -> CallNode:
    if row["cost"] is not None and not math.isfinite(row["cost"]):
        raise IntegrityError(
            f"{CALLS.path} says that {row['key']} cost {row['cost']}; it must be a finite number"
        )
    return CallNode(
        key=row["key"],
        agent_id=row["agent"],
        prompt_digest=row["prompt_digest"],
        parameters=_object(CALLS, row["key"], row["parameters"]),
        status=row["status"],
        tokens_in=row["tokens_in"],
        tokens_out=row["tokens_out"],
        cost=row["cost"],
        currency=row["currency"],
        served=row["served"],
    )


def _agent(row: _Row) -> AgentNode:
    return AgentNode(row["id"], row["kind"], row["name"], row["revision"])


def _object(table: LineageTable, id_: str, text: str | None) -> dict[str, Any]:
    try:
        values = json.loads(text or "")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise IntegrityError(
            f"{table.path} holds of {id_} what is no JSON object; `loupe release verify` tells "
            f"what is wrong"
        )
    return values


def _decision(row: _Row) -> DecisionNode:
    return DecisionNode(
        row["entity"], row["verdict"], row["agent"], row["reason"], row["successor"]
    )


_FILE_NAME = re.compile(r"(?:images/)?((?:[1-9][0-9]*_)?([1-9][0-9]*)\.[a-z]+)")
_NUMBER = re.compile(r"[1-9][0-9]{0,11}")
_HEX = re.compile(r"[0-9a-f]+")
_LAST = "g"  # comes after all hex digits
_LOOK = "`loupe release verify` tells what else is wrong"


class ReleasedLineage:
    """The lineage in a release's `folder`; see the module. To be used in a `with`."""

    def __init__(self, folder: Path, found_in: "_PackedTables | _SpooledTables") -> None:
        self._folder = folder
        self._found_in = found_in

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes what was opened."""
        self._found_in.close()

    def trace(self, entity_id: str) -> Lineage:
        """All that an entity was derived from, itself included, as `db.lineage.trace` tells it.

        Raises:
            UsageError: the release does not know the entity.
            IntegrityError: the tables cannot be read, or do not hold together.
        """
        if not any(True for _ in self._found_in.rows(ENTITIES, [entity_id])):
            raise UsageError(f"no entity {entity_id!r} is in the lineage of {self._folder}")
        return trace(self._found_in, [entity_id])

    def trace_page(self, entity_ids: Sequence[str], generations: int | None = None) -> Lineage:
        """The lineage of several entities at once, its root the first of them.

        With `generations`, only so many: 0 for the entities alone, 1 for their parents too. What
        these were derived from is named in `parents`, and not among `entities`.

        Raises:
            IntegrityError: an entity is not in the tables, or they cannot be read.
        """
        return trace(self._found_in, entity_ids, generations)

    def find(self, name: str) -> str:
        """The id of the entity that is called `name`.

        Args:
            name: an id or its first six digits; or the number of a row or the file name of its
                image (`12`, `12_13.jpg`, `images/12.jpg`), for that image.

        Raises:
            UsageError: there is none, or several.
            IntegrityError: the release cannot be read.
        """
        row = self._row(name, ["image_entity_id"])
        return self._find_prefix(name) if row is None else str(row["image_entity_id"])

    def captions_of(self, name: str) -> dict[str, str]:
        """The captions of the row that is called `name`, by entity id; none where it is an id.

        Raises:
            UsageError: there is no such row.
            IntegrityError: the release cannot be read.
        """
        row = self._row(name, ["caption_entity_ids", "captions"])
        return (
            {}
            if row is None
            else dict(zip(row["caption_entity_ids"], row["captions"], strict=False))
        )

    @cached_property
    def _row_count(self) -> int:
        return count_rows(self._folder)

    def _row(self, name: str, columns: list[str]) -> dict[str, Any] | None:
        """These columns of the row that is called `name`; None where it is not the name of one."""
        if match := _FILE_NAME.fullmatch(name):
            return find_row(self._folder, int(match[2]), columns, f"images/{match[1]}")
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
        found: list[str] = []
        table = SortedTable(self._folder, ENTITIES)
        try:
            for one in table.keys_between(start, start + _LAST):
                found.append(one)
                if len(found) > 1:
                    break
        finally:
            table.close()
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


class _PackedTables:
    """The tables as they lie in a release."""

    def __init__(self, folder: Path) -> None:
        self._tables = {table.name: SortedTable(folder, table) for table in TABLES}

    def close(self) -> None:
        for table in self._tables.values():
            table.close()

    def rows(self, table: LineageTable, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
        return self._tables[table.name].rows(keys)


def open_lineage(folder: Path, *, spool: Path | None = None) -> ReleasedLineage:
    """The lineage that the release in `folder` carries.

    Args:
        folder: the release.
        spool: an empty folder to unpack the tables in, for asking often; it takes some hundred
            megabytes for 100,000 rows.

    Raises:
        UsageError: there is no release in `folder`.
        IntegrityError: a table is missing, or with `spool` cannot be read.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"there is no release in {folder}: it holds no {MANIFEST}")
    for table in TABLES:
        if not (folder / table.path).is_file():
            raise IntegrityError(f"{folder}: {_why_missing(folder, table.path)}; {_LOOK}")
    found_in = _PackedTables(folder) if spool is None else _SpooledTables(folder, spool)
    return ReleasedLineage(folder, found_in)


def _why_missing(folder: Path, path: str) -> str:
    return erasure_of(folder, path) or f"{path} is missing"
