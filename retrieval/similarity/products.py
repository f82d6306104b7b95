"""Similarities of rows: exact nearest rows, and error bounds of fast matrix products."""

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loupe.retrieval.embeddings import (
    FloatRows,
    Ids,
    Similarities,
    check_same_space,
    checked_ids,
    unit_rows,
)
from loupe.schemas.processes import usual_workers

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# Similarities of chosen pairs of rows, and error bounds of fast matrix products.
#
# All metrics share one rule: the similarity of two unit rows is their dot product as
# `loupe.retrieval.kernels.similarity` sums it. Products of whole blocks are faster, but the last
# bits of their float32 results depend on the block, the library and the processor. They only
# decide clear cases; whatever is nearer to a threshold than `rounding_bound` is computed again by
# the rule.

_UNIT_ROUNDOFF = 2.0**-24  # of float32, rounding to nearest
_LONGEST = 1.001  # no unit row is longer after rounding


class Limits(NamedTuple):
    """Bounds between which a float32 product does not decide about a threshold.

    A product of at least `above` means a similarity above the threshold, a product below `below`
    one below it. Products in between have to be computed again.
    """

    above: NDArray[np.float32]
    below: NDArray[np.float32]


def pair_similarities(
    left: FloatRows, right: FloatRows, left_at: Ids, right_at: Ids
) -> Similarities:
    """The similarity of row `left_at[k]` of `left` and row `right_at[k]` of `right`, for each k.

    `left` and `right` are unit rows, of shapes (n, d) and (m, d). The result has the shape of the
    indices.
    """
    from loupe.retrieval.kernels import fill_similarities

    found = np.empty(left_at.shape, dtype=np.float64)
    fill_similarities(left, right, left_at.ravel(), right_at.ravel(), found.reshape(-1))
    return found


def rounding_bound(dimension: int) -> float:
    """The largest error of a float32 product of two unit rows of `dimension`.

    It holds for every order of summation, fused or not (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.1): γ·|x|·|y| with γ = d·u / (1 − d·u). The error of the rule itself, with 2⁻⁵³ in
    place of u, is covered by the margin.
    """
    steps = dimension * _UNIT_ROUNDOFF
    return _LONGEST**2 * steps / (1 - steps)


def limits(thresholds: Similarities, dimension: int) -> Limits:
    """The bounds of `thresholds` for products of rows of `dimension`."""
    bound = rounding_bound(dimension)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    return Limits(
        np.nextafter((thresholds + bound).astype(np.float32), up),
        np.nextafter((thresholds - bound).astype(np.float32), down),
    )


# Blocks are processed in threads, so matrix products must not start threads of their own.


@contextmanager
def products_in_their_own_thread() -> Iterator[None]:
    """Makes NumPy compute matrix products in the calling thread.

    By default its library starts threads for each product, and several workers then wait for them:
    measured, 50 % more processor time.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> "ThreadpoolController":
    """The loaded thread pools, NumPy's among them; finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# The nearest rows of a gallery, exactly.
#
# The product of queries and gallery is computed tile by tile and never stored: memory is one tile a
# worker. Products only exclude what is not near enough; the rest is compared by the rule. So the
# result depends neither on the size of a tile nor on the number of workers.

_NO_SAMPLE = -1
_NOBODY = np.iinfo(np.int64).min


class Tiling(NamedTuple):
    """Tile sizes and workers: a matter of speed and memory (4 · queries · gallery bytes each)."""

    queries: int = 1024
    gallery: int = 4096
    workers: int = usual_workers()


class Neighbours(NamedTuple):
    """For each of n rows the k nearest of m others, the nearest first.

    If a row has fewer than k others, the remaining places hold -1 and similarity -inf.

    Attributes:
        places: their indices, of shape (n, k).
        similarities: their cosines, of shape (n, k), falling.
    """

    places: Ids
    similarities: Similarities


def nearest_units(
    queries: FloatRows,
    gallery: FloatRows,
    k: int,
    *,
    apart: tuple[Ids, Ids] | None = None,
    groups: tuple[Ids, Ids] | None = None,
    tiling: Tiling | None = None,
) -> Neighbours:
    """The `k` rows of `gallery` with the highest cosine to each row of `queries`.

    Of equally near rows the first are taken.

    Args:
        queries: unit rows, of shape (n, d).
        gallery: unit rows, of shape (m, d).
        k: how many are wanted.
        apart: the samples of queries and gallery: rows of its own sample are no neighbours.
        groups: the groups of both: only rows of its own group are neighbours.
        tiling: how to cut the work; the result does not depend on it.
    """
    from loupe.retrieval.kernels import GalleryPart, NearestBlock, keep_nearest

    cut = tiling or Tiling()
    nowhere = (np.full(len(queries), _NO_SAMPLE), np.zeros(len(gallery), np.int64))
    everywhere = (np.zeros(len(queries), np.int64), np.zeros(len(gallery), np.int64))
    (ours, theirs), (our_groups, their_groups) = apart or nowhere, groups or everywhere
    bound = rounding_bound(gallery.shape[1])
    found = Neighbours(np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf))

    def search(start: int) -> None:
        at = slice(start, start + cut.queries)
        block = NearestBlock(
            queries[at], ours[at], our_groups[at], found.similarities[at], found.places[at]
        )
        buffer = np.empty(len(block.rows) * min(cut.gallery, len(gallery)), dtype=np.float32)
        for first in range(0, len(gallery), cut.gallery):
            to = slice(first, first + cut.gallery)
            part = GalleryPart(gallery[to], first, theirs[to], their_groups[to])
            shape = len(block.rows), len(part.rows)
            tile = buffer[: shape[0] * shape[1]].reshape(shape)
            np.matmul(block.rows, part.rows.T, out=tile)
            keep_nearest(tile, block, part, bound)

    if k:
        with products_in_their_own_thread(), ThreadPoolExecutor(cut.workers) as workers:
            list(workers.map(search, range(0, len(queries), cut.queries)))
    return found


def nearest_rows(
    queries: ArrayLike,
    gallery: ArrayLike,
    k: int,
    *,
    groups: tuple[ArrayLike, ArrayLike] | None = None,
    excluded: ArrayLike | None = None,
    closed: Collection[int] = (),
    tiling: Tiling | None = None,
) -> Neighbours:
    """The neighbours of rows of any length, see `nearest_units`.

    Args:
        queries: floats of shape (n, d).
        gallery: floats of shape (m, d).
        k: how many are wanted.
        groups: a whole number for each query, and for each row of the gallery; only rows of the
            same group are neighbours (images of one source, say).
        excluded: for each query the gallery row that is never its neighbour (itself), -1 for none.
        closed: the indices of gallery rows that are nobody's neighbours.
        tiling: how to cut the work; the result does not depend on it.

    Raises:
        FormatError: the tables cannot be compared, or groups do not fit them.
    """
    ours, theirs = unit_rows(queries, "the queries"), unit_rows(gallery, "the gallery")
    check_same_space(ours, theirs, ("the queries", "the gallery"))
    our_groups, their_groups = groups or (np.zeros(len(ours), int), np.zeros(len(theirs), int))
    own = np.full(len(ours), _NO_SAMPLE) if excluded is None else excluded
    open_groups = checked_ids(their_groups, len(theirs), "the groups of the gallery").copy()
    open_groups[list(closed)] = _NOBODY
    return nearest_units(
        ours,
        theirs,
        k,
        apart=(
            checked_ids(own, len(ours), "what is excluded for the queries"),
            np.arange(len(theirs)),
        ),
        groups=(checked_ids(our_groups, len(ours), "the groups of the queries"), open_groups),
        tiling=tiling,
    )
