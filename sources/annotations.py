"""Common parts of importers: terms of a collection, and its annotations as a stream of records."""

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
    """Reads one annotation format; immutable and safe to share between threads.

    The terms are those that the authors of the collection state (`formats.toml`). `granularity` is
    the level of detail of its captions, if it is the same for all.
    """

    format: str
    licence: str
    citation: str
    homepage: str | None = None
    granularity: Granularity | None = None

    @abstractmethod
    def rows(self, path: Path, options: ReadOptions = DEFAULT_OPTIONS) -> Iterator[Row]:
        """Yield the file's records in order, holding one at a time in memory.

        Each record results in exactly one `SourceRow` or one `BadRow` of scope `record`. If some of
        its captions or facts are invalid, the row is preceded by one `BadRow` of scope `caption` or
        `fact` for each of those. A file that is cut off ends with one `BadRow` of scope `file`.

        Raises:
            FormatError: on the first step, if the file is not of this format.
        """

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of the annotations, which identifies them.

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
        """Return the source at `path`, with the importer's terms as defaults.

        The name is by default that of the format. The homepage is the importer's unless the user
        gives another citation, because the collection is then another one as well. Only the file's
        name is kept of the path, so that the same file imported from another folder is the same
        source.

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
        """Return the error for a file that is not of this format."""
        return FormatError(f"{path} is not a {self.format} file{what}")

    def elements(
        self,
        path: Path,
        stream: Stream,
        sections: Mapping[str, frozenset[str]],
        options: ReadOptions,
        optional: AbstractSet[str] = frozenset(),
    ) -> Iterator[Element | BadRow]:
        """Yield the records of a JSON file, and a last bad row of scope `file` if it is cut off.

        Args:
            path: the annotation file.
            stream: `stream_list`, `stream_sections` or a similar function.
            sections: the arrays to read, each with fields of which its first record must have at
                least one; other arrays are skipped.
            options: the limits for reading.
            optional: the arrays that may be missing or empty.

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
        """Yield the values of a file of JSON lines with their positions among non-blank lines.

        A broken line affects only itself.

        Args:
            path: the annotation file.
            options: the limits for reading.
            is_ours: whether the fields of the first record are those of this format.
            wanted: these fields in words.

        Raises:
            FormatError: the file cannot be opened, or its first line is not an object of this
                format.
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
    """Return the SHA-256 of a file as 64 hex digits, reading it in chunks.

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
    """A non-blank line: its position among those, its line number in the file from 1, its text."""

    place: int
    number: int
    text: str


def _lines_of(file: BinaryIO, max_bytes: int) -> Iterator[_Line]:
    """Yield the non-blank lines, each read to at most one byte past the limit."""
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
    """Parse the JSON value of a line.

    Raises:
        FieldError: it is too long or invalid.
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
