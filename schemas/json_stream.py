"""Read JSON files record by record: memory holds one record, independent of the file size.

The standard library's decoder is implemented in C and reports where a value ends, which is all that
a stream needs. ijson was tried twice: with hostile files its C backend (3.6) ends the process by a
segmentation fault (an integer of more than 4,300 digits) or without memory (100,000 open brackets),
and one byte that is not UTF-8, or a NaN, loses all records after it.
"""

import codecs
import itertools
import json
import re
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

_CHUNK_BYTES = 256 * 1024
_MAX_INTEGER_DIGITS = 400
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_LONGEST_TOKEN = 16
_LONGEST_MATCH = 4096
_CUT_TOKEN = re.compile(r"[-+.\\\w]{0,16}\Z")


class JsonBreak(Exception):  # noqa: N818 - a place in a file, turned into a record by its reader
    """Where a file stops being readable JSON: `offset` in bytes from its start."""

    def __init__(self, reason: str, what: str, offset: int) -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Element:
    """One element of an array: its array's key (empty for a top-level list), position and value."""

    section: str
    index: int
    value: Any


def _integer(digits: str) -> int | float:
    """Return the integer, or a float if it has very many digits, so that converting it is cheap."""
    return int(digits) if len(digits) <= _MAX_INTEGER_DIGITS else float(digits)


class RepeatedFieldError(ValueError):
    """An object names a field twice, with different values."""

    def __init__(self, field: str) -> None:
        super().__init__(f"it names the field {field!r:.80} twice, with different values")
        self.field = field


class Repeating(dict[str, Any]):
    """An object in which, at some depth, `field` is named twice with different values."""

    field = ""


def unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these fields, for `object_pairs_hook`; an equal second one is left out.

    Raises:
        RepeatedFieldError: one has two values.
    """
    fields = dict(pairs)
    if len(fields) != len(pairs):
        for name, value in pairs:
            if fields[name] != value:
                raise RepeatedFieldError(name)
    return fields


# Not strict: a raw control character is an error of its field, not of the file.
_DECODER = json.JSONDecoder(parse_int=_integer, object_pairs_hook=unique_fields, strict=False)
_LAST_WINS = json.JSONDecoder(parse_int=_integer, strict=False)


def decoded(text: str, at: int = 0) -> tuple[Any, int]:
    """Return the JSON value that begins at `at`, and where it ends.

    An object that names a field twice is a `Repeating`, which its reader refuses alone.

    Raises:
        json.JSONDecodeError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    try:
        return _DECODER.raw_decode(text, at)
    except RepeatedFieldError as error:
        value, end = _LAST_WINS.raw_decode(text, at)
        if isinstance(value, dict):
            value = Repeating(value)
            value.field = error.field
        return value, end


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_STRICT_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse_constant)


class JsonCursor:
    """A position in a JSON file that moves from value to value and reads only what it needs.

    With `strict`, input that the standard does not allow (raw control characters, `NaN`, bytes that
    are not UTF-8) is a `ValueError` or a `JsonBreak`. Otherwise it spoils one value at most.
    """

    def __init__(
        self,
        file: BinaryIO,
        max_characters: int,
        chunk_bytes: int = _CHUNK_BYTES,
        *,
        strict: bool = False,
    ) -> None:
        self._file = file
        self._chunk_bytes = chunk_bytes
        self._decoded = _STRICT_DECODER.raw_decode if strict else decoded
        # Bytes that are not UTF-8 become lone surrogates: they spoil one caption, not the file.
        errors = "strict" if strict else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)
        self._max_characters = max_characters
        self._text = ""
        self._at = 0
        self._dropped_bytes = 0
        self._ended = False

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end of the file."""
        while True:
            self._at = _space_end(self._text, self._at)
            if self._at < len(self._text) or not self._grow():
                return self._text[self._at : self._at + 1]

    def take(self, *wanted: str) -> str:
        """Return the next character, which must be one of `wanted`, and move past it."""
        found = self.peek()
        if found not in wanted or not found:
            raise self.fault(f"expecting {' or '.join(map(repr, wanted))}, got {found!r}")
        self._at += 1
        return found

    def value(self) -> Any:
        """Return the next value as a whole."""
        self.peek()
        while True:
            try:
                value, end = self._decoded(self._text, self._at)
            except json.JSONDecodeError as fault:
                # Far from the end of the buffer, more text would not help.
                unterminated = fault.msg.startswith("Unterminated")
                at_end = unterminated or len(self._text) - fault.pos <= _LONGEST_TOKEN
                if not (at_end and self._grow()):
                    raise self.fault(fault.msg, fault.pos, cut=unterminated) from None
            except RecursionError:
                raise self.fault("too many levels of nesting") from None
            else:
                # A number at the end of the buffer may continue after it.
                may_go_on = isinstance(value, int | float) and _CUT_TOKEN.match(self._text, end)
                if not may_go_on:
                    self._at = end
                    return value
                if not self._grow():
                    raise self.fault("expecting ',' delimiter", end)

    def matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield consecutive matches of `pattern` from the current position.

        Use it for values that are nearly always written in the same way, a few hundred characters
        each; use `value` for the others.
        """
        while self.peek():
            while match := pattern.match(self._text, self._at):
                self._at = match.end()
                yield match
            if len(self._text) - self._at > _LONGEST_MATCH or not self._grow():
                return

    def fault(self, what: str, at: int | None = None, *, cut: bool = False) -> JsonBreak:
        """Return the break at `at` (default: here); a truncated file breaks at its end."""
        at = self._at if at is None else at
        if self._ended and (cut or _CUT_TOKEN.match(self._text, at)):
            end = self._offset(len(self._text))
            return JsonBreak("truncated_file", "the file ends too early", end)
        return JsonBreak("malformed_json", what[:1].lower() + what[1:], self._offset(at))

    def _grow(self) -> bool:
        """Read more, doubling the buffer; False at the end of the file."""
        if self._ended:
            return False
        held = self._text[self._at :]
        if len(held) > self._max_characters:
            limit = f"a value of more than {self._max_characters:,} characters"
            raise JsonBreak("record_too_large", limit, self._offset(self._at))
        self._dropped_bytes = self._offset(self._at)
        chunk = self._file.read(max(self._chunk_bytes, len(held)))
        self._ended = not chunk
        self._text = held + self._decoder.decode(chunk, final=self._ended)
        self._at = 0
        return True

    def _offset(self, at: int) -> int:
        return self._dropped_bytes + len(self._text[:at].encode("utf-8", "surrogateescape"))


def _space_end(text: str, at: int) -> int:
    if text[at : at + 1] > " " and text[at] != "\ufeff":
        return at
    match = _SPACE.match(text, at)
    return match.end() if match else at


def stream_list(cursor: JsonCursor) -> Iterator[Element]:
    """Yield the elements of the list that the file consists of.

    Raises:
        JsonBreak: after the elements before it.
    """
    yield from _elements(cursor, "")
    _end(cursor)


def stream_sections(cursor: JsonCursor) -> Iterator[Element]:
    """Yield the elements of every list directly in the object that the file consists of.

    Raises:
        JsonBreak: after the elements before it.
    """
    counts: Counter[str] = Counter()
    for section in stream_members(cursor):
        if cursor.peek() == "[":
            counts[section] = yield from _elements(cursor, section, counts[section])
        else:
            cursor.value()


def _elements(cursor: JsonCursor, section: str, first: int = 0) -> Generator[Element, None, int]:
    """Yield the elements of the next array, numbered from `first`; return the number after."""
    cursor.take("[")
    if cursor.peek() == "]":
        cursor.take("]")
        return first
    for index in itertools.count(first):
        yield Element(section, index, cursor.value())
        if cursor.take(",", "]") == "]":
            break
    return index + 1


def stream_members(cursor: JsonCursor) -> Iterator[str]:
    """Yield the keys of the object that the file consists of.

    After each key the cursor is before its value, which the caller must read.

    Raises:
        JsonBreak: after the members before it.
    """
    cursor.take("{")
    if cursor.peek() != "}":
        while True:
            if cursor.peek() != '"':
                cursor.take('"')
            key = str(cursor.value())
            cursor.take(":")
            yield key
            if cursor.take(",", "}") == "}":
                return _end(cursor)
    cursor.take("}")
    return _end(cursor)


def _end(cursor: JsonCursor) -> None:
    if cursor.peek():
        raise cursor.fault("more after the end of the JSON value")
