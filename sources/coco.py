"""COCO's files: captions of images, or counted objects in an image as facts for its captions."""

import math
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from schemas.base import Split
from schemas.json_stream import Element, stream_sections
from schemas.records import Attribution
from sources.annotations import (
    MISSING,
    Field,
    FieldError,
    Importer,
    bad_row,
    checked_caption,
    checked_identity,
    checked_object,
    checked_path,
    split_in_name,
)
from sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, Scope, SourceRow

if TYPE_CHECKING:
    import inflect


class CocoImporter(Importer):
    """Joins images and their annotations on disk, because lists are unordered and may be large.

    Each image is its own identity. The file is one split: the one given by the options, else the
    one in its name (`captions_val2017.json`), else test. It `lists` captions, or instances of
    objects; an image without instances has no facts.
    """

    lists: Literal["captions", "instances"] = "captions"

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield bad rows in the file's order, then one row (or bad row) for each valid image.

        Raises:
            FormatError: the file is not of this format.
        """
        kind = _Captions if self.lists == "captions" else _Instances
        with closing(kind(path.name, options)) as join:
            for element in self.elements(
                path, stream_sections, kind.sections, options, kind.optional
            ):
                if isinstance(element, BadRow):
                    yield element
                    continue
                try:
                    join.add(element)
                except FieldError as fault:
                    scope = "record" if element.section == "images" else kind.scope
                    yield bad_row(fault, path.name, element.index, element.value, scope)
            yield from join.orphans()
            yield from join.rows(options.split or split_in_name(path.name) or "test")


class _Join(ABC):
    """The lists of a file in a temporary SQLite database, which spills to disk as it grows."""

    sections: ClassVar[Mapping[str, frozenset[str]]]
    optional: ClassVar[frozenset[str]] = frozenset()
    scope: ClassVar[Scope]
    tables: ClassVar[str]

    def __init__(self, file: str, options: ReadOptions) -> None:
        self._file = file
        self._options = options
        self._tables = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._tables.executescript(self.tables)

    def close(self) -> None:
        """Close the database and free its disk space."""
        self._tables.close()

    def add(self, element: Element) -> None:
        """Add one checked element.

        Raises:
            FieldError: it breaks a rule.
        """
        at = f"{element.section}[{element.index}]"
        record = checked_object(element.value)
        if element.section != "images":
            self._add_other(element.section, at, element.index, record)
            return
        identity = checked_identity(_field(at, record, "id"))
        path = checked_path(_field(at, record, "file_name"))
        licence, url = _terms(record)
        values = {"place": element.index, "path": path, "licence": licence, "url": url}
        self._insert("image", at, identity, values)

    def _insert(self, table: str, at: str, identity: str, values: dict[str, object]) -> None:
        names, places = ", ".join(values), ", ".join("?" * len(values))
        added = self._tables.execute(
            f"INSERT OR IGNORE INTO {table} (id, {names}) VALUES (?, {places})",  # noqa: S608
            (identity, *values.values()),
        )
        if added.rowcount == 0:
            detail = f"{at}.id repeats the id {identity} of one before it, wanted its own"
            raise FieldError(f"{at}.id", f"duplicate_{table}", detail)

    @abstractmethod
    def _add_other(self, section: str, at: str, place: int, record: dict[str, Any], /) -> None:
        """Add an element that is not an image."""

    @abstractmethod
    def orphans(self) -> Iterator[BadRow]:
        """Yield one bad row for each valid annotation of a missing image or category."""

    @abstractmethod
    def rows(self, split: Split) -> Iterator[Row]:
        """Yield the images with their annotations, in the file's order."""

    def _unknown(self, place: int, what: str, got: str, record: dict[str, Any]) -> BadRow:
        field = f"annotations[{place}].{what}_id"
        detail = f"{field} names no {what} that can be used: got {got}, wanted one of the list"
        fault = FieldError(field, f"unknown_{what}", detail)
        return bad_row(fault, self._file, place, record, self.scope)


class _Captions(_Join):
    """Images and captions."""

    sections: ClassVar = {"images": frozenset({"file_name"}), "annotations": frozenset({"caption"})}
    scope = "caption"
    tables = """
        CREATE TABLE image (
            place INTEGER PRIMARY KEY, id TEXT UNIQUE, path TEXT, licence TEXT, url TEXT);
        CREATE TABLE caption (place INTEGER PRIMARY KEY, image TEXT, text TEXT);
        BEGIN;
    """

    def _add_other(self, _: str, at: str, place: int, record: dict[str, Any], /) -> None:
        image = checked_identity(_field(at, record, "image_id"))
        text = None
        try:
            text = checked_caption(_field(at, record, "caption"), self._options)
        finally:
            # A bad caption keeps its position among those of its image.
            self._tables.execute("INSERT INTO caption VALUES (?, ?, ?)", (place, image, text))

    def orphans(self) -> Iterator[BadRow]:
        found = self._tables.execute(
            "SELECT place, image, text FROM caption WHERE text IS NOT NULL "
            "AND image NOT IN (SELECT id FROM image) ORDER BY place"
        )
        for place, image, text in found:
            yield self._unknown(place, "image", image, {"image_id": image, "caption": text})

    def rows(self, split: Split) -> Iterator[Row]:
        self._tables.execute("CREATE INDEX caption_of_image ON caption (image, place)")
        captions = self._tables.cursor()
        for place, identity, file_path in self._tables.execute(
            "SELECT place, id, path FROM image ORDER BY place"
        ):
            found = captions.execute(
                "SELECT text FROM caption WHERE image = ? ORDER BY place", (identity,)
            )
            texts = {position: text for position, (text,) in enumerate(found) if text is not None}
            if not texts:
                field = f"images[{place}]"
                detail = f"{field} has no caption that can be used, wanted at least one annotation"
                fault = FieldError(field, "no_usable_caption", detail)
                yield bad_row(fault, self._file, place, {"id": identity, "file_name": file_path})
                continue
            yield SourceRow(
                index=place,
                identity=identity,
                split=split,
                file_path=file_path,
                captions=tuple(texts.values()),
                positions=tuple(texts),
            )


class _Instances(_Join):
    """Images, instances of objects in them, their categories, and licences."""

    sections: ClassVar = {
        "images": frozenset({"file_name"}),
        "annotations": frozenset({"category_id"}),
        "categories": frozenset({"name"}),
        "licenses": frozenset({"name", "url"}),
    }
    optional = frozenset({"licenses"})
    scope = "fact"
    tables = """
        CREATE TABLE image (
            place INTEGER PRIMARY KEY, id TEXT UNIQUE, path TEXT, licence TEXT, url TEXT);
        CREATE TABLE instance (
            place INTEGER PRIMARY KEY, image TEXT, category TEXT, area REAL, crowd INTEGER);
        CREATE TABLE category (id TEXT PRIMARY KEY, name TEXT);
        CREATE TABLE licence (id TEXT PRIMARY KEY, terms TEXT);
        CREATE TABLE miscounted (image TEXT PRIMARY KEY);
        BEGIN;
    """

    def _add_other(self, section: str, at: str, place: int, record: dict[str, Any], /) -> None:
        if section == "annotations":
            self._add_instance(at, place, record)
            return
        name = checked_caption(_field(at, record, "name"), self._options)
        identity = checked_identity(_field(at, record, "id"))
        if section == "categories":
            self._insert("category", at, identity, {"name": name})
        else:
            url = _url(record, "url")
            self._insert("licence", at, identity, {"terms": f"{name} ({url})" if url else name})

    def _add_instance(self, at: str, place: int, record: dict[str, Any]) -> None:
        image = checked_identity(_field(at, record, "image_id"))
        try:
            category = checked_identity(_field(at, record, "category_id"))
        except FieldError:
            self._tables.execute("INSERT OR IGNORE INTO miscounted VALUES (?)", (image,))
            raise
        self._tables.execute(
            "INSERT INTO instance VALUES (?, ?, ?, ?, ?)",
            (place, image, category, _area(record), int(bool(record.get("iscrowd")))),
        )

    def orphans(self) -> Iterator[BadRow]:
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
            yield self._unknown(place, what, got, {"image_id": image, "category_id": category})

    def rows(self, split: Split) -> Iterator[Row]:
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
                facts=() if is_miscounted else tuple(there_are(*thing) for thing in things),
                categories=tuple(name for name, _ in things),
                attribution=Attribution(licence=terms, source_url=url) if terms else None,
            )

    def _things(self, image: str) -> list[tuple[str, int | None]]:
        """Return categories and their counts, in decreasing order of area."""
        found = self._tables.execute(
            "SELECT name, count(*), max(crowd) FROM instance "
            "JOIN category ON category.id = instance.category WHERE image = ? "
            "GROUP BY name ORDER BY sum(area) DESC, name",
            (image,),
        )
        return [(name, None if is_crowd else count) for name, count, is_crowd in found]


def _field(at: str, record: dict[str, Any], key: str) -> Field:
    return Field(f"{at}.{key}", record.get(key, MISSING))


def _terms(record: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the id of an image's licence, and where the image comes from."""
    licence = record.get("license")
    is_id = isinstance(licence, int | str) and not isinstance(licence, bool)
    return str(licence) if is_id else None, _url(record, "flickr_url", "coco_url")


def _url(record: dict[str, Any], *keys: str) -> str | None:
    """Return the first of these fields that is an address; anything else is skipped."""
    found = (record.get(key) for key in keys)
    texts = (one for one in found if isinstance(one, str) and one.isascii() and one.isprintable())
    return next((one for one in texts if one.startswith(("http://", "https://"))), None)


def _area(record: dict[str, Any]) -> float:
    """Return the area of an instance in pixels²; 0 if it is not stated. It only orders facts."""
    value = record.get("area")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e12 and math.isfinite(value) else 0.0


# Sentences that state how many objects of a category there are.

_IN_PAIRS = frozenset({"skis", "scissors", "glasses", "sunglasses", "trousers", "jeans", "shorts"})
_WITHOUT_NUMBER = frozenset({"broccoli", "grass", "water", "bread", "fruit", "food", "furniture"})
_SPELLED = {"tv": "TV"}
_WORDS_UP_TO = 12


def there_are(name: str, count: int | None) -> str:
    """Return a sentence such as `There are two dogs.`; None means an uncounted number."""
    name, words = _SPELLED.get(name, name), _words()
    if name in _WITHOUT_NUMBER:
        return f"There is {name}."
    many = "many"
    if count is not None:
        many = str(words.number_to_words(count)) if count <= _WORDS_UP_TO else str(count)
    if name in _IN_PAIRS:
        return f"There {'is a pair' if count == 1 else f'are {many} pairs'} of {name}."
    if count == 1:
        return f"There is {words.a(name)}."
    return f"There are {many} {words.plural_noun(name)}."


@cache
def _words() -> "inflect.engine":
    import inflect

    return inflect.engine()
