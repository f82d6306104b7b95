"""Scoring a contrastive release (CCD): who asks, what is found, and which pairs are told apart.

Originals ask, and originals and contrastive images are found: the paper's tables 2 and 4. The other
settings are those of its figure 4: with coarse captions, without contrastive images, or neither.
"""

from collections.abc import Iterator

import numpy as np

from models.embedding import Vectors
from release.reading import ReadRelease
from retrieval.bootstrap import REPLICATES
from retrieval.contrastive import (
    ContrastiveSamples,
    contrast_accuracy,
    contrast_similarity,
    contrastive_result,
    groups_by_difference,
    overall_accuracy,
)
from retrieval.distractors import benchmark_distractors
from retrieval.evaluation import Scored, Side, score_direction, score_setting
from schemas.errors import IntegrityError
from schemas.evaluation import ContrastiveResult, Direction, GroupResult, ShownItem

PROTOCOL = (
    "original samples ask, original and contrastive ones are found, by cosine; of equals, matches "
    "count last; FG-CDA over pairs of an anchor and a contrastive image in both orders, ties are "
    "errors"
)
INTERVAL = f"95 %, percentile bootstrap over images, of FG-CDA over groups, {REPLICATES:,} draws"
ORIGINAL, FINE, CONTRASTIVE = "original", "+ fine captions", "+ contrastive images"
BOTH, ALL_ASK = "both", "both, all ask"
"""The settings: those of figure 4, and all samples as queries."""


def is_contrastive(read: ReadRelease) -> bool:
    """Whether any image of the split differs from an anchor."""
    return any(row.contrast for row in read.rows)


def samples_of(read: ReadRelease) -> ContrastiveSamples:
    """The images of a release as the samples of a contrastive benchmark.

    Raises:
        IntegrityError: the anchor of an image is not in the split.
    """
    number = {row.file_path: at for at, row in enumerate(read.rows)}
    anchors = []
    for at, row in enumerate(read.rows):
        anchor = at if row.contrast is None else number.get(row.contrast.anchor)
        if anchor is None:
            raise IntegrityError(
                f"{read.folder}: the anchor of {row.file_path} is not in the split {read.split!r}"
            )
        anchors.append(anchor)
    return ContrastiveSamples(
        tuple(row.file_path for row in read.rows),
        np.array(anchors),
        tuple(row.contrast and row.contrast.difference for row in read.rows),
        np.array([len(row.captions) for row in read.rows]),
    )


class ContrastiveSides:
    """Images and texts of a release with their vectors, as one direction compares them.

    Args:
        samples: what differs from which.
        images: all images.
        texts: all fine captions.
        coarse: coarse captions; None where there are none, or no vectors of them.
    """

    def __init__(
        self, samples: ContrastiveSamples, images: Side, texts: Side, coarse: Side | None
    ) -> None:
        self._samples = samples
        self._images = images
        self._texts = texts
        self._coarse = coarse
        self._original = samples.is_original
        self._told_of_original = self._original[samples.image_of_text]

    def scored(self, direction: Direction) -> Scored:
        """The scores of a direction: R@k with its settings, and FG-CDA with its types."""
        samples = self._samples
        accuracy = contrast_accuracy(self._images.rows, self._texts.rows, samples)[direction]
        found = score_direction(direction, *self._asked(direction))
        overall = overall_accuracy(accuracy, samples)
        result = found.direction.model_copy(
            update={"scores": {**found.direction.scores, **overall}}
        )
        return Scored(
            result,
            (
                *groups_by_difference(direction, accuracy, samples),
                *self._settings(direction),
                *found.groups,
            ),
        )

    def result(self) -> ContrastiveResult:
        """How similar pairs are, and how near the nearest other samples."""
        images, texts, samples = self._images.rows, self._texts.rows, self._samples
        return contrastive_result(
            contrast_similarity(images, samples),
            benchmark_distractors(images, texts, samples.image_of_text),
        )

    def _asked(self, direction: Direction) -> tuple[Side, Side]:
        if direction == "text-to-image":
            return self._texts.chosen(self._told_of_original), self._images
        return self._images.chosen(self._original), self._texts

    def _settings(self, direction: Direction) -> Iterator[GroupResult]:
        for name, queries, gallery in self._figure_4(direction):
            yield score_setting(name, direction, queries, gallery)

    def _figure_4(self, direction: Direction) -> Iterator[tuple[str, Side, Side]]:
        originals, coarse = self._images.chosen(self._original), self._coarse
        fine = self._texts.chosen(self._told_of_original)
        if direction == "text-to-image":
            if coarse is not None:
                yield ORIGINAL, coarse, originals
            yield FINE, fine, originals
            if coarse is not None:
                yield CONTRASTIVE, coarse, self._images
            yield BOTH, fine, self._images
            yield ALL_ASK, self._texts, self._images
        else:
            if coarse is not None:
                yield ORIGINAL, originals, coarse
            yield FINE, originals, fine
            yield BOTH, originals, self._texts
            yield ALL_ASK, self._images, self._texts


def coarse_texts(read: ReadRelease) -> list[str]:
    """The coarse captions of all anchors, image by image; none where an anchor has none."""
    anchors = [row for row in read.rows if row.contrast is None]
    if not all(row.coarse_captions for row in anchors):
        return []
    return [text for row in anchors for text in row.coarse_captions]


def coarse_side(read: ReadRelease, shown: list[ShownItem], vectors: Vectors) -> Side:
    """The coarse captions with their vectors; `shown` are the images of the release."""
    items = [
        item.model_copy(update={"text": text, "position": position})
        for item, row in zip(shown, read.rows, strict=True)
        if row.contrast is None
        for position, text in enumerate(row.coarse_captions)
    ]
    return Side.of(items, vectors, {}, "coarse captions")
