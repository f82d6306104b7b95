"""Files of a release: written once with their digest, and flushed to disk.

Flushing ten thousand images one by one takes a hundred times as long as flushing them together.
"""

import ctypes
import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from schemas.release import ReleasedFile

OF_FILE_MANAGERS = (".DS_Store", "Thumbs.db", "desktop.ini")
"""Files that file managers create in opened folders, which are ignored."""

_BUFFER_BYTES = 1 << 20


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
    file = DigestingFile(folder / path)
    try:
        file.write(data)
    finally:
        file.close()
    return file.as_released(path)


def place_file(folder: Path, path: str, data: bytes | memoryview) -> None:
    """Write a new file at `path` below `folder` without flushing it to disk.

    For many files, which are flushed together.
    """
    try:
        handle = os.open(f"{folder}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileNotFoundError:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        place_file(folder, path, data)
        return
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def is_plain(path: Path) -> bool:
    """Whether a path is a regular file, not a link or anything that reading may never end of."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


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


def flush_folder(folder: Path) -> None:
    """Flush the entries of `folder` itself to disk, for example after a renaming."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
