"""A row as it is compared: everything that it says but its number and the names of files."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from release.diff.records import RowPlace

Texts = list[dict[str, Any]]

_PLAIN = (
    *("split", "identity", "sha256", "width_px", "height_px"),
    *("task", "tier", "licence", "creator", "source_url", "image_entity_id"),
)
_CROP = (
    *("video", "video_sha256", "frame", "time_seconds", "box_xyxy", "score"),
    *("video_entity_id", "tracklet_entity_id"),
)
_CONTRAST = ("difference", "detail", "plan", "way", "anchor_entity_id")
_CAPTIONS = {
    "text": "captions",
    "entity_id": "caption_entity_ids",
    "author": "caption_authors",
    "origin": "caption_origins",
    "reviewed": "caption_reviewed",
}
_COARSE = {"text": "coarse_captions", "entity_id": "coarse_caption_entity_ids"}

ANCHOR = "contrast.anchor"
"""The image that one differs from, called as it is in its source: names of files may move."""
TOLD_FIELDS = frozenset(
    (
        *("image_entity_id", "creator", "source_url", "contrast.anchor_entity_id"),
        *("crop.score", "crop.video_entity_id", "crop.tracklet_entity_id"),
    )
)
"""Fields that tell where something comes from, and not what it is."""
SAID_VALUES = ("language", "of", "text")
"""The values of a text that are what it says; the others tell where it comes from."""


class ComparableRow(NamedTuple):
    """A row of a release, identified by the path of its image in its source.

    `anchor_entity_id` is that of the image that it differs from, for contrastive benchmarks.
    `texts` are the lists of captions, coarse captions and translations; empty ones are left out.
    """

    source: str
    source_file_path: str
    place: RowPlace
    fields: dict[str, Any]
    texts: dict[str, Texts]
    anchor_entity_id: str | None


def comparable_row(row: Mapping[str, Any], licences: Mapping[str, str]) -> ComparableRow:
    """A row, given by its columns, as it is compared.

    `licences` are those of sources: a release in which no image has terms of its own has no column
    for them.

    Raises:
        ValueError: the row is not complete.
    """
    fields = {name: row.get(name) for name in _PLAIN}
    if "licence" not in row:
        fields["licence"] = licences.get(row["source"])
    crop, contrast = row["crop"], row.get("contrast")
    if crop is not None:
        fields |= {f"crop.{name}": crop[name] for name in _CROP}
        fields["crop.box_xyxy"] = list(crop["box_xyxy"])
    if contrast is not None:
        fields |= {f"contrast.{name}": contrast[name] for name in _CONTRAST}
    texts = {
        "captions": _columns(row, _CAPTIONS),
        "coarse_captions": _columns(row, _COARSE) if "coarse_captions" in row else [],
        "translations": [_translation(row, one) for one in row.get("translations") or ()],
    }
    return ComparableRow(
        source=row["source"],
        source_file_path=row["source_file_path"],
        place=RowPlace(
            id=row["id"],
            file_path=row["file_path"],
            split=row["split"],
            entity_id=row["image_entity_id"],
        ),
        fields={name: value for name, value in fields.items() if value is not None},
        texts={name: listed for name, listed in texts.items() if listed},
        anchor_entity_id=contrast and contrast["anchor_entity_id"],
    )


def _columns(row: Mapping[str, Any], names: Mapping[str, str]) -> Texts:
    columns = (row[column] for column in names.values())
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _translation(row: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    """A translation, with the words that it translates in the place of their place."""
    values = {name: value for name, value in one.items() if name != "caption"}
    if not 0 <= one["caption"] < len(row["captions"]):
        raise ValueError(f"{row['file_path']} has a translation of a caption that it has not")
    return {**values, "of": row["captions"][one["caption"]]}
