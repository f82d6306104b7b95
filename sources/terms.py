"""What every importer says of the collection it reads."""

from schemas.base import Record
from schemas.records import Granularity


class ImporterTerms(Record):
    """A format's name and the terms of the collection that is published in it.

    The terms are what the authors state; whoever has others from them says so on import.
    """

    format: str
    licence: str
    citation: str
    homepage: str | None = None
    granularity: Granularity | None = None
