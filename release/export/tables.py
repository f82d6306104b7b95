"""Releases as a CSV file and as a dataset of FiftyOne, each beside its images."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import orjson

from loupe.release.export.content import ExportedRow, ReleaseSource, written_image
from loupe.release.format.files import DigestingFile
from loupe.release.format.rows import CAPTION_COLUMNS, captions_in
from loupe.schemas.release import ReleasedFile

# CSV: `annotations.csv`, a line for each caption, and the images in `images/`.
#
# The first columns are those that most readers of such files know; an image without captions has a
# line of its own. Lists and objects are JSON texts.

_FIRST: Final = ("file_name", "identity", "split", "caption")
_OF_CAPTION: Final = ("caption", "entity_id", "author", "origin", "reviewed")
_ELSEWHERE: Final = {"identity", "split", "file_path", *CAPTION_COLUMNS.values()}
_TABLE: Final = "annotations.csv"


def write_csv(source: ReleaseSource, folder: Path) -> Iterator[ReleasedFile]:
    """Write the table and its images, one row of the release after the other."""
    names: list[str] = []
    with closing(DigestingFile(folder / _TABLE)) as table:
        for row in source.images():
            yield written_image(source, row, folder)
            if not names:
                others = [name for name in row.columns if name not in _ELSEWHERE]
                names = [*_FIRST, *_OF_CAPTION[1:], *others]
                table.write(_line(names))
            for values in _lines_of(row):
                table.write(_line([_cell(values.get(name)) for name in names]))
    yield table.as_released(_TABLE)


def _lines_of(row: ExportedRow) -> Iterator[dict[str, Any]]:
    shared = {**row.columns, "file_name": f"images/{row.name}"}
    captions = list(captions_in(row.columns, CAPTION_COLUMNS))
    for values in captions or [()]:
        yield shared | dict(zip(_OF_CAPTION, values, strict=False))


def _line(cells: list[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


# FiftyOne: `samples.json`, with the images in `data/`, as `fiftyone.types.FiftyOneDataset`.
#
# Without a version in `metadata.json` FiftyOne reads each sample as a plain object, so that an
# export needs none of the ids of its database. The split is a tag.

_SAMPLES, _METADATA = "samples.json", "metadata.json"
_IMAGE_SIZE: Final = ("width_px", "height_px")
_NAMES_OF_FIFTYONE: Final = {"id": "identity_id", "tags": "tags_of_release"}


def write_fiftyone(source: ReleaseSource, folder: Path) -> Iterator[ReleasedFile]:
    """Write the samples and their images, one row of the release after the other."""
    with closing(DigestingFile(folder / _SAMPLES)) as samples:
        samples.write(b'{"samples": [')
        for row in source.images():
            yield written_image(source, row, folder, "data")
            samples.write((b",\n" if row.number > 1 else b"\n") + orjson.dumps(_sample(row)))
        samples.write(b"\n]}\n")
    yield samples.as_released(_SAMPLES)
    with closing(DigestingFile(folder / _METADATA)) as metadata:
        manifest = source.manifest
        info = {
            "name": manifest.name,
            "release": manifest.id,
            "version_of_release": manifest.version,
        }
        metadata.write(orjson.dumps({"media_type": "image", "info": info}) + b"\n")
    yield metadata.as_released(_METADATA)


def _sample(row: ExportedRow) -> dict[str, Any]:
    width, height = (row.columns[name] for name in _IMAGE_SIZE)
    fields = {
        _NAMES_OF_FIFTYONE.get(name, name): value
        for name, value in row.columns.items()
        if name not in (*_IMAGE_SIZE, "file_path") and value is not None
    }
    return {
        "filepath": f"data/{row.name}",
        "tags": [row.columns["split"]],
        "metadata": {"_cls": "ImageMetadata", "width": width, "height": height},
        **fields,
    }
