"""The digest of a checkpoint, read once for as long as the file stays what it is."""

import hashlib
from functools import lru_cache
from pathlib import Path

from schemas.errors import ModelError

_REMEMBERED = 8


def checkpoint_digest(path: Path) -> str:
    """SHA-256 of a file, as 64 hex digits.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        status = path.stat()
        return _digest(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise ModelError(
            f"the checkpoint {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error


@lru_cache(maxsize=_REMEMBERED)
def _digest(path: Path, _size: int, _changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
