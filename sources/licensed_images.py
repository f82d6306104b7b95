"""Images with a licence each: JSON lines or a CSV file, with `file_name` and `licence`."""

import csv
import io
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

from schemas.json_stream import Element, open_annotations
from schemas.records import Attribution
from sources.annotations import (
    MISSING,
    Field,
    FieldError,
    Importer,
    bad_row,
    checked_caption,
    checked_object,
    checked_path,
    optional_text,
    refuse_second,
    rows_of,
    source_page,
)
from sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, SourceRow, shown

_LICENCE_FIELDS: Final = ("licence", "license")
_NO_LICENCE: Final = frozenset({"", "none", "unknown", "n/a", "na", "null", "-", "?", "tbd"})
_FIRST_BYTES: Final = 4096
_WANTED: Final = "the fields file_name and licence"


class LicensedImagesImporter(Importer):
    """Reads images with terms of their own; `name` is that of the person in the image.

    A record may also have `name`, `creator` and `source_url`. Each image is its own identity.
    """

    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield one row or one bad row for each record; a broken line of JSON affects only itself.

        Raises:
            FormatError: the file cannot be opened, or is of another format.
        """
        with open_annotations(path) as file:
            start = file.read(_FIRST_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith(b"{"):
            elements = self.lines(path, options, _is_ours, _WANTED)
        else:
            elements = self._csv_elements(path)
        seen: set[str] = set()

        def read(element: Element) -> Iterator[Row]:
            row = _row(element.index, checked_object(element.value), options)
            refuse_second("file_name", row.file_path, seen)
            yield row

        return rows_of(elements, path.name, read)

    def _csv_elements(self, path: Path) -> Iterator[Element | BadRow]:
        """Yield the records of a CSV file: texts by column."""
        with open_annotations(path) as file:
            text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="")
            reader = csv.reader(text, strict=True)
            index = 0
            try:
                header = [name.strip().casefold() for name in next(reader, [])]
                if not _is_ours(frozenset(header)):
                    raise self.stranger(path, f": its first line does not name {_WANTED}")
                for cells in reader:
                    if any(cell.strip() for cell in cells):
                        yield Element("", index, dict(zip(header, cells, strict=False)))
                        index += 1
            except csv.Error as fault:
                if reader.line_num <= 1:
                    raise self.stranger(path, f": {fault}") from fault
                detail = (
                    f"{path.name} breaks at line {reader.line_num:,}: {fault}; the records before "
                    f"it are kept, nothing after it was read"
                )
                broken = FieldError("", "malformed_csv", detail)
                yield bad_row(broken, path.name, index, "", "file")
            finally:
                text.detach()


def _is_ours(fields: AbstractSet[str]) -> bool:
    return "file_name" in fields and not fields.isdisjoint(_LICENCE_FIELDS)


def _row(index: int, fields: Mapping[str, Any], options: ReadOptions) -> SourceRow:
    file_path = checked_path(Field("file_name", fields.get("file_name", MISSING)))
    attribution = Attribution(
        licence=_licence(fields, file_path, options),
        creator=optional_text(fields, "creator", options),
        source_url=source_page(fields, options),
    )
    name = optional_text(fields, "name", options)
    return SourceRow(
        index=index,
        identity=file_path,
        split=options.split_or_test,
        file_path=file_path,
        facts=() if name is None else (f"It shows {name}.",),
        attribution=attribution,
    )


def _licence(fields: Mapping[str, Any], file_path: str, options: ReadOptions) -> str:
    found = next((fields[key] for key in _LICENCE_FIELDS if key in fields), None)
    if found is None or (isinstance(found, str) and found.strip().casefold() in _NO_LICENCE):
        detail = (
            f"image {shown(file_path)} has no licence: got {shown(found)}, wanted the terms that "
            f"it may be used under"
        )
        raise FieldError("licence", "missing_licence", detail)
    return checked_caption(Field("licence", found), options)
