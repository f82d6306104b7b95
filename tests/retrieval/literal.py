"""Literal references of similarity and ranks, by plain loops in float64."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loupe.retrieval.embeddings import FloatRows, Ids, unit_rows


def similarity(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Dot product, correctly rounded."""
    return math.fsum(float(a) * float(b) for a, b in zip(left, right, strict=True))


def competitors_of_text(images: FloatRows, texts: FloatRows, of_text: Ids, text: int) -> int:
    """Number of images of other samples at least as similar as the image of the text."""
    mine = int(of_text[text])
    own = similarity(images[mine], texts[text])
    return sum(
        similarity(row, texts[text]) >= own for image, row in enumerate(images) if image != mine
    )


def competitors_of_image(images: FloatRows, texts: FloatRows, of_text: Ids, image: int) -> int:
    """Number of texts of other samples at least as similar as the best own text."""
    alike = [similarity(images[image], text) for text in texts]
    best = max(alike[at] for at in np.flatnonzero(of_text == image))
    return sum(alike[at] >= best for at in np.flatnonzero(of_text != image))


def tied_rows(random: np.random.Generator, count: int, dimension: int, kinds: int) -> FloatRows:
    """Unit rows, many of which are equal or differ only in their last bits."""
    base = unit_rows(random.standard_normal((kinds, dimension)), "base")
    rows = base[random.integers(kinds, size=count)]
    nudged = random.random(rows.shape) < 0.3
    up = np.nextafter(rows, np.float32(2))
    chosen = random.random((count, 1)) < 0.5
    return np.ascontiguousarray(np.where(nudged & chosen, up, rows))
