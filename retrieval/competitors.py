"""Count the candidates that rank above the matches of each query, and find the nearest ones.

Samples are images with any number of texts. A query's positive is the best item of the other side
within its sample: for a text its image, for an image the most similar of its texts. Competitors are
the items of other samples that are at least as similar; ties count against the query. The positive
is among the first k if there are fewer than k competitors.

The product of images and texts is computed tile by tile and never stored: memory is one tile a
worker. Counts are exact, so they depend neither on the size of a block nor on the order of rows nor
on the number of workers.

Sim_image and Sim_text (CCD, table 1) tell how difficult a benchmark is: for each image the mean
cosine with the five most similar images of other samples, for each text with the five most similar
texts of other samples, and the means of these. Products in float32 propose a few more than five; a
row in which rounding could have excluded one of the five is computed again as a whole. The paper
names a model only for the human check (Ops-MM-embedding-v1).
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrieval.embeddings import FloatRows, Ids, unit_rows
from retrieval.similarity.products import (
    Limits,
    Similarities,
    limits,
    pair_similarities,
    products_in_their_own_thread,
    rounding_bound,
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


NEAREST = 5
"""Distractors of a sample (CCD, section 2.2)."""

_SPARE = 3  # proposed in addition to the nearest, so that rounding rarely matters
_ROWS, _COLUMNS = 1024, 4096
_AT_ONCE = 32  # whole rows of the product


class DistractorStatistics(NamedTuple):
    """The similarity of the nearest other samples.

    Attributes:
        rows: how many images, or texts, there are.
        mean: the mean over them of `of_row`; None where none of them has a distractor.
        of_row: for each the mean cosine with its nearest, of shape (n,); NaN where it has none.
    """

    rows: int
    mean: float | None
    of_row: Similarities


class BenchmarkDistractors(NamedTuple):
    """Both sides of a benchmark, and the time of computing."""

    images: DistractorStatistics
    texts: DistractorStatistics
    seconds: float


def benchmark_distractors(
    images: ArrayLike,
    texts: ArrayLike,
    image_of_text: Ids,
    names: tuple[str, str] = ("the image embeddings", "the text embeddings"),
) -> BenchmarkDistractors:
    """The similarity of the nearest other samples, among images and among texts.

    Args:
        images: embeddings of shape (n, d), a row for each sample.
        texts: embeddings of shape (m, d).
        image_of_text: for each text the index of its image.
        names: what to call the embeddings in messages.

    Raises:
        FormatError: the embeddings cannot be compared.
    """
    start = perf_counter()
    image_rows, text_rows = unit_rows(images, names[0]), unit_rows(texts, names[1])
    of_images = distractor_statistics(image_rows, np.arange(len(image_rows)))
    of_texts = distractor_statistics(text_rows, image_of_text)
    return BenchmarkDistractors(of_images, of_texts, perf_counter() - start)


def distractor_statistics(
    rows: FloatRows, samples: Ids, nearest: int = NEAREST
) -> DistractorStatistics:
    """The mean cosine of each row with its `nearest` most similar rows of other samples.

    Args:
        rows: unit rows, of images or of texts, of shape (n, d).
        samples: for each row the sample that it belongs to.
        nearest: how many distractors count; all of them where there are fewer.
    """
    blocks = [np.arange(at, min(at + _ROWS, len(rows))) for at in range(0, len(rows), _ROWS)]
    with products_in_their_own_thread(), ThreadPoolExecutor(usual_workers()) as workers:
        found = list(workers.map(partial(_block_means, rows, samples, nearest), blocks))
    of_row = np.concatenate(found)
    known = np.sort(of_row[~np.isnan(of_row)])  # sorted, so that their order does not matter
    return DistractorStatistics(len(rows), float(known.mean()) if len(known) else None, of_row)


def _block_means(rows: FloatRows, samples: Ids, nearest: int, block: Ids) -> Similarities:
    """The mean cosines of a block of rows with their nearest."""
    kept, kept_at = _proposed(rows, samples, nearest + _SPARE, block)
    means = _means(rows, block, kept_at, nearest)
    # A row that was not kept has at most the last product kept. If that is within twice the bound
    # of the last of the nearest, it may still be nearer.
    least = kept[:, nearest - 1] - 2 * rounding_bound(rows.shape[1])
    unclear = np.flatnonzero((kept[:, -1] >= least) & (kept_at[:, -1] >= 0))
    for start in range(0, len(unclear), _AT_ONCE):
        chosen = unclear[start : start + _AT_ONCE]
        products = rows[block[chosen]] @ rows.T
        for at, of_row in zip(chosen, products, strict=True):
            is_other = samples != samples[block[at]]
            near = np.flatnonzero(is_other & (of_row >= least[at]))
            means[at] = _means(rows, block[[at]], near[None], nearest)[0]
    return means


def _proposed(
    rows: FloatRows, samples: Ids, room: int, block: Ids
) -> tuple[NDArray[np.float32], Ids]:
    """The highest products of a block of rows with those of other samples, and their columns.

    Both have shape (block, room), padded with −∞ and −1.
    """
    from retrieval.kernels import keep_nearest

    kept = np.full((len(block), room), -np.inf, dtype=np.float32)
    kept_at = np.full(kept.shape, -1)
    buffer = np.empty(len(block) * min(_COLUMNS, len(rows)), dtype=np.float32)
    for first in range(0, len(rows), _COLUMNS):
        columns = slice(first, min(first + _COLUMNS, len(rows)))
        shape = len(block), columns.stop - first
        tile = buffer[: shape[0] * shape[1]].reshape(shape)
        np.matmul(rows[block], rows[columns].T, out=tile)
        keep_nearest(tile, samples[block], samples[columns], first, kept, kept_at)
    return kept, kept_at


def _means(rows: FloatRows, block: Ids, candidates: Ids, nearest: int) -> Similarities:
    """For each row of a block, the mean of its highest similarities with its candidates.

    `candidates` has shape (block, any), padded with −1; a row without any has NaN.
    """
    if candidates.shape[1] == 0:
        return np.full(len(block), np.nan)
    beside = np.repeat(block[:, None], candidates.shape[1], axis=1)
    similarities = pair_similarities(rows, rows, beside, np.maximum(candidates, 0))
    similarities[candidates < 0] = -np.inf
    highest = np.sort(similarities, axis=1)[:, -nearest:]
    is_there = np.isfinite(highest)
    sums, counts = np.where(is_there, highest, 0).sum(axis=1), is_there.sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
