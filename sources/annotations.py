"""Terms of a collection, its annotations as a stream of records, and the rules of their fields."""

import json
import math
import re
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple, Self, get_args

from loupe.schemas.base import Record, Split
from loupe.schemas.errors import FormatError
from loupe.schemas.json_stream import Element, JsonBreak, JsonCursor, Repeating, decoded
from loupe.schemas.records import Granularity, Source
from loupe.schemas.text_files import open_text
from loupe.schemas.wording import storable
from loupe.sources.files import digest_file, exported_licence
from loupe.sources.records import DEFAULT_OPTIONS, BadRow, ReadOptions, Row, Scope, raw_text, shown
from loupe.sources.tables import IsOurs, Table, TableBreak

SPLITS: Final[tuple[Split, ...]] = get_args(Split)
SPLIT_NAMES: Final[dict[str, Split]] = {
    **{split: split for split in SPLITS},
    "training": "train",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "development": "val",
    "testing": "test",
}
_SPLIT_IN_NAME = re.compile(rf"(?:^|[^a-z])({'|'.join(SPLIT_NAMES)})(?![a-z])")
_ONE_SPLIT = f"one of {', '.join(SPLITS)}"
_MAX_NAME_CHARACTERS = 1000
# Paths in normal form already, which are nearly all, because PurePosixPath is slow.
_PLAIN_PATH = re.compile(r"[^/\\.][^/\\]*(?:/[^/\\.][^/\\]*)*")
# Controls that are not white space, lone surrogates, bidirectional overrides, non-characters.
_CONTROL = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)


_PEEKED = 4096
_GENERIC_WORDS = frozenset({"captions", "instances", "karpathy", "fg", "text", "pedes"})
"""Words in names of formats that are not the name of a collection."""
_JSON_STARTS = (b"{", b"[", b"")
_A_LIST = "; it begins a JSON list, wanted one object a line"

WITHOUT_CAPTIONS: Final = (
    "; for images without captions, use the format image-list (a text file of their paths), csv or "
    "json"
)
_NO_VALUE: Final = frozenset({"nan", "none", "null", "<na>", "n/a", "nat"})
"""What libraries write for a value that is missing, in lower case."""
FIRST_VERSION: Final = "1"
MISSING: Final = object()
"""Stands for a field that a record does not have (null is a value)."""


class Field(NamedTuple):
    """A field of a record as it was found: its path in the record, and its value or `MISSING`."""

    path: str
    value: Any

    def inner(self, key: str) -> "Field":
        """Return the field `key` of this field, which holds an object."""
        return Field(f"{self.path}.{key}", self.value.get(key, MISSING))


class FieldError(Exception):
    """A field breaks a rule; becomes a `BadRow`."""

    def __init__(self, field: str, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field
        self.reason = reason
        self.detail = detail


def bad_row(
    fault: FieldError,
    file: str,
    index: int,
    record: Any,
    scope: Scope = "record",
) -> BadRow:
    """Return `fault` as the bad row of record `index`, or of one caption or fact of it."""
    return BadRow(
        file=file,
        index=index,
        field=fault.field,
        reason=fault.reason,
        detail=fault.detail,
        raw=raw_text(record),
        scope=scope,
    )


def rows_of(
    elements: Iterable[Element | BadRow], file: str, read: Callable[[Element], Iterable[Row]]
) -> Iterator[Row]:
    """Yield the rows that `read` makes of each element, or a bad row of the element instead."""
    for element in elements:
        if isinstance(element, BadRow):
            yield element
            continue
        try:
            yield from read(element)
        except FieldError as fault:
            yield bad_row(fault, file, element.index, element.value)


def refuse_second(field: str, name: str, seen: set[str]) -> None:
    """Reject an image that an earlier record has already; remember it otherwise.

    Raises:
        FieldError: `name` was seen before.
    """
    if name in seen:
        detail = f"{field} repeats {shown(name)} of a record before it, wanted its own"
        raise FieldError(field, "duplicate_image", detail)
    seen.add(name)


def optional_text(fields: Mapping[str, Any], key: str, options: ReadOptions) -> str | None:
    """Return the text of a field; None if it is missing.

    Raises:
        FieldError: it is not a text, or is unusable.
    """
    value = fields.get(key)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return checked_caption(Field(key, value), options)


def source_page(fields: Mapping[str, Any], options: ReadOptions) -> str | None:
    """Return the web address in `source_url`; None if it is missing.

    A release states `folder:…` for an image that was found in a folder, which has no address.

    Raises:
        FieldError: it is not a web address.
    """
    text = optional_text(fields, "source_url", options)
    if text is not None and text.startswith("folder:"):
        return None
    if text is not None and (" " in text or not text.startswith(("http://", "https://"))):
        detail = f"source_url is no address of the web: got {shown(text)}, wanted https://…"
        raise FieldError("source_url", "not_an_address", detail)
    return text


def checked_object(value: Any) -> dict[str, Any]:
    """Return `value`, which must be a JSON object.

    Raises:
        FieldError: it is something else, or names a field twice with different values.
    """
    if isinstance(value, Repeating):
        detail = f"{value.field} is there twice, with different values, wanted one"
        raise FieldError(value.field, "duplicate_field", detail)
    if isinstance(value, dict):
        return value
    raise wrong_type(Field("the record", value), "an object", path="")


def checked_identity(field: Field) -> str:
    """Return the name of a person or image in its source: a non-negative integer or a short text.

    A float with an integer value is that integer, as tables with gaps write it (12.0). Texts are
    kept as they are («0012»), in Unicode NFC. Re-identification sets use −1 for no person, and
    tables NaN, None or null, also as texts: such a record has no identity.

    Raises:
        FieldError: it is neither.
    """
    value = present(field)
    if isinstance(value, str) and value.strip().casefold() in _NO_VALUE:
        wanted = "a number or a name, or no column of identities"
        raise _wrong_value(field, "missing_identity", "is a missing value", wanted)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value in (math.inf, -math.inf):
        detail = f"{field.path} is a number of more than 400 digits, wanted a name"
        raise FieldError(field.path, "too_long", detail)
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise _wrong_value(field, "negative_identity", "is negative", "a number from 0 on")
        return str(value)
    if not isinstance(value, str):
        raise wrong_type(field, "a whole number or a text")
    return unicodedata.normalize("NFC", _name(field, value.strip()))


def checked_split(field: Field) -> Split:
    """Return one of the three splits, which may have another usual name, such as `validation`.

    Raises:
        FieldError: it is something else.
    """
    value = present(field, _ONE_SPLIT)
    if not isinstance(value, str):
        raise wrong_type(field, _ONE_SPLIT)
    split = SPLIT_NAMES.get(value.strip().casefold())
    if split is None:
        raise _wrong_value(field, "unknown_split", "names no split", _ONE_SPLIT)
    return split


def split_in_name(name: str) -> Split | None:
    """Return the split in the name of a file or a folder."""
    found = _SPLIT_IN_NAME.search(name.casefold())
    return SPLIT_NAMES[found.group(1)] if found else None


def checked_path(field: Field) -> str:
    """Return a path with forward slashes and without empty parts; its target is not checked here.

    Raises:
        FieldError: it is not a text, empty, too long or holds control characters.
    """
    value = present(field)
    if not isinstance(value, str):
        raise wrong_type(field, "a path")
    name = _name(field, value)
    return name if _PLAIN_PATH.fullmatch(name) else str(PurePosixPath(name.replace("\\", "/")))


def checked_caption(field: Field, options: ReadOptions) -> str:
    """Return a caption in Unicode NFC with normalized white space.

    The contents of a caption are not judged. One that gives instructions to a language model is
    valid; code that puts captions into a prompt marks them as data.

    Raises:
        FieldError: it is not a text, without words, over a limit or holds control characters.
    """
    value = present(field)
    if not isinstance(value, str):
        raise wrong_type(field, "a text")
    if len(value) > options.max_caption_characters:
        raise _too_long(field, len(value), options.max_caption_characters, "characters")
    _refuse_controls(field, value)
    words = unicodedata.normalize("NFC", value).split()
    if len(words) > options.max_words:
        raise _too_long(field, len(words), options.max_words, "words")
    text = " ".join(words)
    if not any(map(str.isalnum, text)) or text.casefold() in _NO_VALUE:
        raise _wrong_value(field, "empty_caption", "has no words", "a sentence")
    return text


def _name(field: Field, value: str) -> str:
    if not value.strip():
        raise _wrong_value(field, "empty_field", "is empty", "a name")
    if len(value) > _MAX_NAME_CHARACTERS:
        raise _too_long(field, len(value), _MAX_NAME_CHARACTERS, "characters")
    _refuse_controls(field, value)
    return value


def present(field: Field, wanted: str = "a value") -> Any:
    """Return the value of a field.

    Raises:
        FieldError: it is missing.
    """
    if field.value is MISSING:
        detail = f"{field.path} is missing, wanted {wanted}"
        raise FieldError(field.path, "missing_field", detail)
    return field.value


def _refuse_controls(field: Field, value: str) -> None:
    found = _CONTROL.search(value)
    if found is None:
        return
    is_surrogate = unicodedata.category(found.group()) == "Cs"
    reason = "invalid_unicode" if is_surrogate else "control_characters"
    kind = "what is not Unicode text," if is_surrogate else "the control character"
    where = f"U+{ord(found.group()):04X} at position {found.start()}"
    raise FieldError(field.path, reason, f"{field.path} has {kind} {where}, wanted plain text")


def wrong_type(field: Field, wanted: str, path: str | None = None) -> FieldError:
    """Return the error for a value of a wrong type; `path` is that of the field, if it has one."""
    detail = f"{field.path} has the wrong type: got {shown(field.value)}, wanted {wanted}"
    return FieldError(field.path if path is None else path, "wrong_type", detail)


def _wrong_value(field: Field, reason: str, problem: str, wanted: str) -> FieldError:
    detail = f"{field.path} {problem}: got {shown(field.value)}, wanted {wanted}"
    return FieldError(field.path, reason, detail)


def _too_long(field: Field, got: int, limit: int, unit: str) -> FieldError:
    detail = f"{field.path} is too long: got {got:,} {unit}, wanted at most {limit:,}"
    return FieldError(field.path, "too_long", detail)


Stream = Callable[[JsonCursor], Iterator[Element]]


class Importer(Record):
    """Reads one annotation format; immutable and safe to share between threads.

    The terms are those that the authors of the collection state (`formats.toml`). `granularity` is
    the level of detail of its captions, if it is the same for all. A class that a pipeline names
    raises its `version` when it reads other rows of the same file.
    """

    version: ClassVar[str] = FIRST_VERSION
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

        The name is by default that of the format, and the licence that of the release of which the
        annotations are an export, or else of the format. Citation and homepage are the importer's
        only if the source is the collection of its authors (`is_collection`), and the homepage only
        if the user gives no other citation. Only the file's name is kept of the path, so that the
        same file imported from another folder is the same source.

        Raises:
            FormatError: the annotations cannot be read, or their name cannot be recorded.
        """
        if storable(path.name) != path.name:
            what = "has a name that is no UTF-8, and cannot be recorded; rename it"
            raise FormatError(f"{storable(str(path))} {what}")
        licence = licence or exported_licence(path)
        credited = self.is_collection(name or self.format, licence)
        return Source(
            name=name or self.format,
            format=self.format,
            annotation_file=path.name,
            annotation_sha256=self.digest(path),
            licence=licence or self.licence,
            citation=citation or (self.citation if credited else ""),
            homepage=homepage or (self.homepage if credited and not citation else None),
            granularity=granularity or self.granularity,
        )

    def is_collection(self, name: str, licence: str | None) -> bool:
        """Whether a source in this format is the collection that the format was made for.

        Others use the formats of well-known collections for their own images, whose authors must
        not be credited with them: then the name is another, or the licence. A format without a
        homepage is that of no collection.
        """
        if self.homepage is None:
            return True
        given = _squashed(name)
        words = [_squashed(word) for word in self.format.split("-") if word not in _GENERIC_WORDS]
        is_named = any(word in given for word in words)
        return is_named and licence in (None, self.licence)

    @property
    def hint_on_splits(self) -> str:
        """What to do about a file in which no record has a split."""
        return ""

    def for_one_split(self) -> Self:
        """Return the importer of a file in which no record has a split."""
        return self

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
        with open_text(path) as file:
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
                    raise self.stranger(path, _no_json(path, fault)) from fault
                yield _end_of_file(path, fault, sum(counts.values()))
                return
        for section, count in counts.items():
            if count == 0 and section not in optional:
                where = f"under {section!r}" if section else "in its list"
                hint = WITHOUT_CAPTIONS if "caption" in sections[section] else ""
                raise self.stranger(path, f": it has no records {where}{hint}")

    def lines(
        self,
        path: Path,
        options: ReadOptions,
        is_ours: IsOurs,
        wanted: str,
    ) -> Iterator[Element | BadRow]:
        """Yield the records of JSON lines or of a CSV file, with their positions among them.

        A broken line affects only itself, but nothing is read after broken quotes in CSV.

        Args:
            path: the annotation file.
            options: the limits for reading.
            is_ours: whether the fields of the first record are those of this format.
            wanted: these fields in words.

        Raises:
            FormatError: the file cannot be opened, or its first line is neither an object of this
                format nor names its columns.
        """
        is_empty = True
        with open_text(path) as file:
            if file.peek(1)[:_PEEKED].lstrip()[:1] not in _JSON_STARTS:
                with closing(Table(file, path)) as table:
                    yield from self._table(path, table, is_ours, wanted)
                return
            for line in lines_of(file, options.max_record_characters):
                value, fault = None, None
                try:
                    value = line.parsed(options)
                except FieldError as error:
                    fault = error
                if is_empty and not is_ours(_keys(value)):
                    first = f"line {line.number:,}, its first,"
                    hint = _A_LIST if line.text.startswith("[") else ""
                    what = f": {first} is not a JSON object with {wanted}{hint}"
                    raise self.stranger(path, what)
                is_empty = False
                if fault is None:
                    yield Element("", line.place, value)
                else:
                    yield bad_row(fault, path.name, line.place, line.text)
        if is_empty:
            raise self.stranger(path, ": it has no records")

    def _table(
        self, path: Path, table: Table, is_ours: IsOurs, wanted: str
    ) -> Iterator[Element | BadRow]:
        rows = table.rows(is_ours)
        if rows is None:
            first = f"its first line, {shown(table.first.rstrip())},"
            raise self.stranger(
                path, f": {first} is neither a JSON object with {wanted} nor a CSV header of them"
            )
        yield from self._lines_of(path, rows)

    def table_elements(self, path: Path, table: Table) -> Iterator[Element | BadRow]:
        """Yield the lines of a table whose columns are known to be those of this format."""
        rows = table.rows(lambda _: True)
        yield from self._lines_of(path, rows or iter(()))

    def _lines_of(
        self, path: Path, rows: Iterable[Element | TableBreak]
    ) -> Iterator[Element | BadRow]:
        for row in rows:
            if isinstance(row, Element):
                yield row
                continue
            detail = f"{path.name} breaks at line {row.line:,}: {row.what}"
            detail += "; the records before it are kept, nothing after it was read"
            if not row.ends:
                detail = f"line {row.line:,} {row.what}"
            fault = FieldError("", "malformed_csv", detail)
            yield bad_row(fault, path.name, row.index, "", "file" if row.ends else "record")


def _no_json(path: Path, fault: JsonBreak) -> str:
    """Return why a file has no record: another kind of file, or where its JSON breaks."""
    with open_text(path) as file:
        line = file.readline(_PEEKED).decode("utf-8", "surrogateescape").strip()
    if line and line[0] not in "[{":
        return f": its first line, {shown(line)}, is not JSON; expected a JSON file"
    return f", at byte {fault.offset:,}: {fault.what}"


def _squashed(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


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


class Line(NamedTuple):
    """A non-blank line: its position among those, its line number in the file from 1, its text."""

    place: int
    number: int
    text: str

    def parsed(self, options: ReadOptions) -> Any:
        """Return the JSON value of the line.

        Raises:
            FieldError: it is too long or invalid.
        """
        where = f"line {self.number:,}"
        if len(self.text) > options.max_record_characters:
            most = f"at most {options.max_record_characters:,} characters"
            raise FieldError("", "record_too_large", f"{where} is too long, wanted {most}")
        try:
            value, end = decoded(self.text)
            if end < len(self.text):
                raise json.JSONDecodeError("Extra data", self.text, end)  # noqa: TRY301
        except json.JSONDecodeError as fault:
            what = fault.msg[:1].lower() + fault.msg[1:]
            detail = f"{where} is not JSON at character {fault.pos:,}: {what}"
            raise FieldError("", "malformed_json", detail) from fault
        except RecursionError as fault:
            detail = f"{where} is nested too deeply, wanted a flat object"
            raise FieldError("", "malformed_json", detail) from fault
        return value


def lines_of(file: BinaryIO, max_bytes: int) -> Iterator[Line]:
    """Yield the non-blank lines, each read to at most one byte past the limit."""
    index = number = 0
    while data := file.readline(max_bytes + 1):
        number += 1
        text = data.decode("utf-8", "surrogateescape").strip("\ufeff \t\r\n")
        if text:
            yield Line(index, number, text)
            index += 1
        while len(data) > max_bytes and not data.endswith(b"\n"):
            data = file.readline(max_bytes + 1)
