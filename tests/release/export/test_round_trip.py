"""What is exported is imported again: equal images, captions, splits and identities."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from loupe.schemas.base import sha256_of
from loupe.sources.images import ImageRoot
from loupe.sources.importer import importer_for
from loupe.sources.records import BadRow, ReadOptions, SourceRow
from tests.release.export.conftest import Releases
from tests.release.export.kinds import truth

ROUND_TRIPS = ("hf", "parquet", "webdataset", "csv", "fiftyone", "coco")
Known = list[tuple[str, str, str, tuple[str, ...]]]


def parts(name: str, folder: Path) -> Iterator[tuple[str, Path, ImageRoot]]:
    """The format, the annotations and the folder of images of each part of an export."""
    if name == "coco":
        for file in sorted((folder / "annotations").iterdir()):
            yield "coco-captions", file, folder / "images"
    elif name == "csv":
        yield "csv", folder / "annotations.csv", folder
    else:
        yield name, folder, folder


def imported(name: str, folder: Path) -> Known:
    found: Known = []
    for format_name, annotations, images in parts(name, folder):
        for row in importer_for(format_name).rows(annotations, ReadOptions()):
            if isinstance(row, BadRow):
                assert (name, row.reason) == ("coco", "no_usable_caption"), row
                continue
            found.append((digest(row, images), row.split, row.identity, row.captions))
    return sorted(found)


def digest(row: SourceRow, images: Any) -> str:
    data = row.held.read() if row.is_held else (images / row.file_path).read_bytes()
    return sha256_of(data)


def normal(captions: list[str]) -> tuple[str, ...]:
    """Captions as they are imported: in normal form, with single spaces."""
    return tuple(normalize("NFC", " ".join(one.split())) for one in captions)


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_an_export_is_imported_as_it_was_released(
    releases: Releases, exports: Releases, subtests: pytest.Subtests, name: str
) -> None:
    for kind, release in releases.items():
        with subtests.test(kind=kind):
            wanted = [
                (sha256_of(row["image"]), row["split"], row["identity"], normal(row["captions"]))
                for row in truth(release)
                if row["captions"] or name != "coco"  # whose images without captions are refused
            ]
            assert imported(name, exports[f"{kind}/{name}"]) == sorted(wanted)


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_an_import_takes_the_licence_that_its_export_states(exports: Releases, name: str) -> None:
    folder = exports[f"plain/{name}"]
    stated = json.loads((folder / "export.json").read_bytes())["sources"]
    for format_name, annotations, _ in parts(name, folder):
        assert importer_for(format_name).describe(annotations).licence == stated[0]["licence"]
        own = importer_for(format_name).describe(annotations, licence="CC0-1.0")
        assert own.licence == "CC0-1.0"
