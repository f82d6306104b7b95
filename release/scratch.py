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

    def _column(self, query: str, *values: object) -> Iterator[str]:
        """The only column of what a query finds."""
        return (value for (value,) in self._database.execute(query, values))

    def _number(self, query: str, *values: object) -> int:
        (number,) = self._database.execute(query, values).fetchone()
        return int(number)

    def _remember(self, table: str, texts: Iterable[str]) -> None:
        """Adds texts to a table of one column, each once where that is its key."""
        insert = f"INSERT OR IGNORE INTO {table} VALUES (?)"  # noqa: S608 our own words
        self._database.executemany(insert, ((text,) for text in texts))

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
        return self._column(f"SELECT image.entity_id FROM {_BESIDE} ORDER BY {_GROUPED}")  # noqa: S608 our own words

    def has_contrasts(self, anchor_id: str) -> bool:
        """Whether any image differs from this one."""
        query = "SELECT EXISTS (SELECT 1 FROM image WHERE anchor_id = ?)"
        return bool(self._number(query, anchor_id))

    def apart_from_anchor(self) -> list[str]:
        """Names of contrastive images in another split than their anchor's, sorted."""
        return self._beside("anchor.split <> image.split")

    def chained_contrasts(self) -> list[str]:
        """Names of contrastive images whose anchor is a contrastive image itself, sorted."""
        return self._beside("anchor.anchor_id IS NOT NULL")

    def _beside(self, condition: str) -> list[str]:
        query = f"SELECT image.name FROM {_BESIDE} WHERE {condition} ORDER BY image.name"  # noqa: S608 our own words
        return list(self._column(query))

    def count_images(self) -> int:
        """How many images there are."""
        return self._number("SELECT count(*) FROM image")

    def has_several_splits(self) -> bool:
        """Whether the images are in more than one split."""
        return self._number("SELECT count(DISTINCT split) FROM image") > 1

    def doubled_image(self) -> list[str]:
        """Names of images with the same key, of one key at most."""
        return self._names(_KEY, "count(*) > 1")

    def identity_in_two_splits(self) -> list[str]:
        """Names of the images of an identity that is in several splits, of one at most."""
        return self._names("source, identity", "count(DISTINCT split) > 1")

    def _names(self, columns: str, condition: str) -> list[str]:
        """Names of the images of the first group by some columns of which a condition holds."""
        keys = f"SELECT {columns} FROM image GROUP BY {columns} HAVING {condition}"  # noqa: S608 our own words
        query = (
            f"SELECT name FROM image WHERE ({columns}) IN "  # noqa: S608 our own words
            f"(SELECT * FROM ({keys}) ORDER BY 1, 2 LIMIT 1) ORDER BY {_KEY}, entity_id"
        )
        return list(self._column(query))

    def add_calls(self, keys: Iterable[str]) -> None:
        """Remembers model calls, each once."""
        self._remember("call", keys)

    def calls(self) -> Iterator[str]:
        """The keys of all model calls, sorted."""
        return self._column("SELECT key FROM call ORDER BY key")

    def add_items(self, entity_ids: Iterable[str]) -> None:
        """Remembers entities in the order of the release."""
        self._remember("item", entity_ids)

    def items(self) -> Iterator[str]:
        """All entities, in the order in which they were added."""
        return self._column("SELECT entity_id FROM item ORDER BY rowid")

    def lacking(self, entity_ids: Iterable[str]) -> list[str]:
        """Those of `entity_ids` that were not added with `add_items`, sorted."""
        self._database.execute("DELETE FROM wanted")
        self._remember("wanted", entity_ids)
        return list(
            self._column("SELECT * FROM wanted EXCEPT SELECT entity_id FROM item ORDER BY 1")
        )

    def add_held(self, digests: Iterable[str]) -> None:
        """Remembers digests of what a release holds."""
        self._remember("held", digests)

    def not_held(self, words: Mapping[str, str]) -> list[str]:
        """Of digests with words for them, the words of those that were not added."""
        query = "SELECT EXISTS (SELECT 1 FROM held WHERE digest = ?)"
        return [what for digest, what in words.items() if not self._number(query, digest)]

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
        return self._number(query, kind)

    def repeated_pairs(self, kind: str, most: int) -> tuple[tuple[str, str], ...]:
        """The names of the first two places of the first digests that stand at several."""
        query = (
            "SELECT digest FROM shown WHERE kind = ? "
            "GROUP BY digest HAVING count(*) > 1 ORDER BY min(place), digest LIMIT ?"
        )
        names = "SELECT name FROM shown WHERE kind = ? AND digest = ? ORDER BY place LIMIT 2"
        pairs = []
        for digest in list(self._column(query, kind, most)):
            first, second = self._column(names, kind, digest)
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

    def _files(self, condition: str, *values: str) -> Iterator[ReleasedFile]:
        """The listed files of which a condition holds, by path."""
        query = f"SELECT {_LISTED} FROM listed WHERE {condition} ORDER BY path"  # noqa: S608 our own words
        return map(ReleasedFile._make, self._database.execute(query, values))

    def listed_again(self) -> list[str]:
        """The paths that are listed more than once, sorted."""
        return [file.path for file in self._files("times > 1")]

    def has_listed(self) -> bool:
        """Whether a manifest lists anything."""
        return bool(self._number("SELECT EXISTS (SELECT 1 FROM listed)"))

    def listed(self) -> Iterator[ReleasedFile]:
        """All listed files, by path."""
        return self._files("true")

    def listed_outside(self, folder: str) -> list[str]:
        """The paths of the listed files that do not lie below `folder`, sorted."""
        return [file.path for file in self._files("path NOT GLOB ?", f"{folder}/*")]

    def listed_file(self, path: str) -> ReleasedFile | None:
        """What a manifest lists of this file; None where it does not."""
        return next(self._files("path = ?", path), None)

    def listed_in(self, folder: str) -> list[ReleasedFile]:
        """The listed files below `folder`, by path."""
        return list(self._files("path > ? AND path < ?", f"{folder}/", f"{folder}0"))

    def is_listed(self, path: str) -> bool:
        """Whether a manifest lists this file."""
        return self.listed_file(path) is not None

    def listed_among(self, paths: Sequence[str]) -> dict[str, ReleasedFile]:
        """Those of `paths` that are listed."""
        places = ", ".join("?" * len(paths))
        return {file.path: file for file in self._files(f"path IN ({places})", *paths)}

    def count_listed_images(self) -> int:
        """How many files are listed as images."""
        return self._number(f"SELECT count(*) FROM listed WHERE {_IS_IMAGE}")  # noqa: S608 our own words

    def images_without_row(self, shown: Iterable[str]) -> list[str]:
        """The paths of files that are listed as images and are not among `shown`, sorted."""
        self._remember("row_image", shown)
        without = f"{_IS_IMAGE} AND path NOT IN (SELECT path FROM row_image)"  # noqa: S608 our own words
        return [file.path for file in self._files(without)]

    def add_all_found(self, files: Iterable[FoundFile]) -> None:
        """Remembers files that lie in the folder."""
        self._database.executemany("INSERT INTO found VALUES (?, ?)", files)

    def missing(self) -> list[ReleasedFile]:
        """What is listed and does not lie in the folder."""
        return list(self._files("path NOT IN (SELECT path FROM found)"))

    def extra(self) -> list[FoundFile]:
        """What lies in the folder and is not listed."""
        query = "SELECT * FROM found WHERE path NOT IN (SELECT path FROM listed) ORDER BY path"
        return [FoundFile(*row) for row in self._database.execute(query)]

    def present(self) -> Iterator[ReleasedFile]:
        """What is listed and lies in the folder."""
        return self._files("path IN (SELECT path FROM found)")
