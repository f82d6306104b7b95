"""The formats that can be imported."""

import tomllib
from pathlib import Path
from typing import Final

from schemas.build import format_name
from schemas.errors import UsageError
from schemas.faults import nearest_hint
from sources.annotations import Importer
from sources.captioned import CaptionedImporter, FineGrainedImporter
from sources.ccd import CcdImporter
from sources.coco import CocoImporter
from sources.image_list import ImageListImporter
from sources.licensed_images import LicensedImagesImporter
from sources.total_text import TotalTextImporter

_READERS: Final[dict[str, type[Importer]]] = {
    "captioned": CaptionedImporter,
    "ccd": CcdImporter,
    "coco": CocoImporter,
    "fine-grained": FineGrainedImporter,
    "image-list": ImageListImporter,
    "licensed-images": LicensedImagesImporter,
    "total-text": TotalTextImporter,
}


def _known_formats() -> dict[str, Importer]:
    listed = tomllib.loads(Path(__file__).with_name("formats.toml").read_text(encoding="utf-8"))
    return {
        name: _READERS[fields.pop("reader", name)](format=name, **fields)
        for name, fields in listed.items()
    }


IMPORTERS: Final = _known_formats()


def importer_for(format: str) -> Importer:  # noqa: A002 - the word of the command line
    """Return the importer of a format; case and underscores in its name do not matter.

    Raises:
        UsageError: there is no such format.
    """
    importer = IMPORTERS.get(format_name(format))
    if importer is None:
        hint = nearest_hint(format_name(format), IMPORTERS)
        raise UsageError(f"no format is called {format!r}; {hint}")
    return importer
