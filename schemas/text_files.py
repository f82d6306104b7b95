"""Open text files of users as UTF-8, whatever encoding and compression they were saved in."""

import codecs
import gzip
import io
import json
import re
import tomllib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from loupe.schemas.errors import ConfigurationError, FormatError
from loupe.schemas.validation import ModelT, validated

_HEAD_BYTES: Final = 1024
_GZIP: Final = b"\x1f\x8b"
_TAR: Final = slice(257, 262)
_NO_TEXT: Final = {
    b"PK\x03\x04": "a ZIP archive, as Excel writes them; unpack it, or save the table as CSV UTF-8",
    b"\xd0\xcf\x11\xe0": "an Excel file; save the table as CSV UTF-8",
    b"BZh9": "compressed (bzip2); unpack it",
    b"\xfd7zXZ": "compressed (xz); unpack it",
    b"\x28\xb5\x2f\xfd": "compressed (zstd); unpack it",
    b"7z\xbc\xaf": "compressed (7z); unpack it",
    b"Rar!": "compressed (RAR); unpack it",
    b"PAR1\x15": "a Parquet file; save it as text",
    b"SQLite format 3": "an SQLite database; save it as text",
    b"%PDF-": "a PDF; save it as text",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself; fetch it: git lfs pull",
    b"<!doctype html": "a web page, not the file itself; download it again",
    b"<html": "a web page, not the file itself; download it again",
}
"""What files are that begin with these bytes (compared in lower case too), and what to do."""


@contextmanager
def open_text(
    path: Path,
    wanted: str = "an annotation file",
    *,
    name: str | None = None,
    may_be_empty: bool = False,
) -> Iterator[io.BufferedReader]:
    """Open a text file for reading its contents as UTF-8 bytes; see `as_utf8`.

    Args:
        path: the file.
        wanted: what it should be, in messages.
        name: its name in messages (default: the path).
        may_be_empty: whether a file of no bytes is accepted.

    Raises:
        FormatError: it is missing, a directory, unreadable, no text, or empty and may not be.
    """
    name = name or str(path)
    try:
        if path.is_dir():
            raise FormatError(f"{name} cannot be read: it is a directory; expected {wanted}")
        if not may_be_empty and path.is_file() and path.stat().st_size == 0:
            raise FormatError(f"{name} is empty; expected {wanted}")
        file = path.open("rb")
    except (OSError, ValueError) as fault:  # the second for a path with a NUL
        what = "does not exist" if isinstance(fault, FileNotFoundError) else _said(fault)
        raise FormatError(f"{name} cannot be read: {what}") from fault
    with file, as_utf8(file, name) as opened:
        yield opened


def read_text(
    path: Path, wanted: str, *, name: str | None = None, most_bytes: int | None = None
) -> str:
    """Return the contents of a text file.

    Raises:
        FormatError: see `open_text`; or it is in no known encoding, or longer than `most_bytes`.
    """
    name = name or str(path)
    with open_text(path, wanted, name=name, may_be_empty=True) as file:
        try:
            data = file.read(-1 if most_bytes is None else most_bytes + 1)
        except OSError as fault:
            raise FormatError(f"{name} cannot be read: {_said(fault)}") from fault
    if most_bytes is not None and len(data) > most_bytes:
        raise FormatError(f"{name} is longer than {most_bytes:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        where = f"byte 0x{data[fault.start]:02x} in line {line:,}"
        raise FormatError(f"{name} is not UTF-8 ({where}); save it as UTF-8") from None


def as_utf8(file: BinaryIO, name: str) -> io.BufferedReader:
    """Return the contents of an open file as UTF-8, without a byte order mark.

    Files in UTF-16 and UTF-32 are recognized by their mark or by their zero bytes, gzip files by
    their first bytes. Other bytes are returned as they are: the reader decides on those that are
    not UTF-8.

    Raises:
        FormatError: it is no text: a Parquet file, a ZIP archive, a web page …; later, on reading:
            it is compressed and damaged.
    """
    opened = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast("Any", file))
    head = opened.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    if head.startswith(_GZIP):
        unpacked = io.BufferedReader(_Guarded(gzip.GzipFile(fileobj=opened), name))
        head = unpacked.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        if head[_TAR] == b"ustar":
            raise FormatError(f"{name} is a tar archive; unpack it")
        opened = unpacked
    for start, what in _NO_TEXT.items():
        if head.startswith(start) or head[:64].lstrip().lower().startswith(start):
            raise FormatError(f"{name} is {what}")
    encoding = json.detect_encoding(head)
    if encoding == "utf-8-sig":
        opened.read(len(codecs.BOM_UTF8))
    elif encoding != "utf-8":
        text = io.TextIOWrapper(opened, encoding, "replace", newline="")
        return io.BufferedReader(_Encoded(text))
    return opened


def recoded(file: BinaryIO, encoding: str) -> io.BufferedReader:
    """Return the contents of an open file in a stated encoding as UTF-8.

    Bytes that are none of its characters become the replacement character.
    """
    return io.BufferedReader(_Encoded(io.TextIOWrapper(file, encoding, "replace", newline="")))


class _Guarded(io.RawIOBase):
    """The contents of a compressed file; damage is a `FormatError`."""

    def __init__(self, file: gzip.GzipFile, name: str) -> None:
        self._file = file
        self._name = name

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._file.close()

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        """Read the next bytes."""
        try:
            return self._file.readinto(buffer)
        except (EOFError, OSError, zlib.error) as fault:
            what = f"{self._name} is compressed (gzip) and damaged: {_said(fault)}"
            raise FormatError(f"{what}; copy or download it again") from fault


class _Encoded(io.RawIOBase):
    """A text in UTF-8."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self._left = b""

    def close(self) -> None:
        """Close the text."""
        super().close()
        self._text.close()

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        """Read the next bytes."""
        data = self._left or self._text.read(len(buffer)).encode("utf-8", "replace")
        count = min(len(data), len(buffer))
        buffer[:count] = data[:count]
        self._left = data[count:]
        return count


def _said(fault: Exception) -> str:
    return str(getattr(fault, "strerror", None) or fault)


# TOML.

_MOST_BYTES: Final = 4 * 1024 * 1024
_INTEGERS: Final = range(-(2**63), 2**63)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Args:
        path: the file.
        what: its name in error messages, such as "build file runs/a.toml".

    Raises:
        ConfigurationError: it cannot be read, is too long or is not TOML, or contains values that
            databases, file systems or other TOML readers reject: integers beyond 64 bits, NUL
            characters.
    """
    try:
        content = read_text(path, "a TOML file", name=what, most_bytes=_MOST_BYTES)
    except FormatError as error:
        raise ConfigurationError(str(error)) from error
    try:
        values = tomllib.loads(content)
        _check(values)
    except ValueError as error:
        fault = _toml_fault(str(error), content)
        raise ConfigurationError(f"{what} is not valid TOML: {fault}") from error
    except RecursionError:
        raise ConfigurationError(f"{what} is not valid TOML: it is nested too deeply") from None
    return values


_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")
_UNQUOTED: Final = re.compile(r"(?P<key>[\w.-]+)\s*=\s*(?P<value>[^\s\"'\[{#][^#]*)")
_KEY_OF_YAML: Final = re.compile(r"(?P<key>[\w.-]+)\s*:")


def _toml_fault(said: str, content: str) -> str:
    """Return what is wrong with a TOML file, with the line and what is expected there."""
    place = _LINE.search(said)
    if place is None:
        return said
    line = content.split("\n")[int(place[1]) - 1].strip()
    if content.lstrip().startswith("{"):
        hint = 'it looks like JSON; expected lines such as key = "text"'
    elif unquoted := _UNQUOTED.match(line):
        value = " ".join(unquoted["value"].split()).strip("“”‘’„«»")
        hint = f'a text must be in straight quotes: {unquoted["key"]} = "{value:.60}"'
    elif key := _KEY_OF_YAML.match(line):
        hint = f"expected = after the key: {key['key']} = …"
    elif "Illegal character" in said:
        hint = "a text must end with a quote in the line that it begins in"
    else:
        hint = said[:1].lower() + _LINE.sub("", said[1:]).strip()
    return f"line {place[1]}, {line!r:.80}: {hint}"


def read_settings(path: Path, form: type[ModelT], what: str, *, see: str = "") -> ModelT:
    """Return the settings in a TOML file, whose relative paths are relative to it.

    Raises:
        ConfigurationError: the file is missing or not TOML, or a key is unknown or wrong.
    """
    values = read_toml(path, what)
    return validated(form, values, what, see=see, folder=path.parent.absolute())


def _check(value: object) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not key.isprintable():
                raise ValueError(f"a key with a control character, {key[:40]!r}")
            _check(inner)
    elif isinstance(value, list):
        for inner in value:
            _check(inner)
    elif isinstance(value, str) and "\0" in value:
        raise ValueError(f"a NUL character in {value[:40]!r}")
    elif isinstance(value, int) and value not in _INTEGERS:
        raise ValueError("an integer beyond 64 bits")
