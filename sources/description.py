"""A source as it is recorded: what was imported, under which terms."""

import hashlib
from pathlib import Path

from schemas.errors import FormatError
from schemas.records import Granularity, Source
from sources.importer import Importer


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


def describe_source(
    importer: Importer,
    path: Path,
    *,
    name: str | None = None,
    licence: str | None = None,
    citation: str | None = None,
    homepage: str | None = None,
    granularity: Granularity | None = None,
) -> Source:
    """The source that `path` is, by the importer's terms where the user gives no other.

    The name is the format's by default, the homepage the importer's unless the citation is another
    than the importer's: then the collection is another one too. Of the path only the file's name
    is kept, so that the same file imported from another folder is the same source.

    Raises:
        FormatError: the file cannot be read.
    """
    return Source(
        name=name or importer.format,
        format=importer.format,
        annotation_file=path.name,
        annotation_sha256=digest_file(path),
        licence=licence or importer.licence,
        citation=citation or importer.citation,
        homepage=homepage or (None if citation else importer.homepage),
        granularity=granularity or importer.granularity,
    )
