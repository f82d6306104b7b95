"""Write files of a release with their digests, and its folder as a whole or not at all.

Flushing ten thousand images one by one takes a hundred times as long as flushing them together.
"""

import ctypes
import errno
import glob
import hashlib
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from loupe.schemas.errors import DiskFullError, UsageError
from loupe.schemas.processes import flush_to_disk, locked_folder, sqlite_temporary_folder
from loupe.schemas.release import ReleasedFile

CARD = "README.md"
CITATION = "CITATION.cff"
CROISSANT = "croissant.json"
FIGURE = "words.svg"
LEAKS = "leaks.json"
ATTRIBUTION = "ATTRIBUTION.md"
OF_FILE_MANAGERS = (".DS_Store", "Thumbs.db", "desktop.ini")
"""Files that file managers create in opened folders, which are ignored."""

_BUFFER_BYTES = 1 << 20
Progress = Callable[[int, int], None]
"""Called with the number of rows or files that are done, and their total."""


class DigestingFile:
    """A new file that computes its digest and size; closing flushes it to disk."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = path.open("xb", buffering=_BUFFER_BYTES)
        self._sha256 = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        """Append `data`."""
        self._sha256.update(data)
        written = self._file.write(data)
        self._size += written
        return written

    def tell(self) -> int:
        """The number of bytes written."""
        return self._size

    def flush(self) -> None:
        """Flush buffers to the system."""
        self._file.flush()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def close(self) -> None:
        """Flush the file to disk and close it; may be called twice."""
        if not self._file.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def as_released(self, path: str) -> ReleasedFile:
        """The file under the path of the release."""
        return ReleasedFile(path=path, sha256=self._sha256.hexdigest(), size_bytes=self._size)


def write_file(folder: Path, path: str, data: bytes) -> ReleasedFile:
    """Write a new file with these bytes at `path` below `folder`, flushed to disk."""
    with closing(DigestingFile(folder / path)) as file:
        file.write(data)
    return file.as_released(path)


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` as a whole or not at all, flushed to disk.

    The leftovers of an interrupted call are next to the folder of `path`; the next call removes
    them.
    """
    path = path.parent.resolve() / path.name  # on the file system of the folder
    beside, unfinished = path.parent.parent, f".{path.parent.name}.{path.name}"
    (beside / unfinished).unlink(missing_ok=True)
    write_file(beside, unfinished, data)
    (beside / unfinished).replace(path)
    flush_to_disk(path.parent)


def place_file(folder: Path, path: str, data: bytes | memoryview) -> None:
    """Write a new file at `path` below `folder` without flushing it to disk.

    For many files, which are flushed together.
    """
    try:
        with open(f"{folder}/{path}", "xb") as file:  # noqa: PTH123 - of many files
            file.write(data)
    except FileNotFoundError:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        place_file(folder, path, data)


def is_plain(path: Path) -> bool:
    """Whether a path is a regular file, not a link or anything that reading may never end of."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def read_plain(path: Path, most_bytes: int) -> bytes:
    """The bytes of a regular file of at most this size.

    Raises:
        ValueError: if it is a link, something else than a file, or larger.
        OSError: if it cannot be read.
    """
    if os.path.lexists(path) and not is_plain(path):
        raise ValueError("it is a link, or not a regular file")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it has more than {most_bytes:,} bytes")
    return data


def shown_path(path: Path | str) -> str:
    r"""A printable path: bytes that are not UTF-8 become `\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def digest_of_file(path: Path | str) -> str:
    """The SHA-256 of a file; small files are read at once, large ones in pieces."""
    digest = hashlib.sha256()
    handle = os.open(path, os.O_RDONLY)
    try:
        left = os.fstat(handle).st_size
        while left > 0 and (piece := os.read(handle, min(left, _BUFFER_BYTES))):
            digest.update(piece)
            left -= len(piece)
    finally:
        os.close(handle)
    return digest.hexdigest()


def content_fault(folder: Path, listed: ReleasedFile, *, digest: bool = True) -> str | None:
    """The problem with a listed file, phrased to follow its path: its size or its digest.

    Raises:
        OSError: if it cannot be read.
    """
    path = f"{folder}/{listed.path}"
    if (size := os.stat(path).st_size) != listed.size_bytes:  # noqa: PTH116 - of many files
        return f"has {size:,} bytes; expected {listed.size_bytes:,}"
    if digest and (found := digest_of_file(path)) != listed.sha256:
        return f"is damaged or was changed: its SHA-256 is {found}; expected {listed.sha256}"
    return None


def flush(folder: Path) -> None:
    """Flush everything written to the file system of `folder` to disk."""
    system = ctypes.CDLL(None, use_errno=True)
    if not hasattr(system, "syncfs"):  # syncfs is specific to Linux, and reports write errors
        os.sync()
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if system.syncfs(handle) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(handle)


T = TypeVar("T")
_LABEL = ".building-"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_SQLITE_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""SQLite's messages on its new files if space or inodes are used up."""


class Workspace:
    """A temporary folder of a release: `content` becomes its folder, the rest is removed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.content = home / "content"
        self.scratch_file = home / "scratch.db"
        self.content.mkdir()

    def publish(self, out: Path) -> None:
        """Move `content` to `out`, which must be missing or an empty folder.

        All files are flushed to disk before.

        Raises:
            UsageError: if something else appeared at `out` meanwhile.
        """
        flush(self.content)
        try:
            self.content.rename(out)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise UsageError(f"{out} appeared while it was written") from error
        flush_to_disk(out.parent)


@contextmanager
def workspace_for(out: Path) -> Iterator[Workspace]:
    """A workspace next to `out`, removed at the end, with leftovers of interrupted builds.

    A workspace is locked as long as its process lives, so that concurrent builds do not remove each
    other's workspaces.

    Raises:
        UsageError: if the folder of `out` is not writable.
        DiskFullError: if no space or inodes are left, at the beginning or later.
    """
    label = f".{out.name}{_LABEL}"
    with _full_disk_as_error(out):
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(out.parent, glob.escape(out.name))
            home = Path(tempfile.mkdtemp(prefix=label, dir=out.parent))
        except OSError as error:
            if is_disk_full(error):
                raise
            raise UsageError(f"{out.parent} cannot be written to ({error.strerror})") from error
        try:
            with locked_folder(home):
                home.chmod(0o755)
                yield Workspace(home)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def is_disk_full(error: BaseException) -> bool:
    """Whether a file could not be written because space, inodes or quota are used up."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_FULL
    return isinstance(error, OSError) and error.errno in _FULL


@contextmanager
def _full_disk_as_error(out: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not is_disk_full(error):
            raise
        raise DiskFullError(
            f"{out} was not written: no space or no inodes are left in {_full_folder(error, out)}; "
            f"make room there and run again"
        ) from error


def _full_folder(error: OSError | sqlite3.Error, out: Path) -> str:
    """The full folder, as far as `error` states it."""
    if isinstance(error, sqlite3.Error):  # the error names no file
        return f"{out.parent} or {sqlite_temporary_folder()} (temporary files)"
    written = error.filename2 or error.filename  # a failed copy names both files
    if isinstance(written, str):
        file = Path(written).absolute()
        if not file.is_relative_to(out.parent):
            return str(file.parent)
    return str(out.parent)


def refuse_foreign(out: Path) -> None:
    """Raise unless `out` is free or a release.

    Raises:
        UsageError: if `out` is something else.
    """
    if not (_is_free(out) or (out / "manifest.json").is_file()):
        raise UsageError(f"{out} exists and is not a release; choose a folder that does not exist")


def _is_free(out: Path) -> bool:
    """Whether a folder can be renamed to `out`, which is missing or an empty folder, no link."""
    if out.is_symlink():
        return False
    return not out.exists() or (out.is_dir() and not any(out.iterdir()))


def found_at(out: Path, read: Callable[[Path], T], what: str) -> T | None:
    """The result of `read` for `out`; None if `out` is missing or an empty folder.

    Raises:
        UsageError: if `out` is something else than `what`.
    """
    if _is_free(out):
        return None
    try:
        return read(out)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{out} exists and is not {what}; choose a folder that does not exist"
        ) from error


def refuse_within(release: Path, out: Path) -> None:
    """Raise if `out` is inside of a release.

    Raises:
        UsageError: if it is.
    """
    if out.resolve().is_relative_to(release.resolve()):
        raise UsageError(f"{out} is inside the release, which never changes; choose another folder")


def leftovers_in(parent: Path, pattern: str = "*") -> list[Path]:
    """The folders in `parent` of builds and exports that run, or that were interrupted."""
    return sorted(parent.glob(f".{pattern}{_LABEL}*"))


def remove_abandoned(parent: Path, pattern: str = "*") -> list[str]:
    """Remove leftovers of interrupted builds and exports in `parent`; returns their names.

    `pattern` is that of the names of the folders to be built.
    """
    removed = []
    for home in leftovers_in(parent, pattern):
        with (
            suppress(FileNotFoundError, NotADirectoryError, BlockingIOError),
            locked_folder(home, waits=False),
        ):
            shutil.rmtree(home, ignore_errors=True)
            removed.append(home.name)
    return removed
