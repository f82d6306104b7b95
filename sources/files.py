"""The files of a source: one, those of a folder, a pattern or a range; and their digest."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from loupe.schemas.errors import FormatError
from loupe.schemas.licences import licence_of

_WILD: Final = re.compile(r"[*?\[]")
_RANGE: Final = re.compile(r"\{(\d+)\.\.(\d+)\}")
_MOST_SHARDS: Final = 1_000_000
_EXPORT: Final = "export.json"


def files_of(path: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files that a path names, in the order of their names.

    Raises:
        FormatError: there is none, or one is a pipe.
    """
    found = _files_of(path, suffixes)
    for file in found:
        refuse_pipe(file)
    return found


def _files_of(path: Path, suffixes: Sequence[str]) -> list[Path]:
    if is_pattern(path):
        names = sorted({name for one in expanded(path.name) for name in _matching(path, one)})
        if not names:
            raise FormatError(f"{path} names no file; it is a pattern in {path.parent}")
        return names
    if path.is_dir():
        found = [one for one in path.rglob("*") if _is_one(one.relative_to(path), suffixes)]
        if not found:
            raise FormatError(f"{path} is a folder without a {' or '.join(suffixes)} file")
        return sorted(found)
    if not path.exists():
        raise FormatError(f"{path} cannot be read: does not exist")
    return [path]


def is_pattern(path: Path) -> bool:
    """Tell whether the name of a path stands for several files."""
    wild = _WILD.search(path.name) or _RANGE.search(path.name)
    return wild is not None and not path.exists()


def root_of(path: Path) -> Path:
    """Return the folder that the names of files begin at."""
    return path if path.is_dir() else path.parent


def name_below(path: Path, file: Path) -> str:
    """Return the name of a file of the source at `path`."""
    return file.relative_to(root_of(path)).as_posix()


def refuse_pipe(path: Path) -> None:
    """Refuse what can be read only once, because a source is read several times.

    Raises:
        FormatError: it is a pipe or a device.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        what = "a pipe" if path.is_fifo() else "a device"
        raise FormatError(f"{path} is {what}, and a source is read several times; give a file")


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hex digits, reading it in chunks.

    Raises:
        FormatError: it cannot be read, or is a pipe.
    """
    refuse_pipe(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as fault:
        raise FormatError(f"{path} cannot be read: {fault.strerror}") from fault


def digest_of_files(root: Path, files: Sequence[Path]) -> str:
    """Return the SHA-256 of the names and digests of files.

    Raises:
        FormatError: one cannot be read.
    """
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.relative_to(root).as_posix()}\0{digest_file(file)}\n".encode())
    return whole.hexdigest()


def exported_licence(path: Path) -> str | None:
    """Return the licence of a source that is an export of a release; None if it is none.

    `export.json` beside the files, or above them, states the terms of the sources of the release.
    """
    for folder in (root_of(path), root_of(path).parent):
        try:
            record = json.loads((folder / _EXPORT).read_bytes())
            licences = {str(one["licence"]) for one in record["sources"]}
            names = [str(one["path"]) for one in record["files"]]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        below = "" if path.is_dir() and path == folder else path.relative_to(folder).as_posix()
        if not is_pattern(path) and not any(name.startswith(below) for name in names):
            continue
        whole = " AND ".join(sorted(licences))
        if len(licences) == 1 or licence_of(whole) is not None:
            return whole
    return None


def expanded(name: str) -> Iterator[str]:
    """Yield the names of a range: `{00..02}.tar` stands for three; others are yielded as they are.

    Raises:
        FormatError: the range has no number, or too many.
    """
    found = _RANGE.search(name)
    if found is None:
        yield name
        return
    first, last = int(found[1]), int(found[2])
    if not 0 <= last - first < _MOST_SHARDS:
        raise FormatError(f"{name!r} is not a range of at most {_MOST_SHARDS:,} numbers")
    for number in range(first, last + 1):
        padded = f"{number:0{len(found[1])}}"
        yield from expanded(name[: found.start()] + padded + name[found.end() :])


def _matching(path: Path, name: str) -> Iterator[Path]:
    return path.parent.glob(name) if _WILD.search(name) else iter([path.with_name(name)])


def _is_one(name: Path, suffixes: Sequence[str]) -> bool:
    is_hidden = any(part.startswith(".") for part in name.parts)
    return not is_hidden and name.name.endswith(tuple(suffixes))
