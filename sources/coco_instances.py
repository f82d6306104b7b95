"""COCO instances: what is on an image, counted, as facts for its captions."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.json_stream import Element, stream_sections
from schemas.records import Attribution, Split
from sources.annotation_file import read_elements
from sources.coco import split_in_name
from sources.fields import (
    MISSING,
    Field,
    FieldError,
    bad_row,
    checked_caption,
    checked_identity,
    checked_object,
    checked_path,
)
from sources.records import BadRow, ReadOptions, Row, SourceRow
from sources.terms import ImporterTerms

if TYPE_CHECKING:
    import inflect


# Sentences that say how many of a thing there are.

_IN_PAIRS = frozenset({"skis", "scissors", "glasses", "sunglasses", "trousers", "jeans", "shorts"})
_WITHOUT_NUMBER = frozenset({"broccoli", "grass", "water", "bread", "fruit", "food", "furniture"})
_SPELLED = {"tv": "TV"}
_WORDS_UP_TO = 12


def there_are(name: str, count: int | None) -> str:
    """`There are two dogs.`; None is for many that nobody counted."""
    name = _SPELLED.get(name, name)
    if name in _WITHOUT_NUMBER:
        return f"There is {name}."
    if name in _IN_PAIRS:
        return _there_are_pairs(name, count)
    if count is None:
        return f"There are many {_words().plural_noun(name)}."
    if count == 1:
        return f"There is {_words().a(name)}."
    return f"There are {_number(count)} {_words().plural_noun(name)}."


def _there_are_pairs(name: str, count: int | None) -> str:
    if count == 1:
        return f"There is a pair of {name}."
    return f"There are {'many' if count is None else _number(count)} pairs of {name}."


def _number(count: int) -> str:
    return str(_words().number_to_words(count)) if count <= _WORDS_UP_TO else str(count)


@cache
def _words() -> "inflect.engine":
    import inflect

    return inflect.engine()


# COCO instances: images with what they show and how often; no captions.

_KNOWN = {
    "images": frozenset({"file_name"}),
    "annotations": frozenset({"category_id"}),
    "categories": frozenset({"name"}),
    "licenses": frozenset({"name", "url"}),
}
_OPTIONAL = frozenset({"licenses"})


class CocoInstancesImporter(ImporterTerms):
    """Joins images, instances, categories and licences on disk, in whichever order they come.

    Each image is its own identity; the file is one split, as that of `CocoImporter`. An image may
    have no instance: then nothing is known of it.
    """

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """First what is bad in the file's order, then one row for each good image.

        Raises:
            FormatError: the file is not of this format.
        """
        options = options or ReadOptions()
        with closing(_Join(path.name, options)) as join:
            elements = read_elements(
                path, self.format, stream_sections, _KNOWN, options, optional=_OPTIONAL
            )
            for element in elements:
                if isinstance(element, BadRow):
                    yield element
                    continue
                try:
                    join.add(element)
                except FieldError as fault:
                    yield bad_row(
                        fault,
                        path.name,
                        element.index,
                        element.value,
                        fact=element.section != "images",
                    )
            yield from join.orphans()
            yield from join.rows(options.split or split_in_name(path.name))


class _Join:
    """What the file lists, in a temporary SQLite database, which spills to disk as it grows."""

    def __init__(self, file: str, options: ReadOptions) -> None:
        self._file = file
        self._options = options
        self._tables = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._tables.executescript("""
            CREATE TABLE image (
                place INTEGER PRIMARY KEY, id TEXT UNIQUE, path TEXT, licence TEXT, url TEXT);
            CREATE TABLE instance (
                place INTEGER PRIMARY KEY, image TEXT, category TEXT, area REAL, crowd INTEGER);
            CREATE TABLE category (id TEXT PRIMARY KEY, name TEXT);
            CREATE TABLE licence (id TEXT PRIMARY KEY, terms TEXT);
            CREATE TABLE miscounted (image TEXT PRIMARY KEY);
            BEGIN;
        """)

    def close(self) -> None:
        """Ends the database and frees its disk space."""
        self._tables.close()

    def add(self, element: Element) -> None:
        """Keeps one checked image, instance, category or licence.

        Raises:
            FieldError: it breaks a rule.
        """
        at = f"{element.section}[{element.index}]"
        record = checked_object(element.value)
        match element.section:
            case "images":
                self._add_image(at, element.index, record)
            case "annotations":
                self._add_instance(at, element.index, record)
            case "categories":
                self._add_named(at, record, "category", self._text(at, record, "name"))
            case _:
                self._add_named(at, record, "licence", self._terms(at, record))

    def _add_image(self, at: str, place: int, record: dict[str, Any]) -> None:
        identity = checked_identity(_field(at, record, "id"))
        path = checked_path(_field(at, record, "file_name"))
        licence = _id_or_none(record.get("license"))
        url = _url(record, "flickr_url", "coco_url")
        added = self._tables.execute(
            "INSERT OR IGNORE INTO image VALUES (?, ?, ?, ?, ?)",
            (place, identity, path, licence, url),
        )
        if added.rowcount == 0:
            detail = f"{at}.id repeats the id {identity} of an image before it, wanted its own"
            raise FieldError(f"{at}.id", "duplicate_image", detail)

    def _add_instance(self, at: str, place: int, record: dict[str, Any]) -> None:
        image = checked_identity(_field(at, record, "image_id"))
        try:
            category = checked_identity(_field(at, record, "category_id"))
        except FieldError:
            self._miscounted(image)
            raise
        self._tables.execute(
            "INSERT INTO instance VALUES (?, ?, ?, ?, ?)",
            (place, image, category, _area(record), int(bool(record.get("iscrowd")))),
        )

    def _add_named(self, at: str, record: dict[str, Any], table: str, name: str) -> None:
        identity = checked_identity(_field(at, record, "id"))
        added = self._tables.execute(
            f"INSERT OR IGNORE INTO {table} VALUES (?, ?)",  # noqa: S608 - one of two names
            (identity, name),
        )
        if added.rowcount == 0:
            detail = f"{at}.id repeats the id {identity} of one before it, wanted its own"
            raise FieldError(f"{at}.id", f"duplicate_{table}", detail)

    def _text(self, at: str, record: dict[str, Any], key: str) -> str:
        return checked_caption(_field(at, record, key), self._options)

    def _terms(self, at: str, record: dict[str, Any]) -> str:
        name = self._text(at, record, "name")
        url = _url(record, "url")
        return f"{name} ({url})" if url else name

    def _miscounted(self, image: str) -> None:
        self._tables.execute("INSERT OR IGNORE INTO miscounted VALUES (?)", (image,))

    def orphans(self) -> Iterator[BadRow]:
        """One bad row for each good instance whose image or category is not there."""
        lost = "image NOT IN (SELECT id FROM image) OR category NOT IN (SELECT id FROM category)"
        self._tables.execute(
            f"INSERT OR IGNORE INTO miscounted SELECT image FROM instance WHERE {lost}"  # noqa: S608
        )
        found = self._tables.execute(
            "SELECT place, image, category, image IN (SELECT id FROM image) "  # noqa: S608
            f"FROM instance WHERE {lost} ORDER BY place"
        )
        for place, image, category, has_image in found:
            what, got = ("category", category) if has_image else ("image", image)
            field = f"annotations[{place}].{what}_id"
            detail = f"{field} names no {what} that can be used: got {got}, wanted one of the list"
            fault = FieldError(field, f"unknown_{what}", detail)
            record = {"image_id": image, "category_id": category}
            yield bad_row(fault, self._file, place, record, fact=True)

    def rows(self, split: Split) -> Iterator[Row]:
        """The images with what is known of them, in the file's order."""
        self._tables.execute("CREATE INDEX instance_of_image ON instance (image)")
        for place, identity, path, terms, url, is_miscounted in self._tables.execute(
            "SELECT place, image.id, path, terms, url, "
            "image.id IN (SELECT image FROM miscounted) FROM image "
            "LEFT JOIN licence ON licence.id = image.licence ORDER BY place"
        ):
            things = self._things(identity)
            yield SourceRow(
                index=place,
                identity=identity,
                split=split,
                file_path=path,
                captions=(),
                positions=(),
                facts=() if is_miscounted else tuple(there_are(*thing) for thing in things),
                categories=tuple(name for name, _ in things),
                attribution=Attribution(licence=terms, source_url=url) if terms else None,
            )

    def _things(self, image: str) -> list[tuple[str, int | None]]:
        """Categories and how often each is there, the one that takes most of the picture first."""
        found = self._tables.execute(
            "SELECT name, count(*), max(crowd) FROM instance "
            "JOIN category ON category.id = instance.category WHERE image = ? "
            "GROUP BY name ORDER BY sum(area) DESC, name",
            (image,),
        )
        return [(name, None if is_crowd else count) for name, count, is_crowd in found]


def _field(at: str, record: dict[str, Any], key: str) -> Field:
    return Field(f"{at}.{key}", record.get(key, MISSING))


def _id_or_none(value: Any) -> str | None:
    return str(value) if isinstance(value, int | str) and not isinstance(value, bool) else None


def _url(record: dict[str, Any], *keys: str) -> str | None:
    """The first of these fields that is an address; anything else is passed over."""
    found = (record.get(key) for key in keys)
    texts = (one for one in found if isinstance(one, str) and one.isascii() and one.isprintable())
    return next((one for one in texts if one.startswith(("http://", "https://"))), None)


def _area(record: dict[str, Any]) -> float:
    """How many pixels² an instance takes; 0 where that is not stated, as it only orders facts."""
    value = record.get("area")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e12 and math.isfinite(value) else 0.0


COCO_INSTANCES = CocoInstancesImporter(
    format="coco-instances",
    licence="Annotations CC BY 4.0; images under the Flickr terms of their authors",
    citation=(
        "Lin, Maire, Belongie, Hays, Perona, Ramanan, Dollár, Zitnick: Microsoft COCO: Common "
        "Objects in Context. ECCV 2014"
    ),
    homepage="https://cocodataset.org",
)
