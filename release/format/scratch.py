"""Temporary data of a build or verification, on disk so that memory does not grow with the rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from loupe.schemas.base import sha256_of
from loupe.schemas.grouping import grouped
from loupe.schemas.processes import scratch_database
from loupe.schemas.release import Credit, ReleasedFile, RepeatStatistics

_TABLES = """
    CREATE TABLE image (split, source, identity, file_path, entity_id, name, anchor_id);
    CREATE INDEX image_by_id ON image (entity_id);
    CREATE INDEX image_by_anchor ON image (anchor_id) WHERE anchor_id IS NOT NULL;
    CREATE TABLE credit (licence, number, file_path, creator, source_url, source, own);
    CREATE TABLE repeatable (is_image, digest, identity, file_path);
    CREATE TABLE call (key PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE item (entity_id);
    CREATE TABLE listed (
        path PRIMARY KEY, sha256, size_bytes, entity_id, times DEFAULT 1
    ) WITHOUT ROWID;
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
"""Group by group, with the anchor first; an image without an anchor is its own group."""


def _first_group(columns: str, condition: str) -> str:
    """A query for the names of the images of the first group that meets a condition."""
    return (
        f"SELECT name FROM image WHERE ({columns}) IN ("  # noqa: S608 our own words
        f"SELECT {columns} FROM image GROUP BY {columns} HAVING {condition} ORDER BY 1, 2 LIMIT 1"
        f") ORDER BY {_KEY}, entity_id"
    )


_DISORDER = {
    "one image of a source more than once; withdraw all but one": _first_group(
        _KEY, "count(*) > 1"
    ),
    "one identity in several splits": _first_group("source, identity", "count(DISTINCT split) > 1"),
    "contrastive images in another split than their anchor": (
        f"SELECT image.name FROM {_BESIDE} WHERE anchor.split <> image.split ORDER BY 1"  # noqa: S608 our own words
    ),
    "contrastive images whose anchor is also contrastive": (
        f"SELECT image.name FROM {_BESIDE} WHERE anchor.anchor_id IS NOT NULL ORDER BY 1"  # noqa: S608 our own words
    ),
}
"""Queries for images that no release can have, by what is wrong with them."""


SHOWN = 5
"""The number of repeated images and of repeated captions for which two files are named."""


def _first_pairs(repeated: Iterable[list[str]]) -> tuple[tuple[str, str], ...]:
    """The first two files with each value, each pair once."""
    return tuple(dict.fromkeys((one, other) for one, other, *_ in repeated))[:SHOWN]


def _digest(text: str) -> str:
    return sha256_of(" ".join(text.split()).casefold().encode("utf-8", "surrogatepass"))


ImageKey = tuple[int, bytes, bytes, bytes]
"""What images are sorted by: a `RowKey`, as plain values."""


class FoundFile(NamedTuple):
    """A file in a folder; `path` is relative to it."""

    path: str
    size_bytes: int


class Scratch:
    """Lists that are sorted, compared and read again, in a private database.

    `file` must be new; without one, a temporary file is used, which the system removes.
    """

    def __init__(self, file: Path | str = "") -> None:
        self._database = scratch_database(_TABLES, file)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _column(self, query: str, *values: object) -> Iterator[str]:
        """The only column of the results of a query."""
        return (value for (value,) in self._database.execute(query, values))

    def _number(self, query: str, *values: object) -> int:
        (number,) = self._database.execute(query, values).fetchone()
        return int(number)

    def _remember(self, table: str, texts: Iterable[str]) -> None:
        """Add texts to a table of one column, once each if the column is its key."""
        insert = f"INSERT OR IGNORE INTO {table} VALUES (?)"  # noqa: S608 our own words
        self._database.executemany(insert, ((text,) for text in texts))

    def add_image(
        self,
        key: ImageKey,
        entity_id: str,
        name: str,
        anchor_id: str | None = None,
    ) -> None:
        """Add an image by its `RowKey`.

        `name` is used in messages, `anchor_id` is the entity of its anchor.
        """
        self._database.execute(
            "INSERT INTO image VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, entity_id, name, anchor_id)
        )

    def images(self) -> Iterator[str]:
        """The entity ids of all images, in the order of their keys.

        Contrastive images follow their anchor; those without an anchor are in their own position.
        """
        return self._column(f"SELECT image.entity_id FROM {_BESIDE} ORDER BY {_GROUPED}")  # noqa: S608 our own words

    def reorder(self, key_of: Callable[[ImageKey], ImageKey]) -> None:
        """Order the images by other keys, made of their present ones."""
        rows = self._database.execute(f"SELECT rowid, {_KEY} FROM image").fetchall()  # noqa: S608 our own words
        keys = ((*key_of(tuple(key)), number) for number, *key in rows)
        self._database.executemany(
            "UPDATE image SET split = ?, source = ?, identity = ?, file_path = ? WHERE rowid = ?",
            keys,
        )

    def has_contrasts(self, anchor_id: str) -> bool:
        """Whether any image has this one as its anchor."""
        query = "SELECT EXISTS (SELECT 1 FROM image WHERE anchor_id = ?)"
        return bool(self._number(query, anchor_id))

    def count_images(self) -> int:
        """The number of images."""
        return self._number("SELECT count(*) FROM image")

    def has_several_splits(self) -> bool:
        """Whether the images are in more than one split."""
        return self._number("SELECT count(DISTINCT split) FROM image") > 1

    def disorder(self) -> Iterator[tuple[str, list[str]]]:
        """What is wrong with the images, and the names of those concerned, sorted."""
        for what, query in _DISORDER.items():
            if names := list(self._column(query)):
                yield what, names

    def add_repeatable(
        self, identity: int, file_path: str, sha256: str, captions: Iterable[str]
    ) -> None:
        """Add the next image with its captions; equal captions of one image count once."""
        digests = dict.fromkeys(_digest(text) for text in captions)
        rows = [(True, sha256), *((False, digest) for digest in digests)]
        self._database.executemany(
            "INSERT INTO repeatable VALUES (?, ?, ?, ?)",
            ((*row, identity, file_path) for row in rows),
        )

    def repeats(self) -> RepeatStatistics:
        """The images and captions that several identities have.

        Images are equal by their SHA-256; captions by their words, ignoring letter case and white
        space.
        """
        self._database.execute(
            "CREATE INDEX IF NOT EXISTS repeated ON repeatable (is_image, digest, identity)"
        )
        images, captions = self._repeated(is_image=True), self._repeated(is_image=False)
        return RepeatStatistics(
            images=sum(map(len, images)),
            captions=sum(map(len, captions)),
            image_pairs=_first_pairs(images),
            caption_pairs=_first_pairs(captions),
        )

    def _repeated(self, *, is_image: bool) -> list[list[str]]:
        """The files of each image or caption of several identities, the first in order first."""
        found = self._database.execute(
            "SELECT digest, file_path FROM repeatable WHERE is_image = ?1 AND digest IN ("
            "SELECT digest FROM repeatable WHERE is_image = ?1 GROUP BY digest "
            "HAVING count(DISTINCT identity) > 1) ORDER BY rowid",
            (is_image,),
        )
        return list(grouped(found).values())

    def add_calls(self, keys: Iterable[str]) -> None:
        """Add model calls, once each."""
        self._remember("call", keys)

    def calls(self) -> Iterator[str]:
        """The keys of all model calls, sorted."""
        return self._column("SELECT key FROM call ORDER BY key")

    def add_items(self, entity_ids: Iterable[str]) -> None:
        """Add entities in the order of the release."""
        self._remember("item", entity_ids)

    def items(self) -> Iterator[str]:
        """All entities, in the order in which they were added."""
        return self._column("SELECT entity_id FROM item ORDER BY rowid")

    def add_credit(self, credit: Credit) -> None:
        """Add the credit of an image."""
        self._database.execute("INSERT INTO credit VALUES (?, ?, ?, ?, ?, ?, ?)", credit)

    def credits(self) -> Iterator[Credit]:
        """All credits by licence, each in the order of the images."""
        rows = self._database.execute("SELECT * FROM credit ORDER BY licence, number")
        return (Credit._make((*row[:-1], bool(row[-1]))) for row in rows)

    def add_listed(self, file: ReleasedFile) -> None:
        """Add a file that a manifest lists; the first entry of a path counts."""
        self.add_all_listed([file])

    def add_all_listed(self, files: Iterable[ReleasedFile]) -> None:
        """Add files that a manifest lists; the first entry of a path counts."""
        self._database.executemany(
            f"INSERT INTO listed ({_LISTED}) VALUES (?, ?, ?, ?) "  # noqa: S608 our own words
            "ON CONFLICT DO UPDATE SET times = times + 1",
            files,
        )

    def _files(self, condition: str, *values: str) -> Iterator[ReleasedFile]:
        """The listed files that meet a condition, by path."""
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
        """The paths of the listed files outside of `folder`, sorted."""
        return [file.path for file in self._files("path NOT GLOB ?", f"{folder}/*")]

    def listed_file(self, path: str) -> ReleasedFile | None:
        """The manifest's entry for this file; None if it has none."""
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
        """The number of files listed as images."""
        return self._number(f"SELECT count(*) FROM listed WHERE {_IS_IMAGE}")  # noqa: S608 our own words

    def images_without_row(self, shown: Iterable[str]) -> list[str]:
        """The paths of files that are listed as images but not among `shown`, sorted."""
        paths = set(shown)
        return [file.path for file in self._files(_IS_IMAGE) if file.path not in paths]

    def add_all_found(self, files: Iterable[FoundFile]) -> None:
        """Add files found in the folder."""
        self._database.executemany("INSERT OR IGNORE INTO found VALUES (?, ?)", files)

    def missing(self) -> list[ReleasedFile]:
        """Listed files that are not in the folder."""
        return list(self._files("path NOT IN (SELECT path FROM found)"))

    def extra(self) -> list[FoundFile]:
        """Files in the folder that are not listed."""
        query = "SELECT * FROM found WHERE path NOT IN (SELECT path FROM listed) ORDER BY path"
        return [FoundFile(*row) for row in self._database.execute(query)]

    def present(self) -> Iterator[ReleasedFile]:
        """Listed files that are in the folder."""
        return self._files("path IN (SELECT path FROM found)")
