"""What a build and a verification must remember, on disk: memory does not grow with the rows."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from release.rows import RowKey
from schemas.release import ReleasedFile

_TABLES = """
    PRAGMA journal_mode=OFF;
    PRAGMA synchronous=OFF;
    CREATE TABLE image (split, source, identity, file_path, entity_id, name, anchor_id);
    CREATE INDEX image_by_id ON image (entity_id);
    CREATE INDEX image_by_anchor ON image (anchor_id) WHERE anchor_id IS NOT NULL;
    CREATE TABLE shown (kind, digest, place, name, PRIMARY KEY (kind, digest, place)) WITHOUT ROWID;
    CREATE TABLE credit (licence, number, file_path, creator, source_url, source, own);
    CREATE TABLE call (key PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE item (entity_id);
    CREATE TABLE held (digest PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE wanted (entity_id PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE listed (
        path PRIMARY KEY, sha256, size_bytes, entity_id, times DEFAULT 1
    ) WITHOUT ROWID;
    CREATE TABLE row_image (path PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE found (path PRIMARY KEY, size_bytes) WITHOUT ROWID;
"""
_IS_IMAGE = "(entity_id IS NOT NULL OR path LIKE 'images/%')"
_LISTED = "path, sha256, size_bytes, entity_id"
_KEY = "split, source, identity, file_path"
_BESIDE = "image LEFT JOIN image AS anchor ON anchor.entity_id = image.anchor_id"
_GROUPED = ", ".join(
    [
        *(f"coalesce(anchor.{one}, image.{one})" for one in _KEY.split(", ")),
        "image.anchor_id IS NOT NULL",
        *(f"image.{one}" for one in _KEY.split(", ")),
    ]
)
"""A group after the other, each with its anchor first; what has no anchor is a group of its own."""


class FoundFile(NamedTuple):
    """A file that lies in a folder; `path` is relative to it."""

    path: str
    size_bytes: int


class ListedImage(NamedTuple):
    """What a manifest lists of the file of an image."""

    sha256: str
    entity_id: str | None


class Credit(NamedTuple):
    """An image and its terms, which are its `own`, or those of its source."""

    licence: str
    number: int
    file_path: str
    creator: str | None
    source_url: str | None
    source: str
    own: bool


class Scratch:
    """Lists that are sorted, compared and read again, in a database that nobody else sees.

    `file` must be new; without one, the lists are in a temporary file that the system removes.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._database = sqlite3.connect(file or "")
        self._database.executescript(_TABLES)

    def close(self) -> None:
        """Lets go of the database."""
        self._database.close()

    def add_image(
        self, key: RowKey, entity_id: str, name: str, anchor_id: str | None = None
    ) -> None:
        """Remembers an image; `name` is what messages call it, `anchor_id` what it differs from."""
        self._database.execute(
            "INSERT INTO image VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, entity_id, name, anchor_id)
        )

    def images(self) -> Iterator[str]:
        """The entity ids of all images, in the order of their keys.

        Contrastive images follow their anchor, those without one in their own place.
        """
        query = f"SELECT image.entity_id FROM {_BESIDE} ORDER BY {_GROUPED}"  # noqa: S608 our own words
        return (entity_id for (entity_id,) in self._database.execute(query))

    def has_contrasts(self, anchor_id: str) -> bool:
        """Whether any image differs from this one."""
        query = "SELECT 1 FROM image WHERE anchor_id = ? LIMIT 1"
        return self._database.execute(query, (anchor_id,)).fetchone() is not None

    def apart_from_anchor(self) -> list[str]:
        """Names of contrastive images in another split than their anchor's, sorted."""
        return self._beside("anchor.split <> image.split")

    def chained_contrasts(self) -> list[str]:
        """Names of contrastive images whose anchor is a contrastive image itself, sorted."""
        return self._beside("anchor.anchor_id IS NOT NULL")

    def _beside(self, condition: str) -> list[str]:
        query = f"SELECT image.name FROM {_BESIDE} WHERE {condition} ORDER BY image.name"  # noqa: S608 our own words
        return [name for (name,) in self._database.execute(query)]

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
        """Remembers entities in the order of the release."""
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

    def add_shown(self, digests: Iterable[tuple[str, str]], place: int, name: str) -> None:
        """Remembers what stands at a place with this name: digests, each with its kind."""
        rows = ((*one, place, name) for one in digests)
        self._database.executemany("INSERT OR IGNORE INTO shown VALUES (?, ?, ?, ?)", rows)

    def count_repeats(self, kind: str) -> int:
        """How many of what was remembered stand at another place too, counted at every place."""
        query = (
            "SELECT coalesce(sum(places), 0) FROM (SELECT count(*) AS places FROM shown "
            "WHERE kind = ? GROUP BY digest HAVING count(*) > 1)"
        )
        return int(self._database.execute(query, (kind,)).fetchone()[0])

    def repeated_pairs(self, kind: str, most: int) -> tuple[tuple[str, str], ...]:
        """The names of the first two places of the first digests that stand at several."""
        query = (
            "SELECT digest FROM shown WHERE kind = ? "
            "GROUP BY digest HAVING count(*) > 1 ORDER BY min(place), digest LIMIT ?"
        )
        names = "SELECT name FROM shown WHERE kind = ? AND digest = ? ORDER BY place LIMIT 2"
        pairs = []
        for (digest,) in self._database.execute(query, (kind, most)).fetchall():
            (first,), (second,) = self._database.execute(names, (kind, digest))
            pairs.append((first, second))
        return tuple(pairs)

    def add_credit(self, credit: Credit) -> None:
        """Remembers the credit of an image."""
        self._database.execute("INSERT INTO credit VALUES (?, ?, ?, ?, ?, ?, ?)", credit)

    def credits(self) -> Iterator[Credit]:
        """What was remembered, by licence, each in the order of the images."""
        rows = self._database.execute("SELECT * FROM credit ORDER BY licence, number")
        return (Credit._make((*row[:-1], bool(row[-1]))) for row in rows)

    def add_listed(self, file: ReleasedFile) -> None:
        """Remembers a file that a manifest lists; of those with one path, the first."""
        self.add_all_listed([file])

    def add_all_listed(self, files: Iterable[ReleasedFile]) -> None:
        """Remembers files that a manifest lists; of those with one path, the first."""
        self._database.executemany(
            f"INSERT INTO listed ({_LISTED}) VALUES (?, ?, ?, ?) "  # noqa: S608 our own words
            "ON CONFLICT DO UPDATE SET times = times + 1",
            files,
        )

    def listed_again(self) -> list[str]:
        """The paths that are listed more than once, sorted."""
        rows = self._database.execute("SELECT path FROM listed WHERE times > 1 ORDER BY path")
        return [path for (path,) in rows]

    def has_listed(self) -> bool:
        """Whether a manifest lists anything."""
        return self._database.execute("SELECT 1 FROM listed LIMIT 1").fetchone() is not None

    def listed(self) -> Iterator[ReleasedFile]:
        """All listed files, by path."""
        rows = self._database.execute(f"SELECT {_LISTED} FROM listed ORDER BY path")  # noqa: S608 our own words
        return map(ReleasedFile._make, rows)

    def listed_outside(self, folder: str) -> list[str]:
        """The paths of the listed files that do not lie below `folder`, sorted."""
        query = "SELECT path FROM listed WHERE substr(path, 1, ?) <> ? ORDER BY path"
        return [path for (path,) in self._database.execute(query, (len(folder) + 1, f"{folder}/"))]

    def listed_file(self, path: str) -> ReleasedFile | None:
        """What a manifest lists of this file; None where it does not."""
        query = f"SELECT {_LISTED} FROM listed WHERE path = ?"  # noqa: S608 our own words
        row = self._database.execute(query, (path,)).fetchone()
        return row and ReleasedFile._make(row)

    def listed_in(self, folder: str) -> list[ReleasedFile]:
        """The listed files below `folder`, by path."""
        query = f"SELECT {_LISTED} FROM listed WHERE path > ? AND path < ? ORDER BY path"  # noqa: S608 our own words
        rows = self._database.execute(query, (f"{folder}/", f"{folder}0"))  # what follows a slash
        return list(map(ReleasedFile._make, rows))

    def is_listed(self, path: str) -> bool:
        """Whether a manifest lists this file."""
        return self.listed_file(path) is not None

    def listed_among(self, paths: Sequence[str]) -> dict[str, ListedImage]:
        """Those of `paths` that are listed."""
        places = ", ".join("?" * len(paths))
        query = f"SELECT path, sha256, entity_id FROM listed WHERE path IN ({places})"  # noqa: S608 question marks
        return {path: ListedImage(*rest) for path, *rest in self._database.execute(query, paths)}

    def count_listed_images(self) -> int:
        """How many files are listed as images."""
        query = f"SELECT count(*) FROM listed WHERE {_IS_IMAGE}"  # noqa: S608 our own words
        return int(self._database.execute(query).fetchone()[0])

    def images_without_row(self, shown: Iterable[str]) -> list[str]:
        """The paths of files that are listed as images and are not among `shown`, sorted."""
        places = ((path,) for path in shown)
        self._database.executemany("INSERT OR IGNORE INTO row_image VALUES (?)", places)
        query = (
            f"SELECT path FROM listed WHERE {_IS_IMAGE} "  # noqa: S608 our own words
            "AND path NOT IN (SELECT path FROM row_image) ORDER BY path"
        )
        return [path for (path,) in self._database.execute(query)]

    def add_all_found(self, files: Iterable[FoundFile]) -> None:
        """Remembers files that lie in the folder."""
        self._database.executemany("INSERT INTO found VALUES (?, ?)", files)

    def missing(self) -> list[ReleasedFile]:
        """What is listed and does not lie in the folder."""
        rows = self._database.execute(
            f"SELECT {_LISTED} FROM listed "  # noqa: S608 our own words
            "WHERE path NOT IN (SELECT path FROM found) ORDER BY path"
        )
        return list(map(ReleasedFile._make, rows))

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
            "SELECT listed.path, sha256, listed.size_bytes, entity_id, found.size_bytes "
            "FROM listed JOIN found ON listed.path = found.path ORDER BY listed.path"
        )
        for *listed, found_bytes in rows:
            yield ReleasedFile._make(listed), found_bytes
