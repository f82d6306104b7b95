"""The formats that can be imported."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from schemas.build import format_name
from schemas.errors import UsageError
from schemas.faults import nearest_hint
from schemas.records import Granularity
from sources.ccd import CCD
from sources.coco import COCO_CAPTIONS
from sources.coco_instances import COCO_INSTANCES
from sources.fine_grained import FLICKR30K_FG, MSCOCO_FG
from sources.image_list import IMAGE_LIST
from sources.json_lines import JSON_LINES
from sources.karpathy import KARPATHY_COCO, KARPATHY_FLICKR30K
from sources.licensed_images import LICENSED_IMAGES
from sources.pedes import CUHK_PEDES, ICFG_PEDES, RSTPREID, UFINE3C, UFINE6926
from sources.records import ReadOptions, Row
from sources.total_text import TOTAL_TEXT


class Importer(Protocol):
    """Reads one annotation format; a value without state, safe to share between threads."""

    @property
    def format(self) -> str:
        """The name that the user calls it by."""

    @property
    def licence(self) -> str:
        """The terms that the authors of the collection state."""

    @property
    def citation(self) -> str:
        """The publication to name."""

    @property
    def homepage(self) -> str | None:
        """Where the collection is described."""

    @property
    def granularity(self) -> Granularity | None:
        """How detailed the captions are, where all of the collection's are alike."""

    def digest(self, path: Path) -> str:
        """The SHA-256 of the annotations, by which they are known again.

        Raises:
            FormatError: they cannot be read.
        """

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """The file's records in its order, holding one at a time in memory.

        Each record gives exactly one `SourceRow` or one `BadRow` of scope `record`; a row whose
        captions or facts are partly bad is preceded by one `BadRow` of scope `caption` or `fact`
        for each of those; a file that breaks off ends with one `BadRow` of scope `file`.

        Raises:
            FormatError: on the first step, where the file is not of this format at all.
        """


_KNOWN: Final[tuple[Importer, ...]] = (
    CUHK_PEDES,
    ICFG_PEDES,
    RSTPREID,
    UFINE6926,
    UFINE3C,
    COCO_CAPTIONS,
    KARPATHY_COCO,
    KARPATHY_FLICKR30K,
    MSCOCO_FG,
    FLICKR30K_FG,
    JSON_LINES,
    IMAGE_LIST,
    COCO_INSTANCES,
    TOTAL_TEXT,
    LICENSED_IMAGES,
    CCD,
)
IMPORTERS: Final[dict[str, Importer]] = {importer.format: importer for importer in _KNOWN}


def importer_for(format: str) -> Importer:  # noqa: A002 - the word of the command line
    """The importer of a format; upper case and underscores are read as the user means them.

    Raises:
        UsageError: no format is called so.
    """
    importer = IMPORTERS.get(format_name(format))
    if importer is None:
        hint = nearest_hint(format_name(format), IMPORTERS)
        raise UsageError(f"no format is called {format!r}; {hint}")
    return importer
