"""The formats that can be imported, and the two passes in which a source is read."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from schemas.build import format_name
from schemas.errors import FormatError, UsageError
from schemas.json_stream import open_annotations
from schemas.validation import nearest_hint, packaged_toml
from sources.annotations import Field, FieldError, Importer, bad_row, checked_path
from sources.captioned import CaptionedImporter, FineGrainedImporter
from sources.ccd import CcdImporter
from sources.coco import CocoImporter
from sources.images import is_file_below
from sources.licensed_images import LicensedImagesImporter
from sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow
from sources.total_text import TotalTextImporter

_IMAGE_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
_LONGEST_PATH_BYTES: Final = 4096


class ImageListImporter(Importer):
    """Reads the paths of images, each its own identity; blank and `#` lines are skipped.

    The list has no metadata, so state the licence of the images on import.
    """

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row, or one bad row, for each line that counts.

        Raises:
            FormatError: the file cannot be opened, or its first line names no image.
        """
        index = 0
        with open_annotations(path) as file:
            while data := file.readline(_LONGEST_PATH_BYTES):
                line = data.decode("utf-8", "surrogateescape").strip("\ufeff \t\r\n")
                if not line or line.startswith("#"):
                    continue
                if index == 0 and not line.casefold().endswith(_IMAGE_SUFFIXES):
                    suffixes = ", ".join(_IMAGE_SUFFIXES)
                    first = f"its first line, {line[:80]!r},"
                    raise self.stranger(path, f": {first} is not the path of an image ({suffixes})")
                try:
                    name = checked_path(Field("line", line.removeprefix("./")))
                    yield SourceRow(
                        index=index, identity=name, split=options.split_or_test, file_path=name
                    )
                except FieldError as fault:
                    yield bad_row(fault, path.name, index, line)
                index += 1
        if index == 0:
            raise self.stranger(path, ": it names no image")


_READERS: Final[dict[str, type[Importer]]] = {
    "captioned": CaptionedImporter,
    "ccd": CcdImporter,
    "coco": CocoImporter,
    "fine-grained": FineGrainedImporter,
    "image-list": ImageListImporter,
    "licensed-images": LicensedImagesImporter,
    "total-text": TotalTextImporter,
}


IMPORTERS: Final[dict[str, Importer]] = {
    name: _READERS[fields.pop("reader", name)](format=name, **fields)
    for name, fields in packaged_toml(__package__, "formats.toml").items()
}


def importer_for(format: str) -> Importer:  # noqa: A002 - the word of the command line
    """Return the importer of a format; case and underscores in its name do not matter.

    Raises:
        UsageError: there is no such format.
    """
    importer = IMPORTERS.get(format_name(format))
    if importer is None:
        hint = nearest_hint(format_name(format), IMPORTERS)
        raise UsageError(f"no format is called {format!r}; {hint}")
    return importer


def read_source(
    importer: Importer, path: Path, options: ReadOptions = DEFAULT_OPTIONS
) -> Iterator[Row]:
    """Yield the rows of `path`; those of identities in two splits become bad rows.

    The first pass runs before this returns, so a file of another format is rejected here.

    Raises:
        FormatError: the file is not of the importer's format.
    """
    with _naming_likely_formats(path):
        torn = identities_in_two_splits(importer.rows(path, options))
    rows = importer.rows(path, options)
    return (
        _torn_row(row, path.name, torn[row.identity])
        if isinstance(row, SourceRow) and row.identity in torn
        else row
        for row in rows
    )


def misplaced_image(importer: Importer, path: Path, image_root: Path) -> str | None:
    """Return an image that `path` names if none that it names exists below `image_root`.

    The file is read up to the first image that exists.

    Raises:
        FormatError: the file is not of the importer's format.
    """
    first = None
    with _naming_likely_formats(path):
        for row in importer.rows(path):
            if isinstance(row, SourceRow):
                if any(is_file_below(image_root, one) for one in (row.file_path, *row.other_paths)):
                    return None
                first = first or row.file_path
    return first


@contextmanager
def _naming_likely_formats(path: Path) -> Iterator[None]:
    """Say in a `FormatError` of what other format the file may be."""
    try:
        yield
    except FormatError as error:
        if others := _likely_formats(path):
            raise FormatError(f"{error}; this looks like {' or '.join(others)}") from error
        raise


def _likely_formats(path: Path) -> list[str]:
    """Return the formats that can parse the first record of a file; lists of paths excepted."""
    found = []
    for name, importer in IMPORTERS.items():
        try:
            first = next(importer.rows(path), None)
        except FormatError:
            continue
        if isinstance(first, SourceRow) and name != "image-list":
            found.append(name)
    return found


def identities_in_two_splits(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Map identities in more than one split to their splits; a test set must have unseen ones.

    The pairs of identity and split are kept in a temporary SQLite database that spills to disk: if
    each image is its own identity there are as many pairs as images.
    """
    pairs = ((row.identity, row.split) for row in rows if isinstance(row, SourceRow))
    with closing(sqlite3.connect("")) as seen:
        seen.execute(
            "CREATE TABLE seen (identity TEXT, split TEXT, PRIMARY KEY (identity, split)) "
            "WITHOUT ROWID"
        )
        seen.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", pairs)
        found = seen.execute(
            "SELECT identity, split FROM seen WHERE identity IN "
            "(SELECT identity FROM seen GROUP BY identity HAVING count(*) > 1) "
            "ORDER BY identity, split"
        )
        torn: dict[str, tuple[str, ...]] = {}
        for identity, split in found:
            torn[identity] = (*torn.get(identity, ()), split)
    return torn


def _torn_row(row: SourceRow, file: str, splits: tuple[str, ...]) -> BadRow:
    return BadRow(
        file=file,
        index=row.index,
        field="split",
        reason="identity_in_two_splits",
        detail=(
            f"identity {row.identity!r} is in the splits {' and '.join(splits)}, wanted one: "
            f"a model would be tested on a person it was trained on"
        ),
        raw=row.model_dump_json(),
    )
