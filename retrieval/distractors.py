"""The difficulty of a benchmark: the similarity of the nearest other samples.

For each image, the mean cosine with the five most similar images of other samples; for each text,
with the five most similar texts of other samples (texts of the same image are no distractors). The
means over all images and over all texts are Sim_image and Sim_text of the CCD paper's table 1. The
paper names a model only for the human check (Ops-MM-embedding-v1).

The five are exact: products in float32 propose a few more than five, and a row in which rounding
could have excluded one of the five is computed again as a whole.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrieval.embeddings import FloatRows, Ids, unit_rows
from retrieval.similarity.products import (
    Similarities,
    pair_similarities,
    products_in_their_own_thread,
    rounding_bound,
)
from schemas.processes import usual_workers

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
