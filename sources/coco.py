"""COCO's files: captions of images, or counted objects in an image as facts for its captions."""

import math
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from loupe.schemas.base import Split
from loupe.schemas.json_stream import Element, stream_sections
from loupe.schemas.processes import scratch_database
from loupe.schemas.records import Attribution
from loupe.sources.annotations import (
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
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, Scope, SourceRow

if TYPE_CHECKING:
    import inflect


_SECTIONS = {
    "captions": {"images": frozenset({"file_name"}), "annotations": frozenset({"caption"})},
    "instances": {
        "images": frozenset({"file_name"}),
        "annotations": frozenset({"category_id"}),
        "categories": frozenset({"name"}),
        "licenses": frozenset({"name", "url"}),
    },
}
"""The lists of each kind of file, with the fields that a first record may have."""

_IDENTITY = "identity"
_TABLES = """
    CREATE TABLE image (
        place INTEGER PRIMARY KEY, id TEXT UNIQUE, path TEXT, licence TEXT, url TEXT, shown TEXT);
    CREATE TABLE annotation (
        place INTEGER PRIMARY KEY, image TEXT, value TEXT, area REAL, crowd INTEGER);
    CREATE TABLE category (id TEXT PRIMARY KEY, name TEXT);
    CREATE TABLE licence (id TEXT PRIMARY KEY, name TEXT);
"""
"""The value of an annotation is a caption or a category; NULL if it cannot be used."""


class CocoImporter(Importer):
    """Joins images and their annotations on disk, because lists are unordered and may be large.

    Each image is its own identity, unless it states one (`identity`), as our exports do. The file
    is one split: the one given by the options, else the one in its name (`captions_val2017.json`),
    else test. It `lists` captions, or instances of
    objects; an image without instances has no facts.
    """

    lists: Literal["captions", "instances"] = "captions"

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield bad rows in the file's order, then one row (or bad row) for each valid image.

        Raises:
            FormatError: the file is not of this format.
        """
        scope: Scope = "caption" if self.lists == "captions" else "fact"
        with closing(_Join(path.name, options, scope)) as join:
            sections = _SECTIONS[self.lists]
            for element in self.elements(path, stream_sections, sections, options, {"licenses"}):
                if isinstance(element, BadRow):
                    yield element
                    continue
                try:
                    join.add(element)
                except FieldError as fault:
                    lost = "record" if element.section == "images" else scope
                    yield bad_row(fault, path.name, element.index, element.value, lost)
            yield from join.orphans()
            split = options.split or split_in_name(path.name) or "test"
            yield from join.captioned(split) if scope == "caption" else join.counted(split)


class _Join:
    """The lists of a file in a temporary SQLite database, which spills to disk as it grows."""

    def __init__(self, file: str, options: ReadOptions, scope: Scope) -> None:
        self._file = file
        self._options = options
        self._scope = scope
        self._tables = scratch_database(_TABLES)

    def close(self) -> None:
        """Close the database and free its disk space."""
        self._tables.close()

    def add(self, element: Element) -> None:
        """Add one checked element.

        Raises:
            FieldError: it breaks a rule.
        """
        at, place = f"{element.section}[{element.index}]", element.index
        record = checked_object(element.value)
        if element.section == "annotations":
            self._add_annotation(at, place, record)
        elif element.section == "images":
            identity = checked_identity(_field(at, record, "id"))
            path = checked_path(_field(at, record, "file_name"))
            licence, url = _terms(record)
            values = {"place": place, "path": path, "licence": licence, "url": url}
            if _IDENTITY in record:
                values["shown"] = checked_identity(_field(at, record, _IDENTITY))
            self._insert("image", at, identity, values)
        else:
            name = checked_caption(_field(at, record, "name"), self._options)
            identity = checked_identity(_field(at, record, "id"))
            if element.section == "categories":
                self._insert("category", at, identity, {"name": name})
            else:
                url = _url(record, "url")
                self._insert("licence", at, identity, {"name": f"{name} ({url})" if url else name})

    def _add_annotation(self, at: str, place: int, record: dict[str, Any]) -> None:
        image = checked_identity(_field(at, record, "image_id"))
        value = None
        try:
            if self._scope == "caption":
                value = checked_caption(_field(at, record, "caption"), self._options)
            else:
                value = checked_identity(_field(at, record, "category_id"))
        finally:
            # A bad caption keeps its position among those of its image, and a bad instance counts.
            self._tables.execute(
                "INSERT INTO annotation VALUES (?, ?, ?, ?, ?)",
                (place, image, value, _area(record), int(bool(record.get("iscrowd")))),
            )

    def _insert(self, table: str, at: str, identity: str, values: dict[str, object]) -> None:
        names, places = ", ".join(values), ", ".join("?" * len(values))
        added = self._tables.execute(
            f"INSERT OR IGNORE INTO {table} (id, {names}) VALUES (?, {places})",  # noqa: S608
            (identity, *values.values()),
        )
        if added.rowcount == 0:
            detail = f"{at}.id repeats the id {identity} of one before it, wanted its own"
            raise FieldError(f"{at}.id", f"duplicate_{table}", detail)

    def orphans(self) -> Iterator[BadRow]:
        """Yield one bad row for each valid annotation of a missing image or category."""
        found = self._tables.execute(
            "SELECT place, image, value, image IN (SELECT id FROM image) AS has_image "
            "FROM annotation WHERE value IS NOT NULL AND NOT (has_image AND "
            "(? OR value IN (SELECT id FROM category))) ORDER BY place",
            (self._scope == "caption",),
        )
        for place, image, value, has_image in found:
            what, got = ("category", value) if has_image else ("image", image)
            field = f"annotations[{place}].{what}_id"
            detail = f"{field} names no {what} that can be used: got {got}, wanted one of the list"
            record = {
                "image_id": image,
                "caption" if self._scope == "caption" else "category_id": value,
            }
            fault = FieldError(field, f"unknown_{what}", detail)
            yield bad_row(fault, self._file, place, record, self._scope)

    def captioned(self, split: Split) -> Iterator[Row]:
        """Yield the images with their captions, in the file's order."""
        self._tables.execute("CREATE INDEX caption_of_image ON annotation (image, place)")
        captions = self._tables.cursor()
        for place, number, file_path, shown in self._tables.execute(
            "SELECT place, id, path, shown FROM image ORDER BY place"
        ):
            found = captions.execute(
                "SELECT value FROM annotation WHERE image = ? ORDER BY place", (number,)
            )
            texts = {position: text for position, (text,) in enumerate(found) if text is not None}
            if not texts:
                field = f"images[{place}]"
                detail = f"{field} has no caption that can be used, wanted at least one annotation"
                fault = FieldError(field, "no_usable_caption", detail)
                yield bad_row(fault, self._file, place, {"id": number, "file_name": file_path})
                continue
            yield SourceRow(
                index=place,
                identity=shown or number,
                split=split,
                file_path=file_path,
                captions=tuple(texts.values()),
                positions=tuple(texts),
            )

    def counted(self, split: Split) -> Iterator[Row]:
        """Yield the images with the counts of their objects, in the file's order.

        An image with an instance of no known category has no facts.
        """
        self._tables.execute("CREATE INDEX instance_of_image ON annotation (image)")
        for place, identity, path, terms, url, is_miscounted in self._tables.execute(
            "SELECT place, image.id, path, name, url, image.id IN (SELECT image FROM annotation "
            "WHERE value IS NULL OR value NOT IN (SELECT id FROM category)) FROM image "
            "LEFT JOIN licence ON licence.id = image.licence ORDER BY place"
        ):
            # The categories with their counts, in decreasing order of area.
            things = self._tables.execute(
                "SELECT name, count(*), max(crowd) FROM annotation "
                "JOIN category ON category.id = value WHERE image = ? "
                "GROUP BY name ORDER BY sum(area) DESC, name",
                (identity,),
            ).fetchall()
            facts = (there_are(name, None if crowd else count) for name, count, crowd in things)
            yield SourceRow(
                index=place,
                identity=identity,
                split=split,
                file_path=path,
                facts=() if is_miscounted else tuple(facts),
                categories=tuple(name for name, _, _ in things),
                attribution=Attribution(licence=terms, source_url=url) if terms else None,
            )


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
