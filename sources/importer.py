"""The formats that can be imported, and the two passes in which a source is read."""

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from inspect import isabstract
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pydantic_core import PydanticUndefined

from loupe.schemas.build import format_name
from loupe.schemas.errors import (
    ColumnError,
    ConfigurationError,
    FormatError,
    LoupeError,
    UsageError,
)
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.processes import scratch_database
from loupe.schemas.raised import raised
from loupe.schemas.text_files import open_text
from loupe.schemas.validation import nearest_hint, packaged_toml
from loupe.schemas.wording import many
from loupe.sources.annotations import (
    FIRST_VERSION,
    WITHOUT_CAPTIONS,
    Field,
    FieldError,
    Importer,
    bad_row,
    checked_path,
)
from loupe.sources.captioned import CaptionedImporter, FineGrainedImporter
from loupe.sources.ccd import CcdImporter
from loupe.sources.coco import CocoImporter
from loupe.sources.columns import CAPTIONS, names_of_fields
from loupe.sources.csv_table import CsvImporter
from loupe.sources.fiftyone import FiftyOneImporter
from loupe.sources.hugging_face import HuggingFaceImporter
from loupe.sources.image_folder import ImageFolderImporter
from loupe.sources.images import ImageRoot, is_file_below
from loupe.sources.json_records import JsonImporter
from loupe.sources.label_studio import LabelStudioImporter
from loupe.sources.licensed_images import LicensedImagesImporter
from loupe.sources.parquet import ParquetImporter
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow
from loupe.sources.tar_shards import Img2DatasetImporter, TarImporter
from loupe.sources.total_text import TotalTextImporter

SEVERAL_IDENTITIES: Final = "image_of_several_identities"
"""Reason of the rejection of an image file, or of bytes, under more than one identity."""

_IMAGE_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
_LONGEST_PATH_BYTES: Final = 4096
UNKNOWN_LICENCE: Final = "Unknown: the format names none"
_NO_CAPTION: Final = ("no_usable_caption", "empty_caption")
_OF_ANYTHING: Final = frozenset({"image-list", "csv", "tsv", "json", "folder", "hf", "img2dataset"})
"""Formats that are not named as what a file may be: most files can be read so."""


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
        with open_text(path) as file:
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
    "csv": CsvImporter,
    "fiftyone": FiftyOneImporter,
    "fine-grained": FineGrainedImporter,
    "folder": ImageFolderImporter,
    "hf": HuggingFaceImporter,
    "image-list": ImageListImporter,
    "img2dataset": Img2DatasetImporter,
    "json": JsonImporter,
    "label-studio": LabelStudioImporter,
    "licensed-images": LicensedImagesImporter,
    "parquet": ParquetImporter,
    "total-text": TotalTextImporter,
    "webdataset": TarImporter,
}


IMPORTERS: Final[dict[str, Importer]] = {
    name: _READERS[fields.pop("reader", name)](format=name, **fields)
    for name, fields in packaged_toml(__package__, "formats.toml").items()
}


_DECLARED: Final[dict[str, type[Importer]]] = {}
"""The formats that pipelines of this process name by their classes."""


def declare_format(form: type[Importer]) -> str:
    """Let sources name a class of formats by the name of the class; return it.

    The same class, as when the cell of a notebook is run again, takes the place of the earlier one.

    Raises:
        UsageError: another format has that name.
    """
    if isabstract(form):
        raise UsageError(f"the format {form.__name__} needs a method rows(self, path, options)")
    name = format_name(form.__name__)
    known = _DECLARED.get(name, form)
    is_same = (known.__module__, known.__qualname__) == (form.__module__, form.__qualname__)
    if name in IMPORTERS or name in map(format_name, plugins("formats")) or not is_same:
        raise UsageError(f"another format is called {name!r}; rename the class {form.__name__}")
    _DECLARED[name] = form
    return name


def declared_format(name: str) -> type[Importer] | None:
    """Return the class of the format of that name, if a pipeline named it so."""
    return _DECLARED.get(format_name(name))


def importer_for(format: str) -> Importer:  # noqa: A002 - the word of the command line
    """Return the importer of a format; case and underscores in its name do not matter.

    A plugin names an `Importer`, or a class of them.

    Raises:
        UsageError: there is no such format.
        ConfigurationError: the plugin that adds it cannot be used.
    """
    name = format_name(format)
    if (importer := IMPORTERS.get(name)) is not None:
        return importer
    if (form := declared_format(name)) is not None:
        named = name if form.version == FIRST_VERSION else f"{name}@{form.version}"
        return _made(form, named)
    added = {format_name(one): one for one in plugins("formats")}
    if name not in added:
        raise UsageError(f"no format is called {format!r}; {nearest_hint(name, known_formats())}")
    return _from_plugin(added[name])


def known_formats() -> list[str]:
    """Return the names of formats, with those of plugins and of classes that were declared."""
    return [*IMPORTERS, *map(format_name, plugins("formats")), *_DECLARED]


def _from_plugin(name: str) -> Importer:
    found = load_plugin("formats", name)
    if isinstance(found, type) and issubclass(found, Importer):
        found = _made(found, name)
    if not isinstance(found, Importer):
        raise ConfigurationError(
            f"the format {name!r} of {plugins('formats')[name].package} must be a subclass of "
            f"loupe.Format; got {found!r:.80}"
        )
    return found


def _made(form: type[Importer], name: str) -> Importer:
    """Return an importer of a class, which need not state its name and terms."""
    stated = {"format": name, "licence": UNKNOWN_LICENCE, "citation": ""}
    defaults = {key: one.default for key, one in form.model_fields.items()}
    given = {key: value for key, value in stated.items() if defaults[key] is PydanticUndefined}
    return form(**given)


def read_source(
    importer: Importer,
    path: Path,
    options: ReadOptions = DEFAULT_OPTIONS,
    image_root: ImageRoot | None = None,
) -> Iterator[Row]:
    """Yield the rows of `path`; records that contradict each other become bad rows.

    These are the records of identities in two splits, or written in two ways, those of one image
    file under several identities, and a second image of one name in a file that holds images.
    Absolute paths below `image_root` become relative to it. The first pass runs before this
    returns, so a file of another format, or one without a usable record, is rejected here.

    Raises:
        FormatError: the file is not of the importer's format, or all of its records have the same
            defect.
    """
    return surveyed(importer, path, options, image_root).rows()


class Surveyed(NamedTuple):
    """A source after its first pass.

    Attributes:
        rows: reads its rows, as often as it is called.
        misplaced: an image that it names, if none of those that it names is there; else None.
        images: a digest of the places, sizes and times of the images that it names, or the address
            of their folder.
        has_captions: whether a row has a caption.
        licences: the licences that rows state, with their numbers of rows.
    """

    rows: Callable[[], Iterator[Row]]
    misplaced: str | None
    images: str
    has_captions: bool
    licences: Mapping[str, int]


def surveyed(
    importer: Importer,
    path: Path,
    options: ReadOptions = DEFAULT_OPTIONS,
    image_root: ImageRoot | None = None,
) -> Surveyed:
    """Run the first pass over `path`.

    Raises:
        FormatError: see `read_source`.
    """

    def rows(images: bool) -> Iterator[Row]:
        chosen = options.model_copy(update={"images": images})
        is_ours = importer.format in IMPORTERS
        found = importer.rows(path, chosen) if is_ours else _foreign_rows(importer, path, chosen)
        return map(partial(_relative, image_root), found) if isinstance(image_root, Path) else found

    names = names_of_fields(importer, options.columns)
    with _naming_likely_formats(path, importer.format):
        there = _ImagesThere(image_root)
        survey = Survey(path.name, there.looked_for(rows(images=False)), names)
        if survey.lacks_splits and options.is_split_stated:
            importer = importer.for_one_split()
            there = _ImagesThere(image_root)
            survey = Survey(path.name, there.looked_for(rows(images=False)), names)
        if survey.defect:
            hint = importer.hint_on_splits if survey.lacks_splits else ""
            hint = WITHOUT_CAPTIONS if survey.lacks_captions else hint
            raise FormatError(f"{path}: {survey.defect}{hint}")
    return Surveyed(
        rows=lambda: survey.checked_all(rows(images=True)),
        misplaced=there.misplaced,
        images=there.state,
        has_captions=there.has_captions,
        licences=there.licences,
    )


def _foreign_rows(importer: Importer, path: Path, options: ReadOptions) -> Iterator[Row]:
    """Yield the rows that the class of a pipeline or a plugin reads.

    Raises:
        FormatError: it raises, or yields what is no row.
    """
    number, what = 0, f"the format {importer.format!r} cannot read {path.name}"
    try:
        for row in importer.rows(path, options):
            number += 1
            if fault := _fault_of(row):
                break
            yield row
        else:
            return
    except LoupeError:
        raise
    except Exception as error:
        said = raised(error, SourceRow, BadRow)
        hint = "; a record that cannot be used is a loupe.BadRow" if number else ""
        raise FormatError(f"{what}: after {many(number, 'row')} it raised {said}{hint}") from error
    raise FormatError(f"{what}: row {number:,} {fault}")


def _fault_of(row: Any) -> str:
    """Return what is wrong with what a class yields as a row; empty if it is one."""
    if not isinstance(row, SourceRow | BadRow):
        return f"must be a loupe.SourceRow or a loupe.BadRow; got {row!r:.80}"
    if isinstance(row, SourceRow) and len(row.positions) != len(row.captions):
        captions, positions = len(row.captions), len(row.positions)
        return f"has {captions} captions and {positions} positions; without any, they count from 0"
    return ""


def _relative(image_root: Path, row: Row) -> Row:
    """Return the row with its path relative to the image root, if it is an absolute one below."""
    if isinstance(row, BadRow) or not row.file_path.startswith("/"):
        return row
    for root in (image_root.absolute(), image_root.resolve()):
        if Path(row.file_path).is_relative_to(root):
            name = str(Path(row.file_path).relative_to(root))
            named = {"identity": name} if row.identity == row.file_path else {}
            return row.model_copy(update={"file_path": name, **named})
    return row


class _ImagesThere:
    """Looks for the images that rows name; `root` is where they are, None to look nowhere."""

    def __init__(self, root: ImageRoot | None) -> None:
        self._root = root
        self._first: str | None = None
        self._is_one_there = root is None
        self._seen = hashlib.sha256()
        self.has_captions = False
        self.licences = Counter[str]()

    @property
    def misplaced(self) -> str | None:
        """An image that rows name if none that they name is there."""
        return None if self._is_one_there else self._first

    @property
    def state(self) -> str:
        """See `Surveyed.images`; that of images elsewhere is not looked at."""
        if self._root is None or isinstance(self._root, Path):
            return self._seen.hexdigest()
        return str(self._root)

    def looked_for(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows, and look for the image of each."""
        for row in rows:
            if isinstance(row, SourceRow):
                self._look_for(row)
            yield row

    def _look_for(self, row: SourceRow) -> None:
        self._first = self._first or row.file_path
        texts = row.captions or row.coarse_captions or row.translations
        self.has_captions = self.has_captions or bool(texts)
        if row.attribution and row.attribution.licence:
            self.licences[row.attribution.licence] += 1
        self._is_one_there = self._is_one_there or row.is_held
        if self._root is None or row.is_held:
            return
        for path in (row.file_path, *row.other_paths):
            self._is_one_there = self._is_one_there or is_file_below(self._root, path)
            if isinstance(self._root, Path):
                with suppress(OSError, ValueError):  # ValueError for names that no file can have
                    found = (self._root / path).stat()
                    line = f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n"
                    self._seen.update(line.encode("utf-8", "surrogatepass"))


@contextmanager
def _naming_likely_formats(path: Path, read_as: str) -> Iterator[None]:
    """Say in a `FormatError` of what other format the file may be."""
    try:
        yield
    except ColumnError:
        raise
    except FormatError as error:
        others = likely_formats(path)
        if others and read_as not in others:
            raise FormatError(f"{error}; this looks like {' or '.join(others)}") from error
        raise


def likely_formats(path: Path) -> list[str]:
    """Return the formats that can parse the first record of a file, without those of anything."""
    return list(parsing_formats(path, [name for name in IMPORTERS if name not in _OF_ANYTHING]))


def parsing_formats(
    path: Path, names: Iterable[str], options: ReadOptions = DEFAULT_OPTIONS
) -> Iterator[str]:
    """Yield those of these formats that can parse the first record of a file."""
    for name in names:
        try:
            first = next(IMPORTERS[name].rows(path, options), None)
        except FormatError:
            continue
        if isinstance(first, SourceRow):
            yield name


_TABLES = """
    CREATE TABLE split (name TEXT, other TEXT, PRIMARY KEY (name, other)) WITHOUT ROWID;
    CREATE TABLE file (name TEXT, other TEXT, PRIMARY KEY (name, other)) WITHOUT ROWID;
    CREATE TABLE held (name TEXT, other TEXT, PRIMARY KEY (name, other)) WITHOUT ROWID;
    CREATE TABLE number (name TEXT, other TEXT, PRIMARY KEY (name, other)) WITHOUT ROWID;
"""
_PLACE = re.compile(r"\[\d+\]")
_NUMBER = re.compile(r"0*(?P<value>\d+)(?:\.0+)?")


class Survey:
    """What the first pass over a file finds.

    Identities, splits and paths are kept in a temporary SQLite database that spills to disk: if
    each image is its own identity there are as many of them as images. `names` are those of fields
    for users (`names_of_fields`).

    Attributes:
        torn: the identities in more than one split, with these: a test set must have unseen ones.
        shared: the image files under more than one identity, with these.
        repeated: the names of images that a file holds more than once.
        spelled: the numbers that identities state in several ways (12 and 0012), with these.
        defect: a sentence on the defect that all records have, if they all have the same one.
        lacks_splits: whether this is that they have no split.
        lacks_captions: whether this is that they have no caption.
    """

    def __init__(
        self, file: str, rows: Iterable[Row], names: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._file = file
        self._names = names
        self._defects: Counter[tuple[str, str]] = Counter()
        self._first: BadRow | None = None
        self._usable = 0
        self.repeated: set[str] = set()
        with closing(scratch_database(_TABLES)) as seen:
            for row in rows:
                if isinstance(row, BadRow):
                    self._count(row)
                    continue
                self._usable += 1
                add = "INSERT OR IGNORE INTO {} VALUES (?, ?)"
                seen.execute(add.format("split"), (row.identity, row.split))
                if number := _NUMBER.fullmatch(row.identity):
                    seen.execute(add.format("number"), (number["value"], row.identity))
                if row.is_held:
                    added = seen.execute(add.format("held"), (row.file_path, ""))
                    if added.rowcount == 0:
                        self.repeated.add(row.file_path)
                elif not row.is_grouped:
                    seen.execute(add.format("file"), (row.file_path, row.identity))
            self.torn = _with_several(seen, "split")
            self.shared = _with_several(seen, "file")
            self.spelled = _with_several(seen, "number")
        records = self._defects.total()
        self.defect = ""
        if self._first and not self._usable and len(self._defects) == 1 and records > 1:
            self.defect = (
                f"none of its {records:,} records can be used, for the same reason; the first: "
                f"{self._first.detail}"
            )
        self.lacks_splits = not self._usable and [*self._defects] == [("split", "missing_field")]
        field, reason = next(iter(self._defects), ("", ""))
        self.lacks_captions = reason in _NO_CAPTION or (
            reason == "missing_field" and field in CAPTIONS
        )

    def _count(self, row: BadRow) -> None:
        self._first = self._first or row
        if row.scope == "file":
            self._defects[row.field, row.reason] += 1
        elif row.scope == "record":
            self._defects[_PLACE.sub("", row.field), row.reason] += 1

    def checked_all(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows, a bad row for each that contradicts another one."""
        read: set[str] = set()
        for row in rows:
            if isinstance(row, SourceRow) and row.is_held and row.file_path in self.repeated:
                if row.file_path in read:
                    detail = (
                        f"image {row.file_path!r} has the name of one before it, wanted its own; "
                        f"the first is read"
                    )
                    yield self._contradicting(row, "file_path", "duplicate_image", detail)
                    continue
                read.add(row.file_path)
            yield self.checked(row)

    def checked(self, row: Row) -> Row:
        """Return the row, or a bad row if it contradicts another one."""
        if isinstance(row, BadRow):
            return row
        if splits := self.torn.get(row.identity):
            return self._contradicting(
                row,
                "split",
                "identity_in_two_splits",
                f"identity {row.identity!r} is in the splits {' and '.join(splits)}, wanted one: "
                f"splits that share an identity make scores too good",
            )
        number = _NUMBER.fullmatch(row.identity) if self.spelled else None
        if number and (names := self.spelled.get(number["value"])):
            return self._contradicting(
                row,
                "identity",
                "identity_written_in_two_ways",
                f"identity {row.identity!r} is written {' and '.join(names)}, wanted one way: they "
                f"would count as several identities",
            )
        if not row.is_grouped and (names := self.shared.get(row.file_path)):
            return self._contradicting(
                row,
                "file_path",
                SEVERAL_IDENTITIES,
                f"image {row.file_path!r} is under the identities {' and '.join(names)}, wanted "
                f"one: each caption of it would be right for all of them, and count for one",
            )
        return row

    def _contradicting(self, row: SourceRow, field: str, reason: str, detail: str) -> BadRow:
        return BadRow(
            file=row.file or self._file,
            index=row.index,
            field=self._names.get(field, field),
            reason=reason,
            detail=detail,
            raw=row.model_dump_json(),
            held=row.held,
        )


def _with_several(seen: sqlite3.Connection, table: str) -> dict[str, tuple[str, ...]]:
    found = seen.execute(
        f"SELECT name, other FROM {table} WHERE name IN "  # noqa: S608 - a name of ours
        f"(SELECT name FROM {table} GROUP BY name HAVING count(*) > 1) ORDER BY name, other"
    )
    several: dict[str, tuple[str, ...]] = {}
    for name, other in found:
        several[name] = (*several.get(name, ()), other)
    return several
