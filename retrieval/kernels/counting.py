"""Counting, in a tile of the product of images and texts, who reaches whose threshold."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from retrieval.embeddings import FloatRows, Ids
from retrieval.kernels.similarity import similarity
from retrieval.similarity import Similarities

Counts = NDArray[np.int32]

SEGMENT = 256
"""So many products of a row are looked at together: they stay in the nearest cache."""


class Side(NamedTuple):
    """The images, or the texts, of a tile: n of them.

    Attributes:
        rows: their unit rows, of shape (n, d).
        samples: for each the sample that it belongs to; within a sample nobody competes.
        thresholds: the similarity that a competitor must reach; none of its own sample is higher.
        above, below: what a product says for sure about it (`retrieval.similarity.Limits`).
        counts: how many of the other side reach it; added to.
    """

    rows: FloatRows
    samples: Ids
    thresholds: Similarities
    above: NDArray[np.float32]
    below: NDArray[np.float32]
    counts: Counts


@njit(nogil=True, cache=True)
def count_tile(tile: NDArray[np.float32], images: Side, texts: Side) -> None:
    """Counts, in both directions, who of the other side and of other samples reaches a threshold.

    Args:
        tile: products of the rows of images and texts, of shape (images, texts).
        images: their counts grow by the texts that reach their thresholds.
        texts: their counts grow by the images that do.
    """
    for image in range(tile.shape[0]):
        for start in range(0, tile.shape[1], SEGMENT):
            end = min(start + SEGMENT, tile.shape[1])
            above, unclear = _count_segment(
                tile[image, start:end],
                images.above[image],
                images.below[image],
                texts.above[start:end],
                texts.below[start:end],
                texts.counts[start:end],
            )
            images.counts[image] += above
            if unclear > 0:
                _count_unclear(tile[image], start, end, image, images, texts)


@njit(nogil=True, cache=True)
def _count_segment(
    products: NDArray[np.float32],
    image_above: np.float32,
    image_below: np.float32,
    text_above: NDArray[np.float32],
    text_below: NDArray[np.float32],
    text_counts: Counts,
) -> tuple[int, int]:
    """How many products are above the image's threshold for sure, and how many unclear at all.

    `text_counts` grow by what is above a text's threshold for sure. No branches: this is what the
    compiler turns into vector instructions.
    """
    above, unclear = np.int32(0), np.int32(0)
    for at in range(products.size):
        product = products[at]
        reaches_image = np.int32(product >= image_above)
        reaches_text = np.int32(product >= text_above[at])
        above += reaches_image
        text_counts[at] += reaches_text
        unclear += np.int32(product >= image_below) - reaches_image
        unclear += np.int32(product >= text_below[at]) - reaches_text
    return int(above), int(unclear)


@njit(nogil=True, cache=True)
def _count_unclear(
    products: NDArray[np.float32], start: int, end: int, image: int, images: Side, texts: Side
) -> None:
    """Settles, by the rule, what `_count_segment` could not."""
    for text in range(start, end):
        product = products[text]
        at_image = images.below[image] <= product < images.above[image]
        at_text = texts.below[text] <= product < texts.above[text]
        if not (at_image or at_text) or images.samples[image] == texts.samples[text]:
            continue
        exact = similarity(images.rows[image], texts.rows[text])
        if at_image and exact >= images.thresholds[image]:
            images.counts[image] += 1
        if at_text and exact >= texts.thresholds[text]:
            texts.counts[text] += 1
