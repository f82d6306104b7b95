"""Images and texts of a release as what asks and what is found, with the groups they belong to."""

from collections.abc import Iterator

from models.embedding import Vectors
from release.reading import ReadRelease, ReadRow
from retrieval.evaluation import Side
from schemas.evaluation import DIRECTIONS, Direction, ShownItem
from schemas.release import UNSTATED, Manifest

_REWRITES = ("rewrite", "edited_rewrite")
UNKNOWN_TASK = "not known"
"""The group of images whose task is not known."""
Groups = dict[str, list[str]]


def sides(read: ReadRelease, images: Vectors, texts: Vectors) -> tuple[Side, Side]:
    """The images and the texts of a release with their vectors.

    Raises:
        UsageError: the vectors are not one for each, or cannot be compared.
    """
    shown = [shown_image(row) for row in read.rows]
    rows = [row for row in read.rows for _ in row.captions]
    wording = [
        "rewrite" if caption.origin in _REWRITES else "original"
        for row in read.rows
        for caption in row.captions
    ]
    of_texts = {**_groups(read.manifest, rows), "wording": wording}
    return (
        Side.of(shown, images, _telling(_groups(read.manifest, list(read.rows))), "images"),
        Side.of(list(shown_texts(read)), texts, _telling(of_texts), "texts"),
    )


def shown_image(row: ReadRow) -> ShownItem:
    """An image as evaluations tell of it."""
    return ShownItem(
        entity_id=row.entity_id,
        file_path=row.file_path,
        sha256=row.sha256,
        person=row.id,
        source=row.source,
    )


def shown_texts(read: ReadRelease) -> Iterator[ShownItem]:
    """The captions of all images, in the order of the release."""
    for row in read.rows:
        image = shown_image(row)
        for position, caption in enumerate(row.captions):
            told = {"entity_id": caption.entity_id, "text": caption.text, "position": position}
            yield image.model_copy(update=told)


def scored_directions(read: ReadRelease) -> tuple[Direction, ...]:
    """The directions in which a release is scored.

    Where images have no captions they are candidates only, and image to text says nothing (ReCoS
    scores its v2 in one direction).
    """
    return DIRECTIONS if all(row.captions for row in read.rows) else ("text-to-image",)


def _groups(manifest: Manifest, rows: list[ReadRow]) -> Groups:
    granularity = {one.name: one.granularity for one in manifest.sources if one.granularity}
    name = {source: f"{source} ({how})" for source, how in granularity.items()}
    return {
        "task": [row.task or UNKNOWN_TASK for row in rows],
        "tier": [row.tier or UNSTATED for row in rows],
        "source": [name.get(row.source, row.source) for row in rows],
        "granularity": [granularity.get(row.source, UNSTATED) for row in rows],
    }


def _telling(groups: Groups) -> Groups:
    """Those dimensions in which not everything is the same, and of equal divisions the first."""
    divisions: dict[tuple[int, ...], str] = {}
    for dimension, labels in groups.items():
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        division = tuple(numbers[label] for label in labels)
        if len(numbers) > 1:
            divisions.setdefault(division, dimension)
    return {dimension: groups[dimension] for dimension in divisions.values()}
