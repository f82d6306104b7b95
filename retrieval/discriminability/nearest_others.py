"""S(t): the images that a caption could be mistaken for.

The product of captions and images is made tile by tile and never kept: memory is a tile for each
worker. Which images are nearest is exact, so neither the size of a tile nor the number of workers
matters; of images that are equally near, those that come first are taken.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from retrieval.discriminability.cosines import exact_cosines
from retrieval.embeddings import FloatRows, Ids
from retrieval.similarity import Similarities, rounding_bound
from retrieval.threads import products_in_their_own_thread, usual_workers
from schemas.errors import UsageError


class TextTiling(NamedTuple):
    """How the work is cut: a matter of speed, and of memory (4 · texts · images bytes a worker)."""

    texts: int = 1024
    images: int = 4096
    workers: int = usual_workers()


class NearestOthers(NamedTuple):
    """The k images nearest to each text, its own left out; the nearest first.

    Attributes:
        similarities: of shape (n, k), falling along each row.
        images: indices of images, of shape (n, k).
    """

    similarities: Similarities
    images: Ids


def nearest_others(
    texts: FloatRows, images: FloatRows, targets: Ids, k: int, tiling: TextTiling | None = None
) -> NearestOthers:
    """The `k` images that are nearest to each text, without the image that it describes.

    Args:
        texts: unit rows, of shape (n, d).
        images: unit rows, of shape (m, d).
        targets: for each text the index of its image; several may have the same.
        k: how many images are wanted, at most m − 1.
        tiling: how to cut the work; the result does not depend on it.

    Raises:
        UsageError: there are not so many other images.
    """
    if k > len(images) - 1:
        raise UsageError(
            f"k must be at most {len(images) - 1:,}, so many images there are beside a text's own; "
            f"got {k:,}"
        )
    cut = tiling or TextTiling()
    blocks = [slice(at, at + cut.texts) for at in range(0, len(texts), cut.texts)]
    find = partial(_of_block, texts, images, targets, k, cut.images)
    with products_in_their_own_thread(), ThreadPoolExecutor(cut.workers) as workers:
        found = list(workers.map(find, blocks))
    if not found:
        return NearestOthers(np.empty((0, k)), np.empty((0, k), dtype=np.int64))
    return NearestOthers(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def load_kernels() -> None:
    """Loads the compiled loops, and compiles them where this machine has not, for timings' sake."""
    rows = np.eye(3, dtype=np.float32)
    found = nearest_others(rows, rows, np.arange(3), 2)
    exact_cosines(rows, rows, found.images)


def _of_block(
    texts: FloatRows, images: FloatRows, targets: Ids, k: int, width: int, block: slice
) -> NearestOthers:
    """The nearest of a block of texts."""
    from retrieval.kernels.exact_nearest import keep_exact_nearest

    rows = texts[block]
    found = NearestOthers(np.full((len(rows), k), -np.inf), np.full((len(rows), k), -1))
    buffer = np.empty(len(rows) * min(width, len(images)), dtype=np.float32)
    bound = rounding_bound(texts.shape[1])
    for first in range(0, len(images), width):
        part = images[first : first + width]
        tile = buffer[: len(rows) * len(part)].reshape(len(rows), len(part))
        np.matmul(rows, part.T, out=tile)
        keep_exact_nearest(tile, rows, part, first, targets[block], bound, *found)
    return found
