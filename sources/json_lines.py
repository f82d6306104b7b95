"""One JSON object a line: `{"file_name": …, "captions": [{"caption": …} or "…"]}`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from schemas.errors import FormatError
from schemas.json_stream import DECODER, open_annotations
from schemas.records import Split
from sources.fields import MISSING, Field, FieldError, RawRow, bad_row, checked_object, checked_rows
from sources.records import ReadOptions, Row
from sources.terms import ImporterTerms

_KNOWN_FIELDS = frozenset({"file_name", "captions"})


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank: its place among those, its number in the file from 1, its text."""

    index: int
    number: int
    text: str


class JsonLinesImporter(ImporterTerms):
    """Reads a list of captioned images in which each image is its own identity.

    A record may have `identity` (default: its `file_name`) and `split` (default: the one asked for
    on reading, else `default_split`).
    """

    default_split: Split = "test"

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """One row or one bad row for each line that is not blank; a broken line costs itself.

        Raises:
            FormatError: the file cannot be opened, or its first line is not such an object.
        """
        options = options or ReadOptions()
        is_empty = True
        with open_annotations(path) as file:
            for line in lines_of(file, options.max_record_characters):
                if is_empty:
                    _refuse_stranger(path, line, self.format)
                    is_empty = False
                yield from self._rows_of(line, path.name, options)
        if is_empty:
            raise FormatError(f"{path} is not a {self.format} file: it has no records")

    def _rows_of(self, line: Line, file: str, options: ReadOptions) -> Iterator[Row]:
        try:
            record = checked_object(parsed_line(line, options))
        except FieldError as fault:
            yield bad_row(fault, file, line.index, line.text)
            return
        name = record.get("file_name", MISSING)
        own_split = record.get("split", options.split or self.default_split)
        raw = RawRow(
            index=line.index,
            identity=Field("identity", record.get("identity", name)),
            split=Field("split", own_split),
            file_path=Field("file_name", name),
            captions=Field("captions", record.get("captions", MISSING)),
            record=record,
            caption_key="caption",
        )
        yield from checked_rows(raw, file, options)


def lines_of(file: BinaryIO, max_bytes: int) -> Iterator[Line]:
    """The lines that are not blank, each read no further than one byte past the limit."""
    index = number = 0
    while data := file.readline(max_bytes + 1):
        number += 1
        text = data.decode("utf-8", "surrogateescape")
        if text.strip("\ufeff \t\r\n"):
            yield Line(index, number, text.strip("\ufeff \t\r\n"))
            index += 1
        while len(data) > max_bytes and not data.endswith(b"\n"):
            data = file.readline(max_bytes + 1)


def parsed_line(line: Line, options: ReadOptions) -> Any:
    """The JSON value that a line is.

    Raises:
        FieldError: it is too long, or none.
    """
    if len(line.text) > options.max_record_characters:
        detail = (
            f"line {line.number:,} is too long, wanted at most "
            f"{options.max_record_characters:,} characters"
        )
        raise FieldError("", "record_too_large", detail)
    try:
        return DECODER.decode(line.text)
    except json.JSONDecodeError as fault:
        what = fault.msg[:1].lower() + fault.msg[1:]
        detail = f"line {line.number:,} is not JSON at character {fault.pos:,}: {what}"
        raise FieldError("", "malformed_json", detail) from fault
    except RecursionError as fault:
        detail = f"line {line.number:,} is nested too deeply, wanted a flat object"
        raise FieldError("", "malformed_json", detail) from fault


def _refuse_stranger(path: Path, line: Line, format: str) -> None:  # noqa: A002
    try:
        record = DECODER.decode(line.text)
    except (json.JSONDecodeError, RecursionError):
        record = None
    if not (isinstance(record, dict) and _KNOWN_FIELDS & record.keys()):
        fields = ", ".join(sorted(_KNOWN_FIELDS))
        raise FormatError(
            f"{path} is not a {format} file: line {line.number:,}, its first, "
            f"is not a JSON object with one of the fields {fields}"
        )


JSON_LINES = JsonLinesImporter(
    format="json-lines",
    licence="Unknown: the format names none",
    citation="Unknown: the format names none",
)
