"""The record sets of `croissant.json`: the rows with a field for every column, splits and sources.

Fields are derived from the columns' types in Parquet, so that none is forgotten; their meaning is
stated here.
"""

from typing import Any, Final

import pyarrow as pa

from release.parquet_rows import schema_of
from release.row_form import RowForm
from schemas.release import Manifest

ROWS: Final = "rows"
SPLITS: Final = "splits"
SOURCES: Final = "sources"

_URLS = {"train": "cr:TrainingSplit", "val": "cr:ValidationSplit", "test": "cr:TestSplit"}
_MEANINGS: Final[dict[str, str]] = {
    "image": "The image.",
    "id": "The identity that the image shows, counted from 1; of benchmarks of scenes, the image.",
    "source": "The collection that the image comes from.",
    "identity": "The identity in that collection.",
    "split": "The split that the image is in.",
    "file_path": "The image as a file of the release; no two rows have the same.",
    "source_file_path": "The image in its collection.",
    "captions": "What the image shows, in words.",
    "caption_entity_ids": "The entity of each caption.",
    "caption_authors": "Who wrote each caption: a source, model@revision, or a pseudonym.",
    "caption_origins": "How each caption came about.",
    "caption_reviewed": "Whether a person decided on each caption.",
    "image_entity_id": "The entity of the image.",
    "width_px": "The width of the image in pixels.",
    "height_px": "The height of the image in pixels.",
    "sha256": "The SHA-256 of the image's bytes.",
    "task": "What one must tell apart to find the image.",
    "tier": "The first version that has the image.",
    "licence": "What the image may be used under.",
    "creator": "The creator of the image.",
    "source_url": "The page that the image is from.",
    "coarse_captions": "The captions that the fine ones were made of.",
    "coarse_caption_entity_ids": "The entity of each of these.",
    "translations": "The captions in other languages.",
    "translations.language": "The language (ISO 639-1).",
    "translations.caption": "The place of the caption that is said, from 0.",
    "translations.text": "The caption in that language.",
    "translations.entity_id": "The entity of the translation.",
    "translations.author": "Who translated.",
    "contrast": "How the image differs from its anchor; nothing for an anchor.",
    "contrast.anchor": "The anchor's file_path.",
    "contrast.difference": "The type of the difference.",
    "contrast.detail": "The detail of the anchor.",
    "contrast.plan": "What the detail became.",
    "contrast.way": "Whether the image was found (search) or edited (edit).",
    "contrast.anchor_entity_id": "The anchor's entity.",
    "crop": "Where the image was cut out of a video; nothing for other images.",
    "crop.video": "The video.",
    "crop.video_sha256": "The SHA-256 of the video.",
    "crop.video_entity_id": "The entity of the video.",
    "crop.tracklet_entity_id": "The entity of the tracklet that the image was selected in.",
    "crop.frame": "The frame, from 0.",
    "crop.time_seconds": "The time in the video in seconds.",
    "crop.score": "The detector's score.",
    "crop.box_xyxy": "The box: left, top, right, bottom, in pixels.",
}
_KEY = "file_path"
_IMAGE = "image"
_REFERENCES = {"split": f"{SPLITS}/name", "source": f"{SOURCES}/name"}


def rows_of(manifest: Manifest, form: RowForm) -> list[dict[str, Any]]:
    """The record sets of a release."""
    return [_splits(manifest), _sources(manifest), _rows(form)]


def _rows(form: RowForm) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": ROWS,
        "name": ROWS,
        "description": "A row for each image, with its captions and where all of it comes from.",
        "key": {"@id": f"{ROWS}/{_KEY}"},
        "field": [_column(one) for one in schema_of(form)],
    }


def _column(column: pa.Field) -> dict[str, Any]:
    name = column.name
    field = _named(name) | {"source": _extract(name)}
    if name == _IMAGE:
        field["dataType"] = "sc:ImageObject"
        field["source"]["transform"] = {"jsonPath": "bytes"}
    elif pa.types.is_struct(column.type):
        del field["source"]
        field["subField"] = [_part(name, one) for one in column.type]
    elif pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):
        del field["source"]
        field |= {"isArray": True, "arrayShape": "-1"}
        field["subField"] = [_part(name, one) for one in column.type.value_type]
    else:
        field |= _typed(column.type)
    if name in _REFERENCES:
        field["references"] = {"field": {"@id": _REFERENCES[name]}}
    return field


def _part(column: str, part: pa.Field) -> dict[str, Any]:
    """A part of a column of structures."""
    source = _extract(column) | {"transform": {"jsonPath": part.name}}
    return _named(f"{column}.{part.name}") | {"source": source} | _typed(part.type)


def _named(path: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{ROWS}/{path.replace('.', '/')}",
        "name": path.rpartition(".")[2],
        "description": _MEANINGS[path],
    }


def _extract(column: str) -> dict[str, Any]:
    return {"fileSet": {"@id": "row-files"}, "extract": {"column": column}}


def _typed(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(kind):
        return _typed(kind.value_type) | {"isArray": True, "arrayShape": "-1"}
    if pa.types.is_boolean(kind):
        return {"dataType": "sc:Boolean"}
    if pa.types.is_integer(kind):
        return {"dataType": "sc:Integer"}
    return {"dataType": "sc:Float" if pa.types.is_floating(kind) else "sc:Text"}


def _splits(manifest: Manifest) -> dict[str, Any]:
    splits = [one.split for one in manifest.statistics.splits]
    return _inline(
        SPLITS,
        "The splits.",
        [{"name": one, "url": _URLS[one].replace("cr:", _CR)} for one in splits],
        ("cr:Split",),
    )


_CR: Final = "http://mlcommons.org/croissant/"


def _sources(manifest: Manifest) -> dict[str, Any]:
    described: dict[str, dict[str, str]] = {}
    for one in manifest.sources:
        details = {
            "name": one.name,
            "licence": one.licence,
            "citation": one.citation,
            "homepage": one.homepage or "",
        }
        described.setdefault(one.name, details)
    return _inline(SOURCES, "The collections that images come from.", list(described.values()))


def _inline(
    name: str, meaning: str, records: list[dict[str, str]], kinds: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A record set whose records are in the document; its key is `name`."""
    columns = list(records[0]) if records else ["name"]
    fields: list[dict[str, Any]] = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{column}",
            "name": column,
            "dataType": "sc:URL" if column == "url" else "sc:Text",
        }
        for column in columns
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": meaning,
        **({"dataType": list(kinds)} if kinds else {}),
        "key": {"@id": f"{name}/name"},
        "field": fields,
        "data": [{f"{name}/{column}": one[column] for column in columns} for one in records],
    }
