"""Creates the folder of a release as a whole or not at all."""

import errno
import fcntl
import glob
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from db.engine import sqlite_temporary_folder
from release.files import flush, flush_folder
from schemas.errors import DiskFullError, UsageError

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
        self.content.mkdir()

    @property
    def scratch_file(self) -> Path:
        """The path of a temporary database of the build."""
        return self.home / "scratch.db"

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
        flush_folder(out.parent)


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
            _remove_leftovers(out.parent, glob.escape(label))
            home, lock = locked_folder(out.parent, label)
        except OSError as error:
            if is_disk_full(error):
                raise
            raise UsageError(f"{out.parent} cannot be written to ({error.strerror})") from error
        try:
            home.chmod(0o755)
            yield Workspace(home)
        finally:
            shutil.rmtree(home, ignore_errors=True)
            os.close(lock)


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


def locked_folder(
    parent: Path, prefix: str, make: Callable[..., str] = tempfile.mkdtemp
) -> tuple[Path, int]:
    """A new folder in `parent` and its lock, which must be closed.

    A concurrent clean-up may remove the folder before it is locked; then another one is created.
    """
    while True:
        home = Path(make(prefix=prefix, dir=parent))
        if (lock := _lock(home)) is not None:
            return home, lock


def refuse_foreign(out: Path) -> None:
    """Raise unless `out` is free or a release.

    Raises:
        UsageError: if `out` is something else.
    """
    if out.is_dir() and not (any(out.iterdir()) and not (out / "manifest.json").is_file()):
        return
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out} exists and is not a release; choose a folder that does not exist")


def found_at(out: Path, read: Callable[[Path], T], what: str) -> T | None:
    """The result of `read` for `out`; None if `out` is missing or an empty folder.

    Raises:
        UsageError: if `out` is something else than `what`.
    """
    if not (out.exists() or out.is_symlink()) or (out.is_dir() and not any(out.iterdir())):
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


def remove_abandoned(parent: Path) -> list[str]:
    """Remove leftovers of interrupted builds and exports in `parent`; returns their names."""
    return _remove_leftovers(parent, f".*{_LABEL}")


def _remove_leftovers(parent: Path, pattern: str) -> list[str]:
    removed = []
    for home in sorted(parent.glob(f"{pattern}*")):
        lock = _lock(home)
        if lock is not None:
            shutil.rmtree(home, ignore_errors=True)
            os.close(lock)
            removed.append(home.name)
    return removed


def _lock(home: Path) -> int | None:
    """A lock on a folder that ends with the process.

    None if another process holds it, or if the folder no longer exists.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            return None
        if _is_at(folder, home):
            return folder
        os.close(folder)
    return None


def _is_at(folder: int, home: Path) -> bool:
    """Whether an open folder is still at `home`; it may have been removed before the lock."""
    try:
        return os.path.samestat(os.fstat(folder), home.stat())
    except FileNotFoundError:
        return False
