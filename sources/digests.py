"""What annotations are known again by: the SHA-256 of a file, or of the files of a folder."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from schemas.errors import FormatError


def digest_file(path: Path) -> str:
    """The SHA-256 of a file as 64 hex digits, read piece by piece.

    Raises:
        FormatError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as fault:
        raise FormatError(f"{path} cannot be read: {fault.strerror}") from fault


def digest_folder(folder: Path, names: Iterable[str]) -> str:
    """The SHA-256 of the list of files that `sha256sum` writes, in the order of `names`.

    `names` are paths below `folder`, with forward slashes. Where a file changes its bytes or its
    name, or one joins or leaves, the digest is another one.

    Raises:
        FormatError: a file cannot be read.
    """
    listed = hashlib.sha256()
    for name in names:
        line = f"{digest_file(folder / name)}  {name}\n"
        listed.update(line.encode("utf-8", "surrogateescape"))
    return listed.hexdigest()
