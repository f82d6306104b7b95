"""Writes `lineage/`: everything that a release was derived from, back to the sources.

The graph is traversed by the store's numbers, one generation after the other and in pages. Results
are collected in a temporary database and written in order of id. Nothing depends on the order of
storage: an activity states what was done by which agents, so that all runs of one plan are one
activity.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from loupe.db.decisions import decided_states
from loupe.db.entities import pages
from loupe.db.lineage import activities_by_number, agents_by_id, calls_by_key
from loupe.db.tables import Agent, Decision, Derivation, Entity
from loupe.release.format.publishable import published_model, published_served, published_values
from loupe.release.lineage import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    CallUse,
    LineageTable,
    published_configuration,
    published_payload,
    published_reason,
    write_table,
)
from loupe.schemas.base import canonical_json, digest_of
from loupe.schemas.processes import scratch_database
from loupe.schemas.release import LineageStatistics, ReleasedFile

# The temporary data of a lineage, on disk so that memory does not grow with the rows.

_TABLES = """
    CREATE TABLE entity (
        seq INTEGER PRIMARY KEY, id, dataset, kind, state, payload, withheld, activity, model_call
    );
    CREATE TABLE derivation (child INTEGER, role, parent INTEGER);
    CREATE TABLE decision (entity INTEGER, number INTEGER, verdict, agent, reason, successor);
    CREATE TABLE activity (id PRIMARY KEY, stage, version, configuration, agents) WITHOUT ROWID;
    CREATE TABLE wanted (seq INTEGER PRIMARY KEY);
    CREATE TABLE counted (call PRIMARY KEY) WITHOUT ROWID;
"""
_PAGE = 1000
_Row = tuple[Any, ...]
_ENTITIES = """
    SELECT id, dataset, kind, state, payload, withheld, activity, model_call
    FROM entity ORDER BY id
"""
_DERIVATIONS = """
    SELECT below.id, role, above.id FROM derivation
    JOIN entity AS below ON below.seq = child JOIN entity AS above ON above.seq = parent
    ORDER BY 1, 2, 3
"""
_DECISIONS = """
    SELECT id, number, verdict, agent, reason, successor FROM decision
    JOIN entity ON seq = entity ORDER BY 1, 2
"""
_CALLS = """
    SELECT key, max(held), max(counted) FROM (
        SELECT model_call AS key, 1 AS held, 0 AS counted FROM entity
        WHERE model_call IS NOT NULL UNION ALL SELECT call, 0, 1 FROM counted
    ) GROUP BY key ORDER BY key
"""
"""The keys of model calls, whether an entity derives from each, and whether it is counted."""


def write_lineage(
    connection: Connection,
    entity_ids: Iterable[str],
    folder: Path,
    scratch_file: Path,
    counted_calls: Iterable[str],
    own_kinds: Collection[str] = (),
) -> tuple[tuple[ReleasedFile, ...], LineageStatistics]:
    """Write the lineage of these entities, as `connection` sees it, into a release's `folder`.

    `counted_calls` are the keys of the model calls that the manifest counts, `own_kinds` those of
    the dataset's own records. `scratch_file` must be new.

    Returns:
        The files, and the number of rows of each table.
    """
    with closing(scratch_database(_TABLES, scratch_file)) as scratch:
        keys = ((key,) for key in counted_calls)
        scratch.executemany("INSERT INTO counted VALUES (?)", keys)
        lineage = _Lineage(connection, scratch, own_kinds)
        lineage.collect(entity_ids)
        return lineage.write(folder)


class _Lineage:
    """The lineage of one release.

    `scratch` refers to entities by their numbers in the store, which are never released.
    """

    def __init__(
        self, connection: Connection, scratch: sqlite3.Connection, own_kinds: Collection[str]
    ) -> None:
        self._own_kinds = own_kinds
        self._connection = connection
        self._scratch = scratch
        self._activity_ids: dict[int, str] = {}
        self._agents: set[str] = set()
        self._counts: dict[str, int] = {}

    def collect(self, entity_ids: Iterable[str]) -> None:
        """Collect the entities and all their ancestors."""
        for ids in pages(entity_ids):
            query = select(Entity.seq).where(Entity.id.in_(ids))
            self._want(self._connection.execute(query).scalars())
        while page := self._take():
            self._add(page)

    def _want(self, numbers: Iterable[int]) -> None:
        """Add entities to the lookup queue, once each."""
        self._scratch.executemany(
            "INSERT OR IGNORE INTO wanted SELECT ?1 "
            "WHERE NOT EXISTS (SELECT 1 FROM entity WHERE seq = ?1)",
            ((number,) for number in numbers),
        )

    def _take(self) -> list[int]:
        """The next entities of the lookup queue, ascending; none if it is empty."""
        query = "SELECT seq FROM wanted ORDER BY seq DESC LIMIT ?"
        page = [number for (number,) in self._scratch.execute(query, (_PAGE,))]
        if page:
            self._scratch.execute("DELETE FROM wanted WHERE seq >= ?", (page[-1],))
        return page[::-1]

    def _add(self, numbers: list[int]) -> None:
        """Add a page of entities, and their parents to the lookup queue."""
        found = self._entities(numbers)
        names: dict[str, int] = {row[1]: row[0] for row in found}
        links = select(Derivation.child_seq, Derivation.role, Derivation.parent_seq)
        rows = self._connection.execute(links.where(Derivation.child_seq.in_(numbers)))
        derivations: list[_Row] = [tuple(row) for row in rows]
        insert = self._scratch.executemany
        insert("INSERT INTO entity VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", found)
        insert("INSERT INTO derivation VALUES (?, ?, ?)", derivations)
        insert("INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?)", self._decisions(names))
        self._want({parent for _, _, parent in derivations})

    def _entities(self, numbers: list[int]) -> list[_Row]:
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
        inactive = [row.id for row in rows if row.state == "inactive"]
        decided = decided_states(self._connection, inactive)
        found: list[_Row] = []
        for seq, id_, dataset, kind, now, stored, number, call in rows:
            state = decided.get(id_, now)  # parents of runs are not part of a release
            payload, withheld = published_payload(kind, state, stored, self._own_kinds)
            details = (dataset, kind, state, payload, " ".join(withheld))
            found.append((seq, id_, *details, self._activity_ids[number], call))
        return found

    def _name_activities(self, numbers: set[int]) -> None:
        """Assign the ids of activities in a release, which are the same for all runs of a plan."""
        new = numbers - self._activity_ids.keys()
        for number, activity in activities_by_number(self._connection, new).items():
            configuration = published_configuration(activity.stage, activity.configuration)
            named = (activity.stage, activity.version, configuration)
            id_ = digest_of("activity", *named, *activity.agent_ids)
            self._activity_ids[int(number)] = id_
            row = (id_, *named, " ".join(activity.agent_ids))
            self._scratch.execute("INSERT OR IGNORE INTO activity VALUES (?, ?, ?, ?, ?)", row)
            self._agents.update(activity.agent_ids)

    def _decisions(self, names: dict[str, int]) -> Iterator[_Row]:
        """The decisions on entities, numbered from 0 per entity in the order of the store."""
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

    def write(self, folder: Path) -> tuple[tuple[ReleasedFile, ...], LineageStatistics]:
        """Write the tables; agents last, when all are known."""
        self._scratch.execute("CREATE INDEX entity_by_id ON entity (id)")
        find = self._scratch.execute
        entities = (
            (*before, withheld.split(), activity, model_call)
            for *before, withheld, activity, model_call in find(_ENTITIES)
        )
        activities = (
            (*before, agents.split())
            for *before, agents in find("SELECT * FROM activity ORDER BY id")
        )
        files = (
            self._write(folder, ENTITIES, entities),
            self._write(folder, DERIVATIONS, find(_DERIVATIONS)),
            self._write(folder, DECISIONS, find(_DECISIONS)),
            self._write(folder, CALLS, self._calls()),
            self._write(folder, ACTIVITIES, activities),
            self._write(folder, AGENTS, self._agent_rows()),
        )
        return files, LineageStatistics(**self._counts)

    def _write(self, folder: Path, table: LineageTable, rows: Iterable[_Row]) -> ReleasedFile:
        file, self._counts[table.name] = write_table(folder, table, rows)
        return file

    def _calls(self) -> Iterator[_Row]:
        for page in pages(self._scratch.execute(_CALLS)):
            calls = calls_by_key(self._connection, [key for key, _, _ in page])
            for key, is_held, is_counted in page:
                call, use = calls[key], CallUse.OTHER
                if is_counted:
                    use = CallUse.RELEASED if is_held else CallUse.LEFT_OUT
                self._agents.add(call.agent_id)
                parameters = canonical_json(published_values(call.parameters))
                served = call.served and published_served(call.served)
                asked = (key, call.agent_id, call.prompt_digest, parameters, call.status)
                paid = (call.tokens_in, call.tokens_out, call.cost, call.currency)
                yield (*asked, *paid, served, use.value)

    def _agent_rows(self) -> Iterator[_Row]:
        for id_, agent in sorted(agents_by_id(self._connection, self._agents).items()):
            name, revision = published_model(agent.name, agent.revision)
            details = (("name", name, agent.name), ("revision", revision, agent.revision))
            withheld = [field for field, published, stored in details if published != stored]
            yield (id_, agent.kind, name, revision, withheld)
