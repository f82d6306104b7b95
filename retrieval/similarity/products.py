"""Similarities of chosen pairs of rows, and error bounds of fast matrix products."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import FloatRows, Ids

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
