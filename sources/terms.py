"""What every importer says of the collection it reads."""

from pathlib import Path

from schemas.base import Record
from schemas.records import Granularity
from sources.digests import digest_file


class ImporterTerms(Record):
    """A format's name and the terms of the collection that is published in it.

    The terms are what the authors state; who has others from them says so on import.
    """

    format: str
    licence: str
    citation: str
    homepage: str | None = None
    granularity: Granularity | None = None

    def digest(self, path: Path) -> str:
        """The SHA-256 of the annotations: of one file, unless the format is a folder of them.

        Raises:
            FormatError: they cannot be read.
        """
        return digest_file(path)
