"""What importers share: the terms of a collection, and its annotations as a stream of records."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from schemas.base import Record
from schemas.errors import FormatError
from schemas.json_stream import DECODER, Element, JsonBreak, JsonCursor, open_annotations
from schemas.records import Granularity, Source
from sources.fields import FieldError, bad_row
from sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row

Stream = Callable[[JsonCursor], Iterator[Element]]


class Importer(Record):
    """Reads one annotation format; a value without state, safe to share between threads.

    The terms are those that the authors of the collection state (`formats.toml`). `granularity`
    says how detailed its captions are, where all of them are alike.
    """

    format: str
    licence: str
    citation: str
    homepage: str | None = None
    granularity: Granularity | None = None

    @abstractmethod
    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """The file's records in its order, holding one at a time in memory.

        Each record gives exactly one `SourceRow` or one `BadRow` of scope `record`; a row whose
        captions or facts are partly bad is preceded by one `BadRow` of scope `caption` or `fact`
        for each of those; a file that breaks off ends with one `BadRow` of scope `file`.

        Raises:
            FormatError: on the first step, where the file is not of this format at all.
        """

    def digest(self, path: Path) -> str:
        """The SHA-256 of the annotations, by which they are known again.

        Raises:
            FormatError: they cannot be read.
        """
        return digest_file(path)

    def describe(
        self,
        path: Path,
        *,
        name: str | None = None,
        licence: str | None = None,
        citation: str | None = None,
        homepage: str | None = None,
        granularity: Granularity | None = None,
    ) -> Source:
        """The source that `path` is, by the importer's terms where the user gives no other.

        The name is the format's by default, the homepage the importer's unless the citation is
        another than the importer's: then the collection is another one too. Of the path only the
        file's name is kept, so that the same file imported from another folder is the same source.

        Raises:
            FormatError: the annotations cannot be read.
        """
        return Source(
            name=name or self.format,
            format=self.format,
            annotation_file=path.name,
            annotation_sha256=self.digest(path),
            licence=licence or self.licence,
            citation=citation or self.citation,
            homepage=homepage or (None if citation else self.homepage),
            granularity=granularity or self.granularity,
        )

    def stranger(self, path: Path, what: str) -> FormatError:
        """The error to raise on a file that is not of this format."""
        return FormatError(f"{path} is not a {self.format} file{what}")

    def elements(
        self,
        path: Path,
        stream: Stream,
        sections: Mapping[str, frozenset[str]],
        options: ReadOptions,
        optional: AbstractSet[str] = frozenset(),
    ) -> Iterator[Element | BadRow]:
        """The records of a JSON file, and one last bad row of scope `file` where it breaks off.

        Args:
            path: the annotation file.
            stream: `stream_list`, `stream_sections` or alike.
            sections: the arrays that matter, each with the fields of which its first record must
                have at least one; other arrays are read past.
            options: the limits on what is read.
            optional: those of the arrays that may be missing or empty.

        Raises:
            FormatError: the file cannot be opened, is not JSON, lacks one of the arrays, or its
                first record has none of the fields.
        """
        counts = dict.fromkeys(sections, 0)
        with open_annotations(path) as file:
            cursor = JsonCursor(file, options.max_record_characters)
            try:
                for element in stream(cursor):
                    known = sections.get(element.section)
                    if known is None:
                        continue
                    is_first = counts[element.section] == 0
                    if is_first and known.isdisjoint(_keys(element.value)):
                        where = f" under {element.section!r}" if element.section else ""
                        fields = ", ".join(sorted(known))
                        raise self.stranger(
                            path, f": its first record{where} has none of the fields {fields}"
                        )
                    counts[element.section] += 1
                    yield element
            except JsonBreak as fault:
                if not any(counts.values()):
                    where = f", at byte {fault.offset:,}: {fault.what}"
                    raise self.stranger(path, where) from fault
                yield _end_of_file(path, fault, sum(counts.values()))
                return
        for section, count in counts.items():
            if count == 0 and section not in optional:
                where = f"under {section!r}" if section else "in its list"
                raise self.stranger(path, f": it has no records {where}")

    def lines(
        self,
        path: Path,
        options: ReadOptions,
        is_ours: Callable[[AbstractSet[str]], bool],
        wanted: str,
    ) -> Iterator[Element | BadRow]:
        """The values of a file of JSON lines, by their places among those that are not blank.

        A broken line costs itself.

        Args:
            path: the annotation file.
            options: the limits on what is read.
            is_ours: whether the fields of the first record are those of this format.
            wanted: these fields in words.

        Raises:
            FormatError: the file cannot be opened, or its first line is not such an object.
        """
        is_empty = True
        with open_annotations(path) as file:
            for line in _lines_of(file, options.max_record_characters):
                value, fault = None, None
                try:
                    value = _parsed(line, options)
                except FieldError as error:
                    fault = error
                if is_empty and not is_ours(_keys(value)):
                    first = f"line {line.number:,}, its first,"
                    raise self.stranger(path, f": {first} is not a JSON object with {wanted}")
                is_empty = False
                if fault is None:
                    yield Element("", line.place, value)
                else:
                    yield bad_row(fault, path.name, line.place, line.text)
        if is_empty:
            raise self.stranger(path, ": it has no records")


def digest_file(path: Path) -> str:
    """The SHA-256 of a file as 64 hex digits, read piece by piece.

    Raises:
        FormatError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as fault:
        raise FormatError(f"{path} cannot be read: {fault.strerror}") from fault


def _keys(value: object) -> AbstractSet[str]:
    return value.keys() if isinstance(value, dict) else frozenset()


def _end_of_file(path: Path, fault: JsonBreak, records: int) -> BadRow:
    detail = (
        f"{path.name} breaks at byte {fault.offset:,} after {records:,} records: {fault.what}; "
        f"the records before it are kept, nothing after it was read"
    )
    return BadRow(
        file=path.name,
        index=records,
        field="",
        reason=fault.reason,
        detail=detail,
        raw="",
        scope="file",
    )


class _Line(NamedTuple):
    """A line that is not blank: its place among those, its number in the file from 1, its text."""

    place: int
    number: int
    text: str


def _lines_of(file: BinaryIO, max_bytes: int) -> Iterator[_Line]:
    """The lines that are not blank, each read no further than one byte past the limit."""
    index = number = 0
    while data := file.readline(max_bytes + 1):
        number += 1
        text = data.decode("utf-8", "surrogateescape").strip("\ufeff \t\r\n")
        if text:
            yield _Line(index, number, text)
            index += 1
        while len(data) > max_bytes and not data.endswith(b"\n"):
            data = file.readline(max_bytes + 1)


def _parsed(line: _Line, options: ReadOptions) -> Any:
    """The JSON value that a line is.

    Raises:
        FieldError: it is too long, or none.
    """
    where = f"line {line.number:,}"
    if len(line.text) > options.max_record_characters:
        most = f"at most {options.max_record_characters:,} characters"
        raise FieldError("", "record_too_large", f"{where} is too long, wanted {most}")
    try:
        return DECODER.decode(line.text)
    except json.JSONDecodeError as fault:
        what = fault.msg[:1].lower() + fault.msg[1:]
        detail = f"{where} is not JSON at character {fault.pos:,}: {what}"
        raise FieldError("", "malformed_json", detail) from fault
    except RecursionError as fault:
        detail = f"{where} is nested too deeply, wanted a flat object"
        raise FieldError("", "malformed_json", detail) from fault
