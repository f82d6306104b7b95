"""The blob store compared with the entities that name its files, in bounded memory."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple, Self

from sqlalchemy import func, select

from db.blobs import BlobFault, BlobStore, suffix_of
from db.entities import fetch, pages, scan
from db.store import Store
from db.tables.provenance import Entity
from db.withdrawal_graph import WITH_FILES, Blob, own_blobs

_PAGE = 1000
_AT_ONCE = 8
"""Files that are read in parallel: a bucket answers each request slowly."""
_TABLES = """
    PRAGMA journal_mode=OFF;
    CREATE TABLE named (
        sha256, media_type, entity_id, kind, live, PRIMARY KEY (sha256, media_type, entity_id)
    ) WITHOUT ROWID;
    CREATE TABLE faulty (sha256, media_type, fault, PRIMARY KEY (sha256, media_type)) WITHOUT ROWID;
    CREATE TABLE file (name PRIMARY KEY) WITHOUT ROWID;
"""
Advance = Callable[[int, int], None]
"""Receives how many files were checked, of how many."""


class FaultyBlob(NamedTuple):
    """A faulty file, and one of the entities that name it."""

    blob: Blob
    fault: BlobFault
    entity_id: str


class BlobCheck:
    """Compares the blob store with the files that entities name.

    The lists are in a temporary database on disk; close it. Files that only withdrawn entities name
    are neither missing nor orphans.
    """

    def __init__(self, store: Store, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs
        self._lists = sqlite3.connect("", isolation_level=None)  # without a name: a temporary file
        self._lists.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lists.close()

    def run(self, advance: Advance = lambda _done, _total: None) -> int:
        """Reads every file that is named and records faults; gives how many files there are.

        Raises:
            ServiceError: the blob store does not answer.
        """
        self._list_named()
        named = "SELECT DISTINCT sha256, media_type FROM named WHERE live ORDER BY 1, 2"
        counted = self._lists.execute(f"SELECT count(*) FROM ({named})")  # noqa: S608
        total = int(counted.fetchone()[0])
        done = 0
        with ThreadPoolExecutor(_AT_ONCE) as pool, closing(self._lists.execute(named)) as rows:
            for page in pages((Blob(*row) for row in rows), _PAGE):
                faults = pool.map(lambda one: self._blobs.fault_of(*one), page)
                wrong = [
                    (*one, fault)
                    for one, fault in zip(page, faults, strict=True)
                    if fault is not None and self._is_live(one)
                ]
                self._lists.executemany("INSERT INTO faulty VALUES (?, ?, ?)", wrong)
                done += len(page)
                advance(done, total)
        return total

    def faulty(self) -> Iterator[FaultyBlob]:
        """The faulty files, by digest, without those repaired since."""
        query = """
            SELECT sha256, media_type, fault, min(entity_id) FROM faulty
            JOIN named USING (sha256, media_type) WHERE live AND (sha256, media_type) > (?, ?)
            GROUP BY sha256, media_type ORDER BY sha256, media_type LIMIT ?
        """
        after = Blob("", "")
        while rows := self._lists.execute(query, (*after, _PAGE)).fetchall():
            for sha256, media_type, fault, entity_id in rows:
                after = Blob(sha256, media_type)
                yield FaultyBlob(after, BlobFault(fault), entity_id)

    def naming(self, blob: Blob) -> list[tuple[str, str]]:
        """The entities that name a file and are not withdrawn: (kind, id)."""
        query = "SELECT kind, entity_id FROM named WHERE (sha256, media_type) = (?, ?) AND live"
        return self._lists.execute(f"{query} ORDER BY kind, entity_id", blob).fetchall()

    def repair(self, blob: Blob, data: bytes) -> bool:
        """Stores a file again; False, and nothing is stored, where it was withdrawn meanwhile."""
        is_live = self._is_live(blob)
        if is_live:
            self._blobs.put(data, blob.media_type, replace=True)
        self._lists.execute("DELETE FROM faulty WHERE (sha256, media_type) = (?, ?)", blob)
        return is_live

    def orphans(self) -> Iterator[str]:
        """The paths of files that no entity names: what runs that were killed left, say.

        What a run under way stored, and has not committed yet, is among them.
        """
        self._list_named()  # what was committed meanwhile
        suffixes = self._lists.execute("SELECT DISTINCT media_type FROM named").fetchall()
        for (media_type,) in suffixes:
            self._lists.execute(
                "INSERT OR IGNORE INTO file SELECT sha256 || ? FROM named WHERE media_type = ?",
                (suffix_of(media_type), media_type),
            )
        for page in pages(self._blobs.stored(), 500):
            marks = ",".join("?" * len(page))
            known = self._lists.execute(
                f"SELECT name FROM file WHERE name IN ({marks})",  # noqa: S608
                [name for name, _ in page],
            )
            names = {name for (name,) in known}
            yield from (path for name, path in page if name not in names)

    def _list_named(self) -> None:
        query = select(Entity.seq, Entity.id, Entity.kind, Entity.state, Entity.payload)
        found = scan(self._store, query.where(Entity.kind.in_(WITH_FILES)), _PAGE)
        for page in pages(found, _PAGE):
            self._lists.execute("BEGIN")
            self._lists.executemany(
                "INSERT OR REPLACE INTO named VALUES (?, ?, ?, ?, ?)",
                [
                    (*blob, id_, kind, state != "withdrawn")
                    for _, id_, kind, state, payload in page
                    for blob in own_blobs(kind, payload)
                ],
            )
            self._lists.execute("COMMIT")

    def _is_live(self, blob: Blob) -> bool:
        """Whether an entity that names the file is not withdrawn at this moment."""
        stored = fetch(self._store, [id_ for _, id_ in self.naming(blob)])
        return any(one.state != "withdrawn" for one in stored.values())


def sampled_faults(store: Store, blobs: BlobStore, count: int) -> tuple[int, list[FaultyBlob]]:
    """How many files a quick look took, and what is wrong with them.

    Of `count` entities, drawn at random, each file is read; the same ones for the same store.
    """
    with store.read() as connection:
        last = connection.execute(select(func.max(Entity.seq))).scalar_one() or 0
        query = (
            select(Entity.id, Entity.kind, Entity.payload)
            .where(Entity.kind.in_(WITH_FILES), Entity.state != "withdrawn")
            .order_by(Entity.seq)
            .limit(1)
        )
        chance = random.Random(last)  # noqa: S311 - nothing secret hangs on it
        places = sorted(chance.randint(1, last) for _ in range(count)) if last else []
        rows = [connection.execute(query.where(Entity.seq >= place)).first() for place in places]
    named = {blob: row.id for row in rows if row for blob in own_blobs(row.kind, row.payload)}
    found = [(blob, blobs.fault_of(*blob)) for blob in sorted(named)[:count]]
    return len(found), [FaultyBlob(blob, fault, named[blob]) for blob, fault in found if fault]
