"""Records of named fields as images with captions: which field holds what, for all such formats."""

import json
import unicodedata
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from loupe.schemas.base import Split
from loupe.schemas.columns import TableColumns
from loupe.schemas.errors import ColumnError
from loupe.schemas.records import Attribution
from loupe.schemas.validation import nearest_name
from loupe.sources.annotations import (
    MISSING,
    Field,
    FieldError,
    Importer,
    bad_row,
    checked_caption,
    checked_identity,
    checked_path,
    checked_split,
    optional_text,
    source_page,
    split_in_name,
    wrong_type,
)
from loupe.sources.files import digest_file, digest_of_files, files_of, name_below, root_of
from loupe.sources.pieces import Spool
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow, shown

IMAGES: Final = (
    *("image", "file_name", "filename", "file_path", "image_path", "path", "file", "photo"),
    *("filepath", "img_path", "image_name", "img", "jpg", "jpeg", "png", "webp", "bmp"),
)
"""The columns that may hold an image or its path, if none is stated."""
CAPTIONS: Final = (
    *("captions", "caption", "text", "txt", "sentences", "raw", "comment", "cap"),
    "conversations",
)
"""The columns that may hold captions, if none is stated."""
_TEXTS: Final = ("raw", "caption", "text", "sentence", "value", "content")
"""The keys that may hold the text of a caption that is an object."""
_ASKING: Final = frozenset({"human", "user", "system"})
"""Who does not describe the image in a conversation."""
_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG")
_SHOWN_COLUMNS: Final = 20
_PEEKED: Final = 20
_NO_COLUMNS: Final = ("delimiter", "encoding")
UNREAD: Final = object()
"""Stands for the bytes of an image that were not asked for."""


def names_of_fields(importer: Importer, stated: TableColumns | None) -> Mapping[str, str]:
    """Return what users call the fields of a row: their columns, or else the keys of a source.

    The fields of other formats have the names that they have in their files.
    """
    if not isinstance(importer, RecordImporter):
        return {}
    stated = stated or TableColumns()
    return {
        "file_path": stated.image or "image",
        "identity": stated.identity or "identity",
        "split": stated.split_column or "split",
    }


class Found(NamedTuple):
    """A record as it was found.

    Attributes:
        file: the file that it is in, below the source.
        place: its position in that file, from 0.
        fields: its values by their names in lower case; an image is a path, bytes, an object of
            `bytes` and `path`, or `UNREAD`.
        name: what an image inside the file is called there (default: the position).
        split: the split of the file, if it has one.
        other_paths: where else the image may be.
        categories: what the image shows, in a word each.
    """

    file: str
    place: int
    fields: Mapping[str, Any]
    name: str = ""
    split: str | None = None
    other_paths: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class RecordImporter(Importer):
    """Reads records of named fields, with the columns of `ReadOptions.columns`."""

    @abstractmethod
    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the records of `path` in order, few in memory; what cannot be read is a bad row.

        Raises:
            FormatError: on the first step, if it is not of this format.
        """

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row or one bad row for each record.

        A caption that cannot be used is a bad row of its own, before the row without it.

        Raises:
            FormatError: it cannot be read, has no record, or lacks a column that is stated.
        """
        records = self.records(path, options)
        first = list(islice(records, _PEEKED))
        if not first:
            raise self.stranger(path, ": it has no records")
        names: dict[str, None] = {}
        for record in first:
            names |= dict.fromkeys(() if isinstance(record, BadRow) else record.fields)
        if not names:
            yield from (one for one in first if isinstance(one, BadRow))
            return
        columns = Columns.of(self, path, list(names), options.columns)
        spool = Spool()
        for record in chain(first, records):
            if isinstance(record, BadRow):
                yield record
            else:
                yield from columns.rows(record, options, spool)


class Shards(RecordImporter):
    """A format of one file or several: a file, a folder, a pattern, or a range (`{000..012}`).

    Attributes:
        suffixes: how the names of its files end.
    """

    suffixes: tuple[str, ...]

    def digest(self, path: Path) -> str:
        """Return the digest of a file, or of the names and digests of several.

        Raises:
            FormatError: one cannot be read.
        """
        files = files_of(path, self.suffixes)
        return digest_file(path) if files == [path] else digest_of_files(root_of(path), files)


def split_of(path: Path, file: Path) -> str | None:
    """Return the split that the name of a file, or of one of its folders, states."""
    return split_in_name(name_below(path, file))


def folded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by their names in lower case."""
    return {str(name).strip().casefold(): value for name, value in fields.items()}


class Columns:
    """The columns in use; None for those that there are not."""

    def __init__(
        self, stated: TableColumns, names: Sequence[str], image: str | None, captions: list[str]
    ) -> None:
        self.image = image
        self.captions = captions
        self.identity = _named(stated.identity, "identity", names)
        self.split = _named(stated.split_column, "split", names)
        self._licence = _folded(stated.licence_column)
        self._creator = _folded(stated.attribution)
        self._page = _folded(stated.source_url)

    @classmethod
    def of(
        cls, importer: Importer, path: Path, names: Sequence[str], stated: TableColumns | None
    ) -> "Columns":
        """Return the columns in use of all that there are, `names` in lower case.

        Raises:
            FormatError: one that is stated is missing, or none may hold images.
        """
        stated = stated or TableColumns()
        known = [name for name in names if name]
        listed = ", ".join(known[:_SHOWN_COLUMNS]) or "none"
        for key, value in stated:
            if key in _NO_COLUMNS:
                continue
            for one in (value,) if isinstance(value, str) else value or ():
                if _folded(one) not in known:
                    meant = nearest_name(str(_folded(one)), known)
                    hint = f"; did you mean {meant}?" if meant else ""
                    what = f" with the column {one!r} ({key}): its columns are {listed}{hint}"
                    raise ColumnError(str(importer.stranger(path, what)))
        image = _folded(stated.image) or _first(IMAGES, known)
        if image is None and stated.identity is None:
            raise importer.stranger(
                path,
                f" of images: its columns are {listed}; state the column of the image or its path "
                f"(image), or of the identity that images are named after (identity)",
            )
        captions = [str(_folded(one)) for one in stated.captions]
        if not captions and (usual := _first(CAPTIONS, known)):
            captions = [usual]
        return cls(stated, known, image, captions)

    @property
    def used(self) -> list[str]:
        """Return the names of all columns in use."""
        others = (self.image, self.identity, self.split, self._licence, self._creator, self._page)
        return list(dict.fromkeys([one for one in others if one] + self.captions))

    def rows(self, found: Found, options: ReadOptions, spool: Spool) -> Iterator[Row]:
        """Yield the row of a record, after the bad rows of its captions that cannot be used."""
        try:
            yield from self._rows(found, options, spool)
        except FieldError as fault:
            yield bad_row(fault, found.file, found.place, found.fields)

    def _rows(self, found: Found, options: ReadOptions, spool: Spool) -> Iterator[Row]:
        fields = found.fields
        identity = None
        if self.identity is not None:
            with _asked_by("identity", self.identity):
                identity = checked_identity(Field(self.identity, _value(fields, self.identity)))
        with _asked_by("image", self.image):
            image = self._image(found, identity)
        with _asked_by("split_column", self.split):
            split = self._split(found, options)
        attribution = self._attribution(fields, options)
        texts: dict[int, str] = {}
        for position, caption in enumerate(self._captions(fields)):
            if caption is None:
                continue
            try:
                texts[position] = checked_caption(caption, options)
            except FieldError as fault:
                yield bad_row(fault, found.file, found.place, fields, "caption")
        yield SourceRow(
            index=found.place,
            file=found.file,
            identity=identity or image.path,
            split=split,
            file_path=image.path,
            captions=tuple(texts.values()),
            positions=tuple(texts),
            other_paths=image.others,
            categories=found.categories,
            attribution=attribution,
            is_held=image.is_held,
            held=None if image.data is None else spool.keep(image.data),
        )

    def _image(self, found: Found, identity: str | None) -> "_FoundImage":
        """Return the image of a record, or where it is.

        Raises:
            FieldError: it has none.
        """
        if self.image is None:
            spelled = dict.fromkeys((identity, unicodedata.normalize("NFD", str(identity))))
            names = [f"{one}{suffix}" for one in spelled for suffix in _SUFFIXES]
            return _FoundImage(checked_path(Field("identity", names[0])), tuple(names[1:]))
        field = Field(self.image, _value(found.fields, self.image))
        value = field.value
        if isinstance(value, Mapping):
            data, path = value.get("bytes"), value.get("path")
            value = data if data is not None else path
            if value is None:
                detail = f"{field.path} holds neither the bytes of an image nor its path"
                raise FieldError(field.path, "no_image", detail)
        if isinstance(value, bytes) or value is UNREAD:
            place = checked_path(Field(field.path, f"{found.file}/{found.name or found.place}"))
            return _FoundImage(
                place, (), is_held=True, data=value if isinstance(value, bytes) else None
            )
        if value is not MISSING and not isinstance(value, str):
            wanted = "an image: bytes, an object of bytes and path, or a path"
            raise wrong_type(field, wanted)
        return _FoundImage(checked_path(Field(field.path, value)), found.other_paths)

    def _split(self, found: Found, options: ReadOptions) -> Split:
        if self.split is not None:
            return checked_split(Field(self.split, _value(found.fields, self.split)))
        if found.split is not None:
            return checked_split(Field("split", found.split))
        return options.split_or_test

    def _captions(self, fields: Mapping[str, Any]) -> Iterator[Field | None]:
        """Yield the captions of all columns; None for each that is empty."""
        for name in self.captions:
            value = _list_of_objects(fields.get(name))
            if not isinstance(value, list):
                yield None if _is_blank(value) else Field(name, value)
                continue
            for position, one in enumerate(value):
                field = Field(f"{name}[{position}]", one)
                is_asked = False
                if isinstance(one, Mapping) and (key := _first(_TEXTS, one)):
                    is_asked = one.get("from", one.get("role")) in _ASKING
                    field = field.inner(key)
                yield None if is_asked or _is_blank(field.value) else field

    def _attribution(self, fields: Mapping[str, Any], options: ReadOptions) -> Attribution | None:
        page = source_page({"source_url": fields.get(self._page)}, options) if self._page else None
        creator = None
        if self._creator:
            with _asked_by("attribution", self._creator):
                creator = optional_text(fields, self._creator, options)
        if self._licence is None:
            is_named = creator or page
            return Attribution(licence=None, creator=creator, source_url=page) if is_named else None
        with _asked_by("licence_column", self._licence):
            licence = optional_text(fields, self._licence, options)
        if licence is None:
            got = shown(fields.get(self._licence))
            detail = f"{self._licence} is empty: got {got}, wanted the image's terms"
            raise FieldError(self._licence, "missing_licence", detail)
        return Attribution(licence=licence, creator=creator, source_url=page)


@contextmanager
def _asked_by(key: str, column: str | None) -> Iterator[None]:
    """Name the key of the source that asked for a column in an error about it."""
    try:
        yield
    except FieldError as fault:
        if not column or column == key or not fault.detail.startswith(column):
            raise
        detail = f"{column} ({key}){fault.detail.removeprefix(column)}"
        raise FieldError(fault.field, fault.reason, detail) from fault


class _FoundImage(NamedTuple):
    path: str
    others: tuple[str, ...] = ()
    is_held: bool = False
    data: bytes | None = None


def merged(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, those of one image that follow each other as one, with all their captions.

    Many tables have a line for each caption.
    """
    before: SourceRow | None = None
    for row in rows:
        if isinstance(row, BadRow):
            if before is not None and row.scope != "caption":
                yield before
                before = None
            yield row
            continue
        if before is None:
            before = row
            continue
        same = before.model_copy(
            update={"index": row.index, "captions": row.captions, "positions": row.positions}
        )
        if row.captions and before.captions and same == row:
            after = before.positions[-1] + 1
            before = before.model_copy(
                update={
                    "captions": before.captions + row.captions,
                    "positions": before.positions + tuple(after + one for one in row.positions),
                }
            )
            continue
        yield before
        before = row
    if before is not None:
        yield before


def _list_of_objects(value: Any) -> Any:
    """Return captions as a list, if they are a list as JSON text, or an object of lists."""
    if isinstance(value, str) and value.startswith(('["', "['", "[{")):
        try:
            return json.loads(value)
        except ValueError:
            return value
    if isinstance(value, Mapping) and (key := _first(_TEXTS, value)):
        return value[key]
    return list(value) if isinstance(value, tuple) else value


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _named(stated: str | None, usual: str, names: Sequence[str]) -> str | None:
    return _folded(stated) or (usual if usual in names else None)


def _first(usual: Iterable[str], names: Iterable[str]) -> str | None:
    known = frozenset(names)
    return next((one for one in usual if one in known), None)


def _folded(name: str | None) -> str | None:
    return None if name is None else name.strip().casefold()


def _value(fields: Mapping[str, Any], name: str) -> Any:
    value = fields.get(name)
    return MISSING if value is None else value
