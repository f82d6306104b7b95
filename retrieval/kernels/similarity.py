"""The similarity of two rows, in float64 and always added up in the same order."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from retrieval.embeddings import Ids


@njit(nogil=True, cache=True, error_model="numpy")
def similarity(left: NDArray[np.floating], right: NDArray[np.floating]) -> float:
    """The dot product of two rows of shape (d,), of float32 or float64.

    Products of float32 are exact in float64, and the four sums below are the same on every
    machine: equal rows have equal similarities, to the last bit.
    """
    end = left.size - left.size % 4
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for at in range(0, end, 4):
        first += np.float64(left[at]) * np.float64(right[at])
        second += np.float64(left[at + 1]) * np.float64(right[at + 1])
        third += np.float64(left[at + 2]) * np.float64(right[at + 2])
        fourth += np.float64(left[at + 3]) * np.float64(right[at + 3])
    for at in range(end, left.size):
        first += np.float64(left[at]) * np.float64(right[at])
    return (first + second) + (third + fourth)


@njit(nogil=True, cache=True)
def fill_similarities(
    left: NDArray[np.floating],
    right: NDArray[np.floating],
    left_at: Ids,
    right_at: Ids,
    found: NDArray[np.float64],
) -> None:
    """Writes the similarity of rows `left_at[k]` and `right_at[k]` to `found[k]`."""
    for k in range(found.size):
        found[k] = similarity(left[left_at[k]], right[right_at[k]])
