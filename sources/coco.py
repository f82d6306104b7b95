"""COCO captions: `{"images": [{id, file_name}], "annotations": [{image_id, caption}]}`."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from schemas.json_stream import Element, stream_sections
from schemas.records import Split
from sources.annotation_file import read_elements
from sources.fields import (
    MISSING,
    SPLITS,
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

_KNOWN = {
    "images": frozenset({"file_name"}),
    "annotations": frozenset({"caption"}),
}
_SPLIT_IN_NAME = re.compile(rf"(?:^|[^a-z])({'|'.join(SPLITS)})(?![a-z])")
_DEFAULT_SPLIT: Split = "test"


class CocoImporter(ImporterTerms):
    """Joins images and captions on disk, as either list may come first and neither fits in memory.

    Each image is its own identity. The file is one split: the one asked for on reading, else the
    one that its name holds (`captions_val2017.json`), else test.
    """

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """First what is bad in the file's order, then one row or bad row for each good image.

        Raises:
            FormatError: the file is not of this format.
        """
        options = options or ReadOptions()
        with closing(_Join(path.name, options)) as join:
            for element in read_elements(path, self.format, stream_sections, _KNOWN, options):
                if isinstance(element, BadRow):
                    yield element
                    continue
                try:
                    join.add(element)
                except FieldError as fault:
                    is_caption = element.section == "annotations"
                    yield bad_row(
                        fault, path.name, element.index, element.value, caption=is_caption
                    )
            yield from join.orphans()
            yield from join.rows(options.split or split_in_name(path.name))


def split_in_name(file_name: str) -> Split:
    """The split that an annotation file's name holds; test where it holds none."""
    found = _SPLIT_IN_NAME.search(file_name.casefold())
    return next((s for s in SPLITS if found and s == found.group(1)), _DEFAULT_SPLIT)


class _Join:
    """Images and captions in a temporary SQLite database, which spills to disk as it grows."""

    def __init__(self, file: str, options: ReadOptions) -> None:
        self._file = file
        self._options = options
        self._tables = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._tables.executescript("""
            CREATE TABLE image (place INTEGER PRIMARY KEY, id TEXT UNIQUE, path TEXT);
            CREATE TABLE caption (place INTEGER PRIMARY KEY, image TEXT, text TEXT);
            BEGIN;
        """)

    def close(self) -> None:
        """Ends the database and frees its disk space."""
        self._tables.close()

    def add(self, element: Element) -> None:
        """Keeps one checked image or caption.

        Raises:
            FieldError: it breaks a rule.
        """
        if element.section == "images":
            self._add_image(element)
        else:
            self._add_caption(element)

    def _add_image(self, element: Element) -> None:
        at = f"images[{element.index}]"
        record = checked_object(element.value)
        identity = checked_identity(Field(f"{at}.id", record.get("id", MISSING)))
        file_path = checked_path(Field(f"{at}.file_name", record.get("file_name", MISSING)))
        added = self._tables.execute(
            "INSERT OR IGNORE INTO image VALUES (?, ?, ?)", (element.index, identity, file_path)
        )
        if added.rowcount == 0:
            detail = f"{at}.id repeats the id {identity} of an image before it, wanted its own"
            raise FieldError(f"{at}.id", "duplicate_image", detail)

    def _add_caption(self, element: Element) -> None:
        at = f"annotations[{element.index}]"
        record = checked_object(element.value)
        image = checked_identity(Field(f"{at}.image_id", record.get("image_id", MISSING)))
        text = None
        try:
            field = Field(f"{at}.caption", record.get("caption", MISSING))
            text = checked_caption(field, self._options)
        finally:
            # A bad caption keeps its place among those of its image.
            self._tables.execute(
                "INSERT INTO caption VALUES (?, ?, ?)", (element.index, image, text)
            )

    def orphans(self) -> Iterator[BadRow]:
        """One bad row for each good caption whose image is not there."""
        found = self._tables.execute(
            "SELECT place, image, text FROM caption WHERE text IS NOT NULL "
            "AND image NOT IN (SELECT id FROM image) ORDER BY place"
        )
        for place, image, text in found:
            field = f"annotations[{place}].image_id"
            detail = f"{field} names no image that can be used: got {image}, wanted one of the list"
            fault = FieldError(field, "unknown_image", detail)
            record = {"image_id": image, "caption": text}
            yield bad_row(fault, self._file, place, record, caption=True)

    def rows(self, split: Split) -> Iterator[Row]:
        """The images with their captions, in the file's order."""
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
                yield self._without_caption(place, identity, file_path)
                continue
            yield SourceRow(
                index=place,
                identity=identity,
                split=split,
                file_path=file_path,
                captions=tuple(texts.values()),
                positions=tuple(texts),
            )

    def _without_caption(self, place: int, identity: str, file_path: str) -> BadRow:
        field = f"images[{place}]"
        detail = f"{field} has no caption that can be used, wanted at least one annotation"
        fault = FieldError(field, "no_usable_caption", detail)
        return bad_row(fault, self._file, place, {"id": identity, "file_name": file_path})


COCO_CAPTIONS = CocoImporter(
    format="coco-captions",
    licence="Captions CC BY 4.0; images under the Flickr terms of their authors",
    citation=(
        "Chen, Fang, Lin, Vedantam, Gupta, Dollár, Zitnick: Microsoft COCO Captions: Data "
        "Collection and Evaluation Server. arXiv 1504.00325, 2015"
    ),
    homepage="https://cocodataset.org",
)
