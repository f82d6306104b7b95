"""Similarities of rows: exact nearest rows, and error bounds of fast matrix products."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrieval.embeddings import FloatRows, Ids, check_same_space, checked_ids, unit_rows

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# Similarities of chosen pairs of rows, and error bounds of fast matrix products.
#
# All metrics share one rule: the similarity of two unit rows is their dot product as
# `retrieval.kernels.similarity` sums it. Products of whole blocks are faster, but the last bits of
# their float32 results depend on the block, the library and the processor. They only decide clear
# cases; whatever is nearer to a threshold than `rounding_bound` is computed again by the rule.

Similarities = NDArray[np.float64]

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
    from retrieval.kernels import fill_similarities

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


_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Neighbours:
    """For each of n rows the k nearest of m others, the nearest first.

    If a row has fewer than k others, the remaining places hold -1 and similarity -inf.

    Attributes:
        places: their indices, of shape (n, k).
        similarities: their cosines, of shape (n, k), falling.
    """

    places: Ids
    similarities: Similarities


def nearest_rows(
    queries: ArrayLike,
    gallery: ArrayLike,
    k: int,
    *,
    query_groups: ArrayLike | None = None,
    gallery_groups: ArrayLike | None = None,
    excluded: ArrayLike | None = None,
    closed: ArrayLike | None = None,
    names: tuple[str, str] = ("the queries", "the gallery"),
    block_bytes: int = _BLOCK_BYTES,
) -> Neighbours:
    """The `k` rows of `gallery` with the highest cosine to each row of `queries`.

    Exact and the same for every size of blocks: products in float32 only choose candidates, which
    are ordered by `pair_similarities`; of equal ones the lowest index is nearer. Memory is that of
    the two tables in float32 and of one block.

    Args:
        queries: floats of shape (n, d).
        gallery: floats of shape (m, d).
        k: how many are wanted.
        query_groups: one whole number for each query; only gallery rows of the same group are its
            neighbours (images of its source, say). With `gallery_groups`, or not at all.
        gallery_groups: one for each row of the gallery.
        excluded: for each query the gallery row that is never its neighbour (itself), -1 for none.
        closed: the indices of gallery rows that are nobody's neighbours.
        names: what to call the tables in messages.
        block_bytes: how large a block of products may be.

    Raises:
        FormatError: the tables cannot be compared, or groups do not fit them.
    """
    ours, theirs = unit_rows(queries, names[0]), unit_rows(gallery, names[1])
    check_same_space(ours, theirs, names)
    allowed = _Allowed(
        len(ours), len(theirs), query_groups, gallery_groups, excluded, closed, names
    )
    room = min(k, len(theirs))
    places = np.full((len(ours), k), -1, np.int64)
    similarities = np.full((len(ours), k), -np.inf)
    if room < 1:
        return Neighbours(places, similarities)
    step = max(1, block_bytes // (4 * len(theirs)))
    for start in range(0, len(ours), step):
        block = ours[start : start + step]
        products = block @ theirs.T
        allowed.forbid(products, start)
        for row, found in enumerate(products):
            nearest, exact = _best_of(found, block[row : row + 1], theirs, room)
            places[start + row, : len(nearest)] = nearest
            similarities[start + row, : len(nearest)] = exact
    return Neighbours(places, similarities)


class _Allowed:
    """Which rows may be neighbours."""

    def __init__(
        self,
        queries: int,
        gallery: int,
        query_groups: ArrayLike | None,
        gallery_groups: ArrayLike | None,
        excluded: ArrayLike | None,
        closed: ArrayLike | None,
        names: tuple[str, str],
    ) -> None:
        if (query_groups is None) != (gallery_groups is None):
            raise ValueError("query_groups and gallery_groups must stand together")
        self._groups = None
        if query_groups is not None and gallery_groups is not None:
            ours = checked_ids(query_groups, queries, f"the groups of {names[0]}")
            theirs = checked_ids(gallery_groups, gallery, f"the groups of {names[1]}")
            self._groups = ours, theirs
        self._excluded = None
        if excluded is not None:
            self._excluded = checked_ids(excluded, queries, f"what is excluded for {names[0]}")
        self._closed = None if closed is None else np.asarray(closed, np.int64)

    def forbid(self, products: NDArray[np.float32], start: int) -> None:
        """Sets products of rows that may not be neighbours to -inf; `start` is the first row."""
        end = start + len(products)
        if self._groups is not None:
            ours, theirs = self._groups
            products[ours[start:end, None] != theirs[None, :]] = -np.inf
        if self._excluded is not None:
            own = self._excluded[start:end]
            has_own = own >= 0
            products[np.flatnonzero(has_own), own[has_own]] = -np.inf
        if self._closed is not None:
            products[:, self._closed] = -np.inf


def _best_of(
    products: NDArray[np.float32], query: FloatRows, gallery: FloatRows, room: int
) -> tuple[Ids, Similarities]:
    """The `room` nearest rows of one query; every row that may be among them is compared."""
    least = np.partition(products, -room)[-room]
    bound = np.float32(2 * rounding_bound(gallery.shape[1]))
    floor = np.nextafter(least - bound, np.float32(-np.inf)) if np.isfinite(least) else least
    chosen = np.flatnonzero((products >= floor) & (products > -np.inf))
    exact = pair_similarities(query, gallery, np.zeros_like(chosen), chosen)
    order = np.lexsort((chosen, -exact))[:room]
    return chosen[order], exact[order]
