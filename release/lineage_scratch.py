"""What a build remembers of a lineage, on disk: memory does not grow with the rows."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

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
