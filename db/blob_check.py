"""Compare the blob store with the entities that refer to its files, in bounded memory."""

import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple, Self

from sqlalchemy import func, select

from loupe.db.blobs import SHARD, BlobFault, BlobStore
from loupe.db.entities import fetch, pages, scan
from loupe.db.store import Store
from loupe.db.tables import Entity
from loupe.db.withdrawal_graph import WITH_FILES, Blob, erased_digests, own_blobs
from loupe.schemas.errors import ServiceError
from loupe.schemas.processes import scratch_database

_PAGE = 1000
_SHARD_KIND = "shard"
_AT_ONCE = 8
"""Number of files read in parallel; a bucket answers each request slowly."""
_TABLES = """
    CREATE TABLE named (
        sha256, media_type, entity_id, kind, live, PRIMARY KEY (sha256, media_type, entity_id)
    ) WITHOUT ROWID;
    CREATE TABLE faulty (sha256, media_type, fault, PRIMARY KEY (sha256, media_type)) WITHOUT ROWID;
"""
Advance = Callable[[int, int], None]
"""Receives the number of files checked and the total."""


class FaultyBlob(NamedTuple):
    """A faulty file and one of the entities that refer to it."""

    blob: Blob
    fault: BlobFault
    entity_id: str


class NamedBlob(NamedTuple):
    """A shard, or a file of one of its records, with the entity of the shard."""

    blob: Blob
    entity_id: str


class BlobCheck:
    """Compare the blob store with the files that entities refer to.

    The lists are in a temporary database on disk, so close it after use. Files that only withdrawn
    entities refer to, and erased crops, are neither missing nor orphans. `others` are shards that
    their reader has checked, with the files of their records, and shards that cannot be read.
    """

    def __init__(
        self, store: Store, blobs: BlobStore, others: Iterable[NamedBlob | FaultyBlob] = ()
    ) -> None:
        self._others = others
        self._store = store
        self._blobs = blobs
        self._lists = scratch_database(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lists.close()

    def run(self, advance: Advance = lambda _done, _total: None) -> int:
        """Read each file that an entity refers to, record faults, and return the number of files.

        Raises:
            ServiceError: the blob store does not answer.
        """
        self._list_named()
        self._list(self._others)
        named = "SELECT DISTINCT sha256, media_type FROM named WHERE live"
        counted = self._lists.execute(f"SELECT count(*) FROM ({named})")  # noqa: S608
        total = int(counted.fetchone()[0])
        named += f" AND media_type <> '{SHARD}' ORDER BY 1, 2"  # their readers have checked them
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
        """Return the faulty files by digest, without those repaired since."""
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
        """Return (kind, id) of each entity that refers to a file and is not withdrawn."""
        query = "SELECT kind, entity_id FROM named WHERE (sha256, media_type) = (?, ?) AND live"
        return self._lists.execute(f"{query} ORDER BY kind, entity_id", blob).fetchall()

    def repair(self, blob: Blob, data: bytes) -> bool:
        """Store a file again; return False, without storing it, if it was withdrawn meanwhile.

        A folder or something else that is in its place is left there, which also returns False.
        """
        is_live = self._is_live(blob)
        if is_live and blob.media_type == SHARD:
            self._blobs.put_shard(blob.sha256, data)
        elif is_live:
            try:
                self._blobs.put(data, blob.media_type, replace=True)
            except ServiceError:
                if self._blobs.fault_of(*blob) != BlobFault.UNREADABLE:
                    raise
                return False
        self._lists.execute("DELETE FROM faulty WHERE (sha256, media_type) = (?, ?)", blob)
        return is_live

    def orphans(self) -> Iterator[str]:
        """Return the paths of files with a digest that no entity refers to.

        For example, a run that was killed left them. Files that a current run has stored but not
        yet committed are included.
        """
        self._list_named()  # committed meanwhile
        for page in pages(self._blobs.stored(), 500):
            digests = [name.partition(".")[0] for name, _ in page]
            marks = ",".join("?" * len(digests))
            query = f"SELECT sha256 FROM named WHERE sha256 IN ({marks})"  # noqa: S608
            known = {sha256 for (sha256,) in self._lists.execute(query, digests)}
            yield from (
                path for (_, path), one in zip(page, digests, strict=True) if one not in known
            )

    def _list_named(self) -> None:
        query = select(Entity.seq, Entity.id, Entity.kind, Entity.state, Entity.payload)
        found = scan(self._store, query.where(Entity.kind.in_(WITH_FILES)), _PAGE)
        with self._store.read() as connection:
            erased = erased_digests(connection)
        for page in pages(found, _PAGE):
            self._lists.executemany(
                "INSERT OR REPLACE INTO named VALUES (?, ?, ?, ?, ?)",
                [
                    (*blob, id_, kind, state != "withdrawn" and blob in needed)
                    for _, id_, kind, state, payload in page
                    for needed in (own_blobs(kind, payload, erased),)
                    for blob in own_blobs(kind, payload)
                ],
            )

    def look_at(self, others: Iterable[NamedBlob]) -> None:
        """List the files of a shard that was restored, and those of them that are faulty."""
        for page in pages(others, _PAGE):
            self._list(page)
            for blob, _ in page:
                fault = self._blobs.fault_of(*blob)
                if fault is not None and self._is_live(blob):
                    row = (*blob, fault)
                    self._lists.execute("INSERT OR REPLACE INTO faulty VALUES (?, ?, ?)", row)

    def _list(self, others: Iterable[NamedBlob | FaultyBlob]) -> None:
        add = "INSERT OR REPLACE INTO named VALUES (?, ?, ?, ?, TRUE)"
        for page in pages(others, _PAGE):
            for one in page:
                self._lists.execute(add, (*one.blob, one.entity_id, _SHARD_KIND))
                if isinstance(one, FaultyBlob):
                    faulty = (*one.blob, one.fault)
                    self._lists.execute("INSERT INTO faulty VALUES (?, ?, ?)", faulty)

    def _is_live(self, blob: Blob) -> bool:
        """Return whether an entity that refers to the file is not withdrawn now."""
        stored = fetch(self._store, [id_ for _, id_ in self.naming(blob)])
        live = {one.kind for one in stored.values() if one.state != "withdrawn"}
        if live != {_SHARD_KIND}:
            return bool(live)
        with self._store.read() as connection:  # a record may be withdrawn, and its shard is not
            return blob.sha256 not in erased_digests(connection)


def sampled_faults(store: Store, blobs: BlobStore, count: int) -> tuple[int, list[FaultyBlob]]:
    """Check a sample of files; return its size and the faults.

    Draws `count` entities at random and reads the files of each. The same store gives the same
    sample.
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
        erased = erased_digests(connection)
    named = {
        blob: row.id for row in rows if row for blob in own_blobs(row.kind, row.payload, erased)
    }
    found = [(blob, blobs.fault_of(*blob)) for blob in sorted(named)[:count]]
    return len(found), [FaultyBlob(blob, fault, named[blob]) for blob, fault in found if fault]
