"""Similarities of chosen pairs of rows, and how far a fast product may be from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import FloatRows, Ids

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# Similarities of chosen pairs of rows, and how far a fast product may be from them.
#
# One rule holds for all metrics: the similarity of two unit rows is their dot product as
# `retrieval.kernels.similarity` adds it up. Products of whole blocks are faster, but what they give
# depends on the block, the library and the processor, in the last bits of a float32. So they only
# sort out what is clear: what is nearer to a threshold than `rounding_bound` is computed again by
# the rule.

Similarities = NDArray[np.float64]

_UNIT_ROUNDOFF = 2.0**-24  # of float32, rounding to nearest
_LONGEST = 1.001  # no unit row is longer, however it was rounded


class Limits(NamedTuple):
    """What a float32 product says for sure about a threshold, of the thresholds' shape.

    A product of at least `above` belongs to a similarity above the threshold, one of less than
    `below` to one below it. What lies between has to be looked at again.
    """

    above: NDArray[np.float32]
    below: NDArray[np.float32]


def pair_similarities(
    left: FloatRows, right: FloatRows, left_at: Ids, right_at: Ids
) -> Similarities:
    """The similarity of row `left_at[k]` of `left` and row `right_at[k]` of `right`, for each k.

    `left` and `right` hold unit rows, of shapes (n, d) and (m, d); the indices have one shape, and
    the result has it, too.
    """
    from retrieval.kernels import fill_similarities

    found = np.empty(left_at.shape, dtype=np.float64)
    fill_similarities(left, right, left_at.ravel(), right_at.ravel(), found.reshape(-1))
    return found


def rounding_bound(dimension: int) -> float:
    """How far a float32 product of two unit rows of `dimension` may be from their similarity.

    Holds for every order of adding up, fused or not (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.1): γ·|x|·|y| with γ = d·u / (1 − d·u). The rule's own error, 2⁻⁵³ in place of u,
    is within the room left for it.
    """
    steps = dimension * _UNIT_ROUNDOFF
    return _LONGEST**2 * steps / (1 - steps)


def limits(thresholds: Similarities, dimension: int) -> Limits:
    """What products of rows of `dimension` say for sure about `thresholds`."""
    bound = rounding_bound(dimension)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    return Limits(
        np.nextafter((thresholds + bound).astype(np.float32), up),
        np.nextafter((thresholds - bound).astype(np.float32), down),
    )


# Blocks of work go to threads, so products must not start threads of their own.


@contextmanager
def products_in_their_own_thread() -> Iterator[None]:
    """Within, NumPy computes a product of matrices in the thread that asks for it.

    Left to itself, its library starts threads for each product, for which several workers then
    wait in turn: measured, that takes half as much processor time again.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> "ThreadpoolController":
    """Those that are loaded, NumPy's among them; to look for them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
