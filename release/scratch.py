"""What a build and a verification must remember, on disk: memory does not grow with the rows."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from release.ordering import RowKey
from schemas.release import ReleasedFile

_TABLES = """
    PRAGMA journal_mode=OFF;
    PRAGMA synchronous=OFF;
    CREATE TABLE image (split, source, identity, file_path, entity_id, name);
    CREATE TABLE call (key PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE item (entity_id);
    CREATE TABLE held (digest PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE wanted (entity_id PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE listed (path PRIMARY KEY, sha256, size_bytes) WITHOUT ROWID;
    CREATE TABLE found (path PRIMARY KEY, size_bytes) WITHOUT ROWID;
"""
_KEY = "split, source, identity, file_path"


class FoundFile(NamedTuple):
    """A file that lies in a folder; `path` is relative to it."""

    path: str
    size_bytes: int


class Scratch:
    """Lists that are sorted, compared and read again, in a database that nobody else sees.

    `file` is made anew; without one, the lists lie in a temporary file that the system removes.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._database = sqlite3.connect(file or "")
        self._database.executescript(_TABLES)

    def close(self) -> None:
        """Lets go of the database."""
        self._database.close()

    def add_image(self, key: RowKey, entity_id: str, name: str) -> None:
        """Remembers an image; `name` is what messages call it."""
        self._database.execute(
            "INSERT INTO image VALUES (?, ?, ?, ?, ?, ?)", (*key, entity_id, name)
        )

    def images(self) -> Iterator[str]:
        """The entity ids of all images, in the order of their keys."""
        rows = self._database.execute(f"SELECT entity_id FROM image ORDER BY {_KEY}")  # noqa: S608 our own words
        return (entity_id for (entity_id,) in rows)

    def count_images(self) -> int:
        """How many images there are."""
        return int(self._database.execute("SELECT count(*) FROM image").fetchone()[0])

    def has_several_splits(self) -> bool:
        """Whether the images are in more than one split."""
        query = "SELECT count(DISTINCT split) FROM image"
        return int(self._database.execute(query).fetchone()[0]) > 1

    def doubled_image(self) -> list[str]:
        """Names of images with the same key, of one key at most."""
        return self._names(
            f"SELECT {_KEY} FROM image GROUP BY {_KEY} HAVING count(*) > 1",  # noqa: S608 our own words
            _KEY,
        )

    def identity_in_two_splits(self) -> list[str]:
        """Names of the images of an identity that is in several splits, of one at most."""
        columns = "source, identity"
        return self._names(
            f"SELECT {columns} FROM image GROUP BY {columns} HAVING count(DISTINCT split) > 1",  # noqa: S608 our own words
            columns,
        )

    def _names(self, keys: str, columns: str) -> list[str]:
        rows = self._database.execute(
            f"SELECT name FROM image WHERE ({columns}) IN "  # noqa: S608 our own words
            f"(SELECT * FROM ({keys}) ORDER BY 1, 2 LIMIT 1) ORDER BY {_KEY}, entity_id"
        )
        return [name for (name,) in rows]

    def add_calls(self, keys: Iterable[str]) -> None:
        """Remembers model calls, each once."""
        rows = ((key,) for key in keys)
        self._database.executemany("INSERT OR IGNORE INTO call VALUES (?)", rows)

    def calls(self) -> Iterator[str]:
        """The keys of all model calls, sorted."""
        return (key for (key,) in self._database.execute("SELECT key FROM call ORDER BY key"))

    def add_items(self, entity_ids: Iterable[str]) -> None:
        """Remembers entities in the order in which they stand in the release."""
        self._database.executemany("INSERT INTO item VALUES (?)", ((id_,) for id_ in entity_ids))

    def items(self) -> Iterator[str]:
        """All entities, in the order in which they were added."""
        rows = self._database.execute("SELECT entity_id FROM item ORDER BY rowid")
        return (entity_id for (entity_id,) in rows)

    def lacking(self, entity_ids: Iterable[str]) -> list[str]:
        """Those of `entity_ids` that were not added with `add_items`, sorted."""
        self._database.execute("DELETE FROM wanted")
        rows = ((id_,) for id_ in entity_ids)
        self._database.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", rows)
        query = (
            "SELECT entity_id FROM wanted WHERE entity_id NOT IN (SELECT entity_id FROM item) "
            "ORDER BY entity_id"
        )
        return [entity_id for (entity_id,) in self._database.execute(query)]

    def add_held(self, digests: Iterable[str]) -> None:
        """Remembers digests of what a release holds."""
        rows = ((digest,) for digest in digests)
        self._database.executemany("INSERT OR IGNORE INTO held VALUES (?)", rows)

    def not_held(self, words: Mapping[str, str]) -> list[str]:
        """Of digests with words for them, the words of those that were not added."""
        query = "SELECT 1 FROM held WHERE digest = ?"
        return [
            what
            for digest, what in words.items()
            if self._database.execute(query, (digest,)).fetchone() is None
        ]

    def add_listed(self, file: ReleasedFile) -> bool:
        """Remembers a file that a manifest lists; False where its path is listed already."""
        cursor = self._database.execute(
            "INSERT OR IGNORE INTO listed VALUES (?, ?, ?)",
            (file.path, file.sha256, file.size_bytes),
        )
        return cursor.rowcount == 1

    def has_listed(self) -> bool:
        """Whether a manifest lists anything."""
        return self._database.execute("SELECT 1 FROM listed LIMIT 1").fetchone() is not None

    def listed(self) -> Iterator[ReleasedFile]:
        """All listed files, by path."""
        rows = self._database.execute("SELECT path, sha256, size_bytes FROM listed ORDER BY path")
        return (ReleasedFile(path=row[0], sha256=row[1], size_bytes=row[2]) for row in rows)

    def add_found(self, file: FoundFile) -> None:
        """Remembers a file that lies in the folder."""
        self._database.execute("INSERT INTO found VALUES (?, ?)", file)

    def missing(self) -> list[ReleasedFile]:
        """What is listed and does not lie in the folder."""
        rows = self._database.execute(
            "SELECT path, sha256, size_bytes FROM listed "
            "WHERE path NOT IN (SELECT path FROM found) ORDER BY path"
        )
        return [ReleasedFile(path=row[0], sha256=row[1], size_bytes=row[2]) for row in rows]

    def extra(self) -> list[FoundFile]:
        """What lies in the folder and is not listed."""
        rows = self._database.execute(
            "SELECT path, size_bytes FROM found "
            "WHERE path NOT IN (SELECT path FROM listed) ORDER BY path"
        )
        return [FoundFile(*row) for row in rows]

    def present(self) -> Iterator[tuple[ReleasedFile, int]]:
        """What is listed and lies in the folder, with its size there."""
        rows = self._database.execute(
            "SELECT listed.path, sha256, listed.size_bytes, found.size_bytes "
            "FROM listed JOIN found ON listed.path = found.path ORDER BY listed.path"
        )
        for path, sha256, listed_bytes, found_bytes in rows:
            yield ReleasedFile(path=path, sha256=sha256, size_bytes=listed_bytes), found_bytes
