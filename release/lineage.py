"""Writes `lineage/`: all that a release was derived from, back to the sources."""

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Connection, select

from db.entities import pages
from db.lineage import (
    WITHHELD_WHOLE,
    ActivityNode,
    activities_by_number,
    agents_by_id,
    calls_by_key,
)
from db.tables.provenance import Agent, Decision, Derivation, Entity
from release.files import DigestingFile
from release.parquet_bounds import opened_parquet
from release.publishable import published_model, published_name, published_text, published_values
from schemas.base import canonical_json, digest_of
from schemas.release import LineageStatistics, ReleasedFile

# What of the store's provenance may be read by everybody.
#
# Left out is what would reveal a machine or its users: paths, addresses, devices, names of keys;
# what people wrote to each other, but for the texts that they made; what models were sent and
# answered; the tracker's observations, whose embeddings know people again; and of what was
# withdrawn everything but its name. What is left out of a payload is named beside it.

_WITHDRAWN = "withdrawn"

_TEXTS = frozenset({"caption", "rewrite", "prompt"})
"""Kinds whose words are released as they are."""
_NAMES = frozenset({"author", "embedder", "model"})
"""Fields that name a model, a tracker or a person, in any kind."""
WHOLE = _TEXTS | {
    *("source", "image", "image_facts", "sample", "video", "filter_report", "tracklet"),
    *("settings", "selection", "faithfulness", "task_draw", "rendered_truth", "sign_pair"),
    *("strategy", "image_order", "edited_picture", "candidate", "contrast_group"),
    *("caption_group", "caption_check", "found_hit", "found_picture"),
    *("confusion", "confusion_match", "confusion_check", "confusion_calibration"),
    *("discriminability_report", "expansion_report", "duplicate_question"),
    *("results_considered", "choice_calibration", "choice_test"),
    *("image_fingerprint", "alike_pair", "duplicate_cluster", "near_duplicate_report"),
}
"""Kinds of which no field is left out as such."""
WITHHELD: dict[str, tuple[str, ...]] = {
    "annotation": ("answer.texts", "answer.reason", "answer.remark"),
    "failed_edit": ("detail",),
    "strategy_draft": ("refusal.detail", "refusal.context"),
    "track": ("observations",),
    "tracked_video": ("notices",),
}
"""Fields of other kinds that are left out; kinds that are in neither have no payload at all."""

_SETTINGS = frozenset(
    {
        *("authors", "caption_similarity", "choice", "dataset", "draw", "embedder", "filter", "id"),
        *("image_similarity", "input", "interface", "limits", "made_by", "max_characters", "model"),
        *("near_duplicates", "options", "overlap", "parameters", "prompt", "queue", "sample"),
        *("search", "seed", "settings", "size", "source", "tracking", "way"),
    }
)
"""What of a plan's configuration hangs on settings alone.

The rest tells how far the work had come when it was done (digests of what was there by then), or
what could not be used: of the same decisions, made in another order, it would be something else.
"""
_PATH = re.compile(r"(?<=[\s\"'`=:@({,;|<>\[])/|[A-Za-z]:/|\.\./")
_HINTS = (
    *("\\", "~", "=", "://", "bearer", "password", "passwd", "authorization"),
    *("api_key", "api-key", "apikey", "accesstoken", "access_token", "access-token"),
    *("sk-", "hf_", "ghp_", "github_pat_", "akia", "aiza"),
)
"""One of these, or a path, has every payload of which something may have to go."""

_RELATIVE = frozenset({"file_path"})
"""Relative to the root of a source, and a part of what the rows say."""
_ABSOLUTE = re.compile(
    r"[\\/~]|[A-Za-z]:[\\/]|\.\.[\\/]|[A-Za-z+.-]+://|(?:file|folder|local-dir):"
)

_HOW = r"settled by an adjudicator|[0-9]+ people answered"
_SAID = re.compile(rf"(?:(?P<how>{_HOW})(?:: |$))?(?P<choice>[^:\n@]*)(?::.*)?", re.DOTALL)
"""How it was decided, what was chosen on the page, and what the person added to it."""


def published_payload(kind: str, state: str, payload: str) -> tuple[str | None, tuple[str, ...]]:
    """The payload of an entity as it is released, and the fields that are left out of it.

    None where it is left out as a whole: what was withdrawn, and kinds that are not known here.
    """
    if state == _WITHDRAWN or (kind not in WHOLE and kind not in WITHHELD):
        return None, (WITHHELD_WHOLE,)
    fields = WITHHELD.get(kind, ())
    if not (fields or kind == "settings" or _is_suspect(kind, payload)):
        return payload, ()
    values: dict[str, Any] = json.loads(payload)
    left_out = [field for field in fields if _take_out(values, field.split("."))]
    for name, value in values.items():
        details = _published_field(kind, name, value)
        if details != value:
            values[name] = details
            left_out.append(name)
    if not left_out:
        return payload, ()
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False), tuple(left_out)


def _is_suspect(kind: str, payload: str) -> bool:
    """Whether it has to be looked at closely: cheap, as few of a million have to."""
    if kind in _TEXTS:  # the rest is released as it is
        payload = payload[max(payload.rfind('"author"'), 0) :]
    lower = payload.lower()
    return any(hint in lower for hint in _HINTS) or ("/" in lower and bool(_PATH.search(payload)))


def _published_field(kind: str, name: str, value: Any) -> Any:
    """A field of a record: of texts, only who wrote them may be called otherwise."""
    if kind in _TEXTS and name not in _NAMES:
        return value
    if kind == "settings" and name == "values":
        return published_values(value)
    return _without_places(value, name)


def published_configuration(configuration: dict[str, Any]) -> str:
    """The configuration of a plan as canonical JSON."""
    known = {name: value for name, value in configuration.items() if name in _SETTINGS}
    return canonical_json(published_values(known))


def published_reason(verdict: str, agent_kind: str, reason: str, *, answered: bool) -> str:
    """Why something was decided, without what people wrote.

    Args:
        verdict: what was decided; what was said of a withdrawal stays in the store.
        agent_kind: who decided; what gates and checks say is released.
        reason: what they said.
        answered: whether it follows from an answer on a page. What flows derive from such a
            decision is in their own words.
    """
    if verdict == "withdraw":
        return ""
    if agent_kind != "person" or not answered:
        return published_text(reason)
    if (said := _SAID.fullmatch(reason)) is None:
        return ""
    return ": ".join(part for part in (said["how"], said["choice"].strip()) if part)


def _take_out(values: Any, path: list[str]) -> bool:
    """Removes a field; False where there is none, or nothing in it."""
    *above, field = path
    for name in above:
        values = values.get(name) if isinstance(values, dict) else None
    return isinstance(values, dict) and bool(values.pop(field, None))


def _without_places(values: Any, name: str) -> Any:
    if isinstance(values, dict):
        return {key: _without_places(value, key) for key, value in values.items()}
    if isinstance(values, list):
        return [_without_places(value, name) for value in values]
    if not isinstance(values, str) or (name in _RELATIVE and not _ABSOLUTE.match(values)):
        return values
    if name in _NAMES:
        return published_name(values)
    text = published_text(values)
    return text.partition("?")[0] if name == "image_url" else text


# What a build remembers of a lineage, on disk: memory does not grow with the rows.

_TABLES = """
    PRAGMA journal_mode=OFF;
    PRAGMA synchronous=OFF;
    CREATE TABLE entity (
        seq INTEGER PRIMARY KEY, id, dataset, kind, state, payload, withheld, activity, model_call
    );
    CREATE TABLE derivation (child INTEGER, role, parent INTEGER);
    CREATE TABLE decision (entity INTEGER, number INTEGER, verdict, agent, reason, successor);
    CREATE TABLE wanted (seq INTEGER PRIMARY KEY);
    CREATE TABLE counted (call PRIMARY KEY) WITHOUT ROWID;
"""
_ENTITY = "id, dataset, kind, state, payload, withheld, activity, model_call"
_PAGE = 1000
Row = tuple[Any, ...]


class LineageScratch:
    """Entities, derivations and decisions as they are found, to be read again in order of id.

    In here entities are called by their numbers in the store, which no release tells.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._database = sqlite3.connect(file or "")
        self._database.executescript(_TABLES)

    def close(self) -> None:
        """Lets go of the database."""
        self._database.close()

    def want(self, numbers: Iterable[int]) -> None:
        """Remembers entities that are to be looked up, unless they were."""
        self._database.executemany(
            "INSERT OR IGNORE INTO wanted SELECT ?1 "
            "WHERE NOT EXISTS (SELECT 1 FROM entity WHERE seq = ?1)",
            ((number,) for number in numbers),
        )

    def take(self) -> list[int]:
        """Some of the entities that are to be looked up, rising; none when all were."""
        query = "SELECT seq FROM wanted ORDER BY seq DESC LIMIT ?"
        page = [number for (number,) in self._database.execute(query, (_PAGE,))]
        if page:
            self._database.execute("DELETE FROM wanted WHERE seq >= ?", (page[-1],))
        return page[::-1]

    def add(
        self, entities: Sequence[Row], derivations: Sequence[Row], decisions: Sequence[Row]
    ) -> None:
        """Remembers entities with what they were derived from and what was decided on them."""
        insert = self._database.executemany
        insert("INSERT INTO entity VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", entities)
        insert("INSERT INTO derivation VALUES (?, ?, ?)", derivations)
        insert("INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?)", decisions)

    def entities(self) -> Iterator[Row]:
        """The entities by id, without their numbers."""
        self._database.execute("CREATE INDEX IF NOT EXISTS entity_by_id ON entity (id)")
        query = f"SELECT {_ENTITY} FROM entity ORDER BY id"  # noqa: S608 our own words
        yield from self._database.execute(query)

    def derivations(self) -> Iterator[Row]:
        """(child id, role, parent id), in this order."""
        yield from self._database.execute(
            "SELECT below.id, role, above.id FROM derivation "
            "JOIN entity AS below ON below.seq = child JOIN entity AS above ON above.seq = parent "
            "ORDER BY 1, 2, 3"
        )

    def decisions(self) -> Iterator[Row]:
        """(entity id, number, verdict, agent, reason, successor), by entity and number."""
        yield from self._database.execute(
            "SELECT id, number, verdict, agent, reason, successor FROM decision "
            "JOIN entity ON seq = entity ORDER BY 1, 2"
        )

    def add_counted(self, keys: Iterable[str]) -> None:
        """Remembers model calls that the manifest counts."""
        self._database.executemany("INSERT INTO counted VALUES (?)", ((key,) for key in keys))

    def calls(self) -> Iterator[tuple[str, bool, bool]]:
        """The keys of model calls, rising; whether an entity came of each, whether it counts."""
        rows = self._database.execute(
            "SELECT key, max(held), max(counted) FROM ("
            "SELECT model_call AS key, 1 AS held, 0 AS counted FROM entity "
            "WHERE model_call IS NOT NULL UNION ALL SELECT call, 0, 1 FROM counted"
            ") GROUP BY key ORDER BY key"
        )
        return ((key, bool(held), bool(counted)) for key, held, counted in rows)


# The tables of `lineage/`: W3C PROV restricted to a release, for DuckDB and `loupe lineage`.
#
# Each is sorted by its first columns, so that what is known of one id lies in one or two row
# groups, which the statistics in the file tell. Nothing in them says when or where anything was
# stored: activities state what was done and by which agents, not in which run.

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
    repeating=("role",),
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
        OSError: as above.
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


# Writes `lineage/`: everything that a release was derived from, back to the sources.
#
# The graph is followed by the store's numbers, a generation after the other and a page at a time;
# what is found lies in a database of its own until it is written in order of id. Nothing hangs on
# the order in which things were stored: an activity states what was done and by which agents, so
# that all runs of one plan are one activity.


class WrittenLineage(NamedTuple):
    """The files of a lineage, and how much they hold."""

    files: tuple[ReleasedFile, ...]
    statistics: LineageStatistics


def write_lineage(
    connection: Connection,
    entity_ids: Iterable[str],
    folder: Path,
    scratch_file: Path | None,
    counted_calls: Iterable[str] = (),
) -> WrittenLineage:
    """Writes the lineage of these entities, as `connection` sees it, into a release's `folder`.

    `counted_calls` are the keys of the model calls that the manifest counts. `scratch_file` must
    be new; without one, a temporary file is used.
    """
    scratch = LineageScratch(scratch_file)
    try:
        lineage = _Lineage(connection, scratch)
        lineage.collect(entity_ids)
        scratch.add_counted(counted_calls)
        return lineage.write(folder)
    finally:
        scratch.close()


class _Lineage:
    """What is found of one release's lineage."""

    def __init__(self, connection: Connection, scratch: LineageScratch) -> None:
        self._connection = connection
        self._scratch = scratch
        self._activity_ids: dict[int, str] = {}
        self._activities: dict[str, Row] = {}
        self._agents: set[str] = set()
        self._counts: dict[str, int] = {}

    def collect(self, entity_ids: Iterable[str]) -> None:
        """Finds the entities and all that they were derived from."""
        for ids in pages(entity_ids):
            query = select(Entity.seq).where(Entity.id.in_(ids))
            self._scratch.want(self._connection.execute(query).scalars())
        while page := self._scratch.take():
            parents = self._add(page)
            self._scratch.want(parents)

    def _add(self, numbers: list[int]) -> set[int]:
        """Remembers a page of entities; gives the numbers of what they were derived from."""
        found = self._entities(numbers)
        names: dict[str, int] = {row[1]: row[0] for row in found}
        links = select(Derivation.child_seq, Derivation.role, Derivation.parent_seq)
        rows = self._connection.execute(links.where(Derivation.child_seq.in_(numbers)))
        derivations: list[Row] = [tuple(row) for row in rows]
        self._scratch.add(found, derivations, list(self._decisions(names)))
        return {parent for _, _, parent in derivations}

    def _entities(self, numbers: list[int]) -> list[Row]:
        query = select(
            Entity.seq,
            Entity.id,
            Entity.dataset,
            Entity.kind,
            Entity.state,
            Entity.payload,
            Entity.activity_id,
            Entity.model_call_key,
        )
        rows = self._connection.execute(query.where(Entity.seq.in_(numbers))).all()
        self._name_activities({number for *_, number, _ in rows})
        found: list[Row] = []
        for seq, id_, dataset, kind, state, stored, number, call in rows:
            payload, withheld = published_payload(kind, state, stored)
            details = (dataset, kind, state, payload, " ".join(withheld))
            found.append((seq, id_, *details, self._activity_ids[number], call))
        return found

    def _name_activities(self, numbers: set[int]) -> None:
        """Gives activities the ids that they have in a release: the same for all runs of a plan."""
        new = numbers - self._activity_ids.keys()
        for number, activity in activities_by_number(self._connection, new).items():
            row = _activity_row(activity)
            self._activity_ids[int(number)] = row[0]
            self._activities[row[0]] = row
            self._agents.update(activity.agent_ids)

    def _decisions(self, names: dict[str, int]) -> Iterator[Row]:
        """The decisions on entities, each entity's numbered from 0 in the order of the store."""
        query = (
            select(
                Decision.entity_id,
                Decision.verdict,
                Decision.agent_id,
                Agent.kind,
                Decision.reason,
                Decision.successor_id,
                Decision.annotation_key,
            )
            .join(Agent, Agent.id == Decision.agent_id)
            .where(Decision.entity_id.in_(names))
            .order_by(Decision.id)
        )
        numbers: defaultdict[str, int] = defaultdict(int)
        for id_, verdict, agent, kind, why, successor, annotation in self._connection.execute(
            query
        ):
            reason = published_reason(verdict, kind, why, answered=annotation is not None)
            self._agents.add(agent)
            yield (names[id_], numbers[id_], verdict, agent, reason, successor)
            numbers[id_] += 1

    def write(self, folder: Path) -> WrittenLineage:
        """Writes the tables; agents last, when all are known."""
        files = (
            self._write(folder, ENTITIES, map(_entity_row, self._scratch.entities())),
            self._write(folder, DERIVATIONS, self._scratch.derivations()),
            self._write(folder, DECISIONS, self._scratch.decisions()),
            self._write(folder, CALLS, self._calls()),
            self._write(folder, ACTIVITIES, (row for _, row in sorted(self._activities.items()))),
            self._write(folder, AGENTS, self._agent_rows()),
        )
        return WrittenLineage(files, LineageStatistics(**self._counts))

    def _write(self, folder: Path, table: LineageTable, rows: Iterable[Row]) -> ReleasedFile:
        count = 0

        def counted() -> Iterator[Row]:
            nonlocal count
            for row in rows:
                count += 1
                yield row

        file = write_table(folder, table, counted())
        self._counts[table.name] = count
        return file

    def _calls(self) -> Iterator[Row]:
        for page in pages(self._scratch.calls()):
            calls = calls_by_key(self._connection, [key for key, _, _ in page])
            for key, is_held, is_counted in page:
                call, use = calls[key], _use_of(is_held=is_held, is_counted=is_counted)
                self._agents.add(call.agent_id)
                parameters = canonical_json(published_values(call.parameters))
                details = (call.tokens_in, call.tokens_out, call.cost, call.currency, use.value)
                yield (key, call.agent_id, call.prompt_digest, parameters, call.status, *details)

    def _agent_rows(self) -> Iterator[Row]:
        for id_, agent in sorted(agents_by_id(self._connection, self._agents).items()):
            name, revision = published_model(agent.name, agent.revision)
            details = (("name", name, agent.name), ("revision", revision, agent.revision))
            withheld = [field for field, published, stored in details if published != stored]
            yield (id_, agent.kind, name, revision, withheld)


def _use_of(*, is_held: bool, is_counted: bool) -> CallUse:
    if not is_counted:
        return CallUse.OTHER
    return CallUse.RELEASED if is_held else CallUse.LEFT_OUT


def _entity_row(row: Row) -> Row:
    *before, withheld, activity, model_call = row
    return (*before, withheld.split(), activity, model_call)


def _activity_row(activity: ActivityNode) -> Row:
    configuration = published_configuration(activity.configuration)
    named = (activity.stage, activity.version, configuration)
    return (digest_of("activity", *named, *activity.agent_ids), *named, list(activity.agent_ids))
