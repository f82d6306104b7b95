"""Files of an export: written with their digest, and made to last all together.

Flushing each of ten thousand images takes a hundred times as long as flushing them at once.
"""

import hashlib
import os
from pathlib import Path

from release.export.piped import PipedFile
from schemas.errors import IntegrityError
from schemas.release import ReleasedFile

_PIECE_BYTES = 1 << 20


def written(folder: Path, path: str, data: bytes | memoryview) -> ReleasedFile:
    """A new file with these bytes at `path` below `folder`, whose folders are there already."""
    # not `open` and paths, which take as long as the rest
    handle = os.open(f"{folder}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)
    return ReleasedFile(path=path, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def copied(source: Path, released: ReleasedFile, folder: Path) -> ReleasedFile:
    """Copies a file of the release in `source` to the same path below `folder`.

    The folders below `folder` are there already.

    Raises:
        IntegrityError: its bytes are not those that were released.
    """
    try:
        handle = os.open(f"{source}/{released.path}", os.O_RDONLY)
    except FileNotFoundError as error:
        raise IntegrityError(f"{source}: {released.path} is missing") from error
    except (OSError, ValueError) as error:  # the latter for names that no file can have
        told = error.strerror if isinstance(error, OSError) else error
        raise IntegrityError(f"{source}: {released.path!r} cannot be read ({told})") from error
    try:
        copy = _copied_at_once if released.size_bytes < _PIECE_BYTES else _copied_in_pieces
        made = copy(handle, released.path, folder)
    finally:
        os.close(handle)
    if made.sha256 != released.sha256:
        raise IntegrityError(
            f"{source}: {released.path} is damaged or was changed: its SHA-256 is "
            f"{made.sha256}; wanted {released.sha256}"
        )
    return released


def _copied_at_once(handle: int, path: str, folder: Path) -> ReleasedFile:
    return written(folder, path, os.read(handle, _PIECE_BYTES))


def _copied_in_pieces(handle: int, path: str, folder: Path) -> ReleasedFile:
    target = PipedFile(folder / path)
    try:
        while piece := os.read(handle, _PIECE_BYTES):
            target.write(piece)
        return target.finish(path)
    finally:
        target.close()
