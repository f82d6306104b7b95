"""Images with a licence each: JSON lines or a CSV file, with `file_name` and `licence`."""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from schemas.build import LICENSED_IMAGES as LICENSED_IMAGES_FORMAT
from schemas.errors import FormatError
from schemas.json_stream import DECODER, open_annotations
from schemas.records import Attribution, Split
from sources.fields import (
    MISSING,
    Field,
    FieldError,
    bad_row,
    checked_caption,
    checked_object,
    checked_path,
)
from sources.json_lines import lines_of, parsed_line
from sources.records import BadRow, ReadOptions, Row, SourceRow, shown
from sources.terms import ImporterTerms

_LICENCE_FIELDS: Final = ("licence", "license")
_NO_LICENCE: Final = frozenset({"", "none", "unknown", "n/a", "na", "null", "-", "?", "tbd"})
_FIRST_BYTES: Final = 4096

_Record = tuple[int, Any]
"""The place of a record in its file, and its value: anything in JSON, texts by column in CSV."""


class LicensedImagesImporter(ImporterTerms):
    """Reads images of which each states its terms; `name` is that of the person who is shown.

    A record may have `name`, `creator` and `source_url`, too. Each image is its own identity.
    """

    default_split: Split = "test"

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """One row or one bad row for each record; a broken line of JSON costs itself.

        Raises:
            FormatError: the file cannot be opened, or begins otherwise.
        """
        options = options or ReadOptions()
        seen: set[str] = set()
        with open_annotations(path) as file:
            is_json = _begins_with_brace(file)
            records = (
                self._json_records(path, file, options)
                if is_json
                else self._csv_records(path, file)
            )
            for record in records:
                if isinstance(record, BadRow):
                    yield record
                else:
                    yield self._row(record, path.name, seen, options)

    def _json_records(
        self, path: Path, file: BinaryIO, options: ReadOptions
    ) -> Iterator[_Record | BadRow]:
        for line in lines_of(file, options.max_record_characters):
            if line.index == 0:
                self._refuse_stranger(path, _keys_of(line.text))
            try:
                yield line.index, parsed_line(line, options)
            except FieldError as fault:
                yield bad_row(fault, path.name, line.index, line.text)

    def _csv_records(self, path: Path, file: BinaryIO) -> Iterator[_Record | BadRow]:
        text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="")
        reader = csv.reader(text, strict=True)
        index = 0
        try:
            header = [name.strip().casefold() for name in next(reader, [])]
            self._refuse_stranger(path, frozenset(header))
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    yield index, dict(zip(header, cells, strict=False))
                    index += 1
        except csv.Error as fault:
            if reader.line_num <= 1:
                raise FormatError(f"{path} is not a {self.format} file: {fault}") from fault
            detail = (
                f"{path.name} breaks at line {reader.line_num:,}: {fault}; the records before it "
                f"are kept, nothing after it was read"
            )
            broken = FieldError("", "malformed_csv", detail)
            row = bad_row(broken, path.name, index, "")
            yield row.model_copy(update={"scope": "file"})
        finally:
            text.detach()

    def _refuse_stranger(self, path: Path, fields: frozenset[str]) -> None:
        if "file_name" not in fields or fields.isdisjoint(_LICENCE_FIELDS):
            raise FormatError(
                f"{path} is not a {self.format} file: its first record has not the fields "
                f"file_name and licence"
            )

    def _row(self, record: _Record, file: str, seen: set[str], options: ReadOptions) -> Row:
        index, value = record
        try:
            fields = checked_object(value)
            file_path = checked_path(Field("file_name", fields.get("file_name", MISSING)))
            _refuse_second(file_path, seen)
            attribution = Attribution(
                licence=_licence(fields, file_path, options),
                creator=optional_text(fields, "creator", options),
                source_url=source_page(fields, options),
            )
            name = optional_text(fields, "name", options)
        except FieldError as fault:
            return bad_row(fault, file, index, value)
        seen.add(file_path)
        return SourceRow(
            index=index,
            identity=file_path,
            split=options.split or self.default_split,
            file_path=file_path,
            captions=(),
            positions=(),
            facts=() if name is None else (f"The person is {name}.",),
            attribution=attribution,
        )


def _begins_with_brace(file: BinaryIO) -> bool:
    start = file.read(_FIRST_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    file.seek(0)
    return start.startswith(b"{")


def _keys_of(line: str) -> frozenset[str]:
    try:
        value = DECODER.decode(line)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()


def _refuse_second(file_path: str, seen: set[str]) -> None:
    if file_path in seen:
        detail = f"file_name repeats {shown(file_path)} of a record before it, wanted its own"
        raise FieldError("file_name", "duplicate_image", detail)


def _licence(fields: Mapping[str, Any], file_path: str, options: ReadOptions) -> str:
    found = next((fields[key] for key in _LICENCE_FIELDS if key in fields), None)
    if found is None or (isinstance(found, str) and found.strip().casefold() in _NO_LICENCE):
        detail = (
            f"image {shown(file_path)} has no licence: got {shown(found)}, wanted the terms that "
            f"it may be used under"
        )
        raise FieldError("licence", "missing_licence", detail)
    return checked_caption(Field("licence", found), options)


def optional_text(fields: Mapping[str, Any], key: str, options: ReadOptions) -> str | None:
    """The text of a field; None where there is none.

    Raises:
        FieldError: it is no text, or one that cannot be used.
    """
    value = fields.get(key)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return checked_caption(Field(key, value), options)


def source_page(fields: Mapping[str, Any], options: ReadOptions) -> str | None:
    """The web address in `source_url`; None where there is none.

    Raises:
        FieldError: it is no address of the web.
    """
    text = optional_text(fields, "source_url", options)
    if text is not None and (" " in text or not text.startswith(("http://", "https://"))):
        detail = f"source_url is no address of the web: got {shown(text)}, wanted https://…"
        raise FieldError("source_url", "not_an_address", detail)
    return text


LICENSED_IMAGES = LicensedImagesImporter(
    format=LICENSED_IMAGES_FORMAT,
    licence="Each image under its own licence",
    citation="Collected by the user; the creators of the images are named with them",
)
