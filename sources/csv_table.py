"""Tables of images: CSV with the columns that a source states, in any usual dialect."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from loupe.schemas.build import TableColumns
from loupe.schemas.errors import FormatError
from loupe.schemas.json_stream import Element
from loupe.schemas.records import Attribution
from loupe.schemas.text_files import open_text, recoded
from loupe.schemas.validation import nearest_name
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
    checked_split,
    optional_text,
    rows_of,
    source_page,
)
from loupe.sources.records import DEFAULT_OPTIONS, ReadOptions, Row, SourceRow, shown
from loupe.sources.tables import Table

_IMAGES: Final = (
    "image",
    "file_name",
    "filename",
    "file_path",
    "image_path",
    "path",
    "file",
    "photo",
)
"""The columns that may hold the path of an image, if none is stated."""
_CAPTIONS: Final = ("caption", "captions", "description", "text", "title")
"""The columns that may hold a caption, if none is stated and the identity is not either."""
_SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG")
_SHOWN_COLUMNS: Final = 20


class CsvImporter(Importer):
    """Reads a table: one line an image, with the columns of `ReadOptions.columns`."""

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row or one bad row for each line below the names of the columns.

        A caption that cannot be used is a bad row of its own, before the row without it.

        Raises:
            FormatError: the file cannot be opened or decoded, or lacks a column that is stated.
        """
        columns = options.columns or TableColumns()
        with _opened(path, columns) as file, closing(Table(file, columns.delimiter)) as table:
            found = _Columns.of(self, path, table, columns)

            def read(element: Element) -> Iterator[Row]:
                yield from found.rows(element, path.name, options)

            yield from rows_of(self.table_elements(path, table), path.name, read)


@contextmanager
def _opened(path: Path, columns: TableColumns) -> Iterator[BinaryIO]:
    """Open a table as UTF-8.

    Raises:
        FormatError: there is no such encoding, or its beginning is in another one.
    """
    with open_text(path, "a table") as file:
        if columns.encoding is not None:
            yield recoded(file, columns.encoding, str(path))
            return
        head = file.peek(1)
        try:
            head.decode()
        except UnicodeDecodeError as fault:
            if fault.end < len(head) - 4:  # not a character that is cut off
                byte, line = head[fault.start], head.count(b"\n", 0, fault.start) + 1
                raise FormatError(
                    f"{path} is not UTF-8 (byte 0x{byte:02x} in line {line:,}); state its "
                    f'encoding, such as encoding="cp1252", or save it as UTF-8'
                ) from None
        yield file


class _Columns:
    """The columns of a table in use; None for those that it does not have."""

    def __init__(self, columns: TableColumns, image: str | None, captions: tuple[str, ...]) -> None:
        self.stated = columns
        self.image = image
        self.captions = captions

    @classmethod
    def of(cls, importer: Importer, path: Path, table: Table, columns: TableColumns) -> "_Columns":
        """Return the columns of a table.

        Raises:
            FormatError: it lacks one that is stated, or has none for images.
        """
        header = table.header(_wanted(columns))
        names = [name for name in header if name]
        for key, value in columns:
            if key in ("delimiter", "encoding"):
                continue
            for stated in (value,) if isinstance(value, str) else value or ():
                if stated.strip().casefold() not in names:
                    listed = ", ".join(names[:_SHOWN_COLUMNS]) or "none"
                    meant = nearest_name(stated.strip().casefold(), names)
                    raise importer.stranger(
                        path,
                        f" with the column {stated!r} ({key}): its columns are {listed}"
                        f"{f'; did you mean {meant}?' if meant else ''}",
                    )
        image = _folded(columns.image) or next((one for one in _IMAGES if one in names), None)
        if image is None and columns.identity is None:
            listed = ", ".join(names[:_SHOWN_COLUMNS]) or "none"
            raise importer.stranger(
                path,
                f" of images: its columns are {listed}; state the column of the image's path "
                f"(image), or of the identity that images are called after (identity)",
            )
        captions = tuple(one.strip().casefold() for one in columns.captions)
        if not captions:
            captions = tuple(one for one in _CAPTIONS[:1] if one in names)
        return cls(columns, image, captions)

    def rows(self, element: Element, file: str, options: ReadOptions) -> Iterator[Row]:
        """Yield the row of a line, after the bad rows of its unusable captions."""
        cells = checked_object(element.value)
        identity_of = _folded(self.stated.identity)
        identity = None
        if identity_of is not None:
            identity = checked_identity(Field(identity_of, _cell(cells, identity_of)))
        others: tuple[str, ...] = ()
        if self.image is not None:
            path = checked_path(Field(self.image, _cell(cells, self.image)))
        else:
            path = checked_path(Field(identity_of or "", f"{identity}{_SUFFIXES[0]}"))
            others = tuple(f"{identity}{suffix}" for suffix in _SUFFIXES[1:])
        split_of = _folded(self.stated.split_column)
        split = options.split_or_test
        if split_of is not None:
            split = checked_split(Field(split_of, _cell(cells, split_of)))
        texts, places = [], []
        for place, name in enumerate(self.captions):
            value = cells.get(name)
            if value is None or not value.strip():
                continue
            try:
                texts.append(checked_caption(Field(name, value), options))
                places.append(place)
            except FieldError as fault:
                yield bad_row(fault, file, element.index, cells, "caption")
        yield SourceRow(
            index=element.index,
            identity=identity or path,
            split=split,
            file_path=path,
            other_paths=others,
            captions=tuple(texts),
            positions=tuple(places),
            attribution=self._attribution(cells, options),
        )

    def _attribution(self, cells: Mapping[str, Any], options: ReadOptions) -> Attribution | None:
        column = _folded(self.stated.licence_column)
        if column is None:
            return None
        licence = optional_text(cells, column, options)
        if licence is None:
            detail = f"{column} is empty: got {shown(cells.get(column))}, wanted the image's terms"
            raise FieldError(column, "missing_licence", detail)
        creator, page = _folded(self.stated.creator), _folded(self.stated.source_url)
        return Attribution(
            licence=licence,
            creator=optional_text(cells, creator, options) if creator else None,
            source_url=source_page({"source_url": cells.get(page)}, options) if page else None,
        )


def _wanted(columns: TableColumns) -> AbstractSet[str]:
    """Return the columns that tell the delimiter: those that are stated, or all usual ones."""
    stated = [columns.image, columns.identity, *columns.captions]
    found = {one.strip().casefold() for one in stated if one}
    return found or {*_IMAGES, *_CAPTIONS}


def _folded(name: str | None) -> str | None:
    return None if name is None else name.strip().casefold()


def _cell(cells: Mapping[str, Any], name: str) -> Any:
    value = cells.get(name)
    return MISSING if value is None else value
