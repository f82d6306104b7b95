"""Images with a licence each: JSON lines or a CSV file, with `file_name` and `licence`."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

from loupe.schemas.json_stream import Element
from loupe.schemas.records import Attribution
from loupe.sources.annotations import (
    MISSING,
    Field,
    FieldError,
    Importer,
    checked_caption,
    checked_object,
    checked_path,
    optional_text,
    refuse_second,
    rows_of,
    source_page,
)
from loupe.sources.records import DEFAULT_OPTIONS, ReadOptions, Row, SourceRow, shown

_LICENCE_FIELDS: Final = ("licence", "license")
_NO_LICENCE: Final = frozenset({"", "none", "unknown", "n/a", "na", "null", "-", "?", "tbd"})
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
        elements = self.lines(path, options, _is_ours, _WANTED)
        seen: set[str] = set()

        def read(element: Element) -> Iterator[Row]:
            row = _row(element.index, checked_object(element.value), options)
            refuse_second("file_name", row.file_path, seen)
            yield row

        return rows_of(elements, path.name, read)


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
