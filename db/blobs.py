"""The blob store: files named by their SHA-256, on any fsspec file system."""

import contextlib
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from loupe.schemas.base import sha256_of
from loupe.schemas.errors import (
    BlobMismatchError,
    ConfigurationError,
    LoupeError,
    MissingBlobError,
    MissingExtraError,
    ServiceError,
)
from loupe.schemas.processes import flush_to_disk, write_atomically

SHARD = "application/vnd.apache.parquet"
"""The media type of shards, whose name is their Merkle root (`loupe.flows.shards`)."""
_SUFFIXES = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "application/json": ".json",
    "text/plain": ".txt",
    SHARD: ".parquet",
}
_INCOMING = "blob-"
_ABANDONED_SECONDS = 24 * 3600
_REPAIR = "make it again from its source, a release or a backup with: loupe store check --repair"
_PIECE_BYTES = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobFault(StrEnum):
    """Fault of a blob."""

    MISSING = "missing"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"


def suffix_of(media_type: str) -> str:
    """Return the file name suffix of a media type, with its dot."""
    return _SUFFIXES.get(media_type, ".bin")


class BlobStore:
    """Content-addressed files: `sha256/ab/abcdef….jpg` under `url` (a folder, or `s3://…`).

    Writes are atomic and skip bytes that are already stored. Each read compares the bytes with
    their digest, so damaged files raise an error. Thread-safe.

    Methods that read, write or erase raise `ServiceError` if the store cannot be reached or does
    not permit it. So do writes to a full disk or to a bucket that does not exist.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._filesystem, root = fsspec.core.url_to_fs(url)
        except ImportError as error:
            raise MissingExtraError(f"the blob store {url!r}", "s3") from error
        except ValueError as error:
            raise ConfigurationError(
                f"the blob store must be a folder or an fsspec URL such as 's3://bucket/path'; "
                f"got {url!r} ({error})"
            ) from error
        self._root = root.rstrip("/")
        self.is_local = isinstance(self._filesystem, LocalFileSystem)
        self._incoming = Path(self._root) / "incoming"  # files that are being written
        if self.is_local:
            _remove_abandoned(self._incoming)

    def put(self, data: bytes, media_type: str, *, replace: bool = False) -> str:
        """Store `data` and return its SHA-256.

        Bytes already stored, by digest and size, are not written again, unless `replace` is set.
        """
        sha256 = sha256_of(data)
        if not replace and self.has(sha256, media_type, len(data)):
            return sha256
        self._write(self.path_of(sha256, media_type), data)
        return sha256

    def put_shard(self, root: str, data: bytes) -> None:
        """Store the file of a shard (`loupe.flows.shards`), or replace it."""
        self._write(self.path_of(root, SHARD), data)

    def _write(self, path: str, data: bytes) -> None:
        with _reported("write", path):
            if self.is_local:
                self._write_file(path, data)
            else:
                self._filesystem.pipe_file(path, data)  # object stores show whole objects only

    def _write_file(self, path: str, data: bytes) -> None:
        try:
            write_atomically(path, data, self._incoming, _INCOMING)
        except FileNotFoundError:  # the first blob of its folder
            for folder in (Path(path).parent, self._incoming):
                folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, data, self._incoming, _INCOMING)

    def fault_of(self, sha256: str, media_type: str) -> BlobFault | None:
        """Return the fault of a blob, reading one chunk at a time; None if it has none."""
        path, digest = self.path_of(sha256, media_type), hashlib.sha256()
        with _reported("read", path):
            try:
                self._require_file(path)
                with self._filesystem.open(path, "rb") as file:
                    while piece := file.read(_PIECE_BYTES):
                        digest.update(piece)
            except FileNotFoundError:
                return BlobFault.MISSING
            except OSError as error:
                if not self.is_local:  # the store does not answer
                    raise
                lost = error.errno == errno.EIO  # by the disk
                return BlobFault.DAMAGED if lost else BlobFault.UNREADABLE
        return None if digest.hexdigest() == sha256 else BlobFault.DAMAGED

    def stored(self) -> Iterator[tuple[str, str]]:
        """Iterate over the file names and paths of all blobs, one folder at a time."""
        self._filesystem.invalidate_cache()
        with _reported("read", self._root):
            try:
                folders = self._filesystem.ls(f"{self._root}/sha256", detail=False)
            except FileNotFoundError:
                return
            for folder in sorted(folders):
                for path in sorted(self._filesystem.find(folder)):
                    yield path.rpartition("/")[2], path

    def has(self, sha256: str, media_type: str, size: int | None = None) -> bool:
        """Return whether a blob is stored and, if `size` is given, has that many bytes."""
        path = self.path_of(sha256, media_type)
        with _reported("read", path):
            try:
                stored = self._size_of(path)
            except FileNotFoundError:
                return False
        return size is None or stored == size

    def _size_of(self, path: str) -> int:
        if self.is_local:
            return os.stat(path).st_size  # noqa: PTH116 - a tenth of the time of `info`
        size: int = self._filesystem.info(path)["size"]
        return size

    def read(self, sha256: str, media_type: str) -> bytes:
        """Return the bytes of a blob.

        Raises:
            MissingBlobError: nothing is stored under that digest.
            BlobMismatchError: the stored bytes have another digest.
        """
        path = self.path_of(sha256, media_type)
        data = self._read(path, f"no blob {sha256} is stored at {path!r}; {_REPAIR}")
        if (found := sha256_of(data)) != sha256:
            raise BlobMismatchError(
                f"the blob at {path!r} is damaged: its bytes have the digest {found}, "
                f"its name says {sha256}; {_REPAIR}"
            )
        return data

    def read_shard(self, root: str) -> bytes:
        """Return the file of a shard, whose reader compares its records with the root.

        Raises:
            MissingBlobError: it is not stored.
        """
        path = self.path_of(root, SHARD)
        return self._read(path, f"the shard {path!r} is missing; restore it from a backup")

    def _read(self, path: str, missing: str) -> bytes:
        with _reported("read", path):
            try:
                self._require_file(path)
                if self.is_local:
                    return Path(path).read_bytes()  # a third of the time of `cat_file`
                data: bytes = self._filesystem.cat_file(path)
            except FileNotFoundError as error:
                raise MissingBlobError(missing) from error
        return data

    def _require_file(self, path: str) -> None:
        """Raise an `OSError` for a folder, a pipe or a device, whose end may never be reached."""
        if self.is_local and not stat.S_ISREG(Path(path).stat().st_mode):
            raise OSError(errno.EINVAL, "it is not a file", path)

    def erase(self, sha256: str, media_type: str) -> bool:
        """Delete a blob permanently; return False if it does not exist.

        On a local disk, no process finds it after this returns. Copies in file system snapshots,
        backups or versioned buckets are not deleted.
        """
        path = self.path_of(sha256, media_type)
        self._filesystem.invalidate_cache()
        if not self.has(sha256, media_type):
            return False
        with _reported("erase", path):
            try:
                self._filesystem.rm_file(path)
            except FileNotFoundError:
                return False
        if self.is_local:
            flush_to_disk(Path(path).parent)
        return True

    def path_of(self, sha256: str, media_type: str) -> str:
        """Return the path of a blob on the file system of the store."""
        if not _SHA256.fullmatch(sha256):
            raise ConfigurationError(
                f"a blob's name must be a SHA-256 of 64 hex digits; got {sha256!r}"
            )
        folder = "shards" if media_type == SHARD else "sha256"
        return f"{self._root}/{folder}/{sha256[:2]}/{sha256}{suffix_of(media_type)}"


@contextlib.contextmanager
def _reported(action: str, path: str) -> Iterator[None]:
    """Turn exceptions of the file system, which are those of its own libraries, into ours."""
    try:
        yield
    except LoupeError:
        raise
    except Exception as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ServiceError(f"the blob store cannot {action} {path!r}: {why}") from error


def _remove_abandoned(incoming: Path) -> None:
    """Delete partial files of killed processes, which have not changed for a day."""
    for file in incoming.glob(f"{_INCOMING}*"):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                file.unlink()
