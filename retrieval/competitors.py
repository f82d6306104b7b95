"""The number of candidates that rank above the matches of each query, which determines recall.

Samples are images with any number of texts. A query's positive is the best item of the other side
within its sample: for a text its image, for an image the most similar of its texts. Competitors are
the items of other samples that are at least as similar; ties count against the query. The positive
is among the first k if there are fewer than k competitors.

The product of images and texts is computed tile by tile and never stored: memory is one tile a
worker. Counts are exact, so they depend neither on the size of a block nor on the order of rows nor
on the number of workers.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import FloatRows, Ids
from retrieval.similarity.products import (
    Limits,
    Similarities,
    limits,
    pair_similarities,
    products_in_their_own_thread,
)
from schemas.processes import usual_workers

if TYPE_CHECKING:
    from retrieval.kernels import Side

_UNREACHED = np.inf
"""The threshold of an image without texts: nothing reaches it, and the image is no query."""


class Tiling(NamedTuple):
    """Tile sizes and workers: a matter of speed and memory (4 · images · texts bytes a worker)."""

    images: int = 1024
    texts: int = 4096
    workers: int = usual_workers()


@dataclass(frozen=True, slots=True)
class Collection:
    """Images and texts of a benchmark.

    Attributes:
        images: unit rows, of shape (n, d).
        texts: unit rows, of shape (m, d).
        image_of_text: for each text the index of its image.
        pool_of_image: for each image the pool of candidates, 0 … `pools` − 1, that it and its texts
            belong to. Competitors are counted pool by pool.
        pools: how many pools there are.
    """

    images: FloatRows
    texts: FloatRows
    image_of_text: Ids
    pool_of_image: Ids
    pools: int = 1


class Competitors(NamedTuple):
    """The number of competitors of each query, by the pool that they are from.

    Attributes:
        of_images: texts that compete with each image's best text, of shape (n, pools).
        of_texts: images that compete with each text's image, of shape (m, pools).
        is_query: whether an image has a text, of shape (n,); one that has none is no query.
    """

    of_images: Ids
    of_texts: Ids
    is_query: NDArray[np.bool_]


def count_competitors(collection: Collection, tiling: Tiling | None = None) -> Competitors:
    """Counts the competitors in both directions, in one pass over the product of images and texts.

    Args:
        collection: what is to be found.
        tiling: how to cut the work; the result does not depend on it.
    """
    cut, pools = tiling or Tiling(), collection.pools
    images, texts = _queries_of(collection)
    image_blocks = [
        (block, images.side(block.rows))
        for block in _blocks(collection.pool_of_image, pools, cut.images)
    ]
    text_blocks = _blocks(collection.pool_of_image[collection.image_of_text], pools, cut.texts)
    of_images = np.zeros((len(images.rows), pools), dtype=np.int64)
    of_texts = np.zeros((len(texts.rows), pools), dtype=np.int64)
    count = partial(_count_block, len(images.rows), texts, image_blocks, pools)
    with products_in_their_own_thread(), ThreadPoolExecutor(cut.workers) as workers:
        for block, found in zip(text_blocks, workers.map(count, text_blocks), strict=True):
            of_images[:, block.pool] += found.of_images
            of_texts[block.rows] = found.of_texts
    return Competitors(of_images, of_texts, np.isfinite(images.thresholds))


def load_kernels() -> None:
    """Loads the compiled loops, compiling them if necessary, so that timings exclude it."""
    row, at = np.ones((1, 1), dtype=np.float32), np.zeros(1, dtype=np.int64)
    count_competitors(Collection(row, row, at, at))


class _Block(NamedTuple):
    """Indices of rows that are processed together, all of one pool."""

    pool: int
    rows: Ids


def _blocks(pool_of_row: Ids, pools: int, size: int) -> list[_Block]:
    by_pool = [np.flatnonzero(pool_of_row == pool) for pool in range(pools)]
    return [
        _Block(pool, rows[start : start + size])
        for pool, rows in enumerate(by_pool)
        for start in range(0, len(rows), size)
    ]


class _Queries(NamedTuple):
    """All images, or all texts, with the similarity that their competitors must reach."""

    rows: FloatRows
    samples: Ids
    thresholds: Similarities
    limits: Limits

    def side(self, chosen: Ids) -> "Side":
        """The chosen rows as a side of a tile, with counts of zero."""
        from retrieval.kernels import Side

        return Side(
            self.rows[chosen],
            self.samples[chosen],
            self.thresholds[chosen],
            self.limits.above[chosen],
            self.limits.below[chosen],
            np.zeros(len(chosen), dtype=np.int32),
        )


def _queries_of(collection: Collection) -> tuple[_Queries, _Queries]:
    """Images and texts with the similarities of their positives."""
    images, texts, image_of_text = collection.images, collection.texts, collection.image_of_text
    of_texts = pair_similarities(images, texts, image_of_text, np.arange(len(texts)))
    of_images = np.full(len(images), -_UNREACHED)
    np.maximum.at(of_images, image_of_text, of_texts)
    of_images[of_images == -_UNREACHED] = _UNREACHED
    dimension = images.shape[1]
    return (
        _Queries(images, np.arange(len(images)), of_images, limits(of_images, dimension)),
        _Queries(texts, image_of_text, of_texts, limits(of_texts, dimension)),
    )


class _BlockCounts(NamedTuple):
    """The counts of a block of texts.

    `of_images` are the texts of the block that compete for each image, of shape (n,); `of_texts`
    the competitors of the texts, of shape (block, pools).
    """

    of_images: Ids
    of_texts: Ids


def _count_block(
    images: int,
    texts: _Queries,
    image_blocks: "list[tuple[_Block, Side]]",
    pools: int,
    text_block: _Block,
) -> _BlockCounts:
    """Counts competitors in the product of all images with a block of texts."""
    from retrieval.kernels import count_tile

    of_images = np.zeros(images, dtype=np.int64)
    of_texts = np.zeros((len(text_block.rows), pools), dtype=np.int64)
    most_images = max(len(block.rows) for block, _ in image_blocks)
    products = np.empty((most_images, len(text_block.rows)), dtype=np.float32)
    text_side = texts.side(text_block.rows)
    for block, of_block in image_blocks:
        image_side = of_block._replace(counts=np.zeros_like(of_block.counts))
        text_side.counts.fill(0)
        tile = products[: len(block.rows)]
        np.matmul(image_side.rows, text_side.rows.T, out=tile)
        count_tile(tile, image_side, text_side)
        of_images[block.rows] += image_side.counts
        of_texts[:, block.pool] += text_side.counts
    return _BlockCounts(of_images, of_texts)
