"""A source as it is recorded: what was imported, under which terms."""

from pathlib import Path

from schemas.records import Granularity, Source
from sources.importer import Importer


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
        FormatError: the annotations cannot be read.
    """
    return Source(
        name=name or importer.format,
        format=importer.format,
        annotation_file=path.name,
        annotation_sha256=importer.digest(path),
        licence=licence or importer.licence,
        citation=citation or importer.citation,
        homepage=homepage or (None if citation else importer.homepage),
        granularity=granularity or importer.granularity,
    )
