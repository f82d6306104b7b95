"""Literal references of similarity and competitors, by plain loops in float64."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.competitors import Collection
from retrieval.embeddings import FloatRows, unit_rows


def similarity(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Dot product, correctly rounded."""
    return math.fsum(float(a) * float(b) for a, b in zip(left, right, strict=True))


def competitors_of_text(collection: Collection, text: int) -> list[int]:
    """Number per pool of images of other samples at least as similar as the image of the text."""
    mine = int(collection.image_of_text[text])
    own = similarity(collection.images[mine], collection.texts[text])
    counts = [0] * collection.pools
    for image, row in enumerate(collection.images):
        if image != mine and similarity(row, collection.texts[text]) >= own:
            counts[collection.pool_of_image[image]] += 1
    return counts


def competitors_of_image(collection: Collection, image: int) -> list[int] | None:
    """Number per pool of texts of other samples at least as similar as the best own text.

    None if the image has no text.
    """
    row = collection.images[image]
    own = [
        similarity(row, text)
        for text, its in zip(collection.texts, collection.image_of_text, strict=True)
        if its == image
    ]
    if not own:
        return None
    counts = [0] * collection.pools
    for text, its in zip(collection.texts, collection.image_of_text, strict=True):
        if its != image and similarity(row, text) >= max(own):
            counts[collection.pool_of_image[its]] += 1
    return counts


def tied_rows(random: np.random.Generator, count: int, dimension: int, kinds: int) -> FloatRows:
    """Unit rows, many of which are equal or differ only in their last bits."""
    base = unit_rows(random.standard_normal((kinds, dimension)), "base")
    rows = base[random.integers(kinds, size=count)]
    nudged = random.random(rows.shape) < 0.3
    up = np.nextafter(rows, np.float32(2))
    chosen = random.random((count, 1)) < 0.5
    return np.ascontiguousarray(np.where(nudged & chosen, up, rows))
