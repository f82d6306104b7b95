"""For 64-bit words the nearest of others, by the buckets of one band of bits or by all of them."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from schemas.kernels.hamming import count_bits

Words = NDArray[np.uint64]
Places = NDArray[np.int64]


@njit(nogil=True, cache=True)
def nearest_in_band(
    left: Words,
    left_starts: Places,
    left_order: Places,
    right: Words,
    right_starts: Places,
    right_order: Places,
    masks: Words,
    first_bucket: int,
    last_bucket: int,
    bits: Places,
    places: Places,
) -> None:
    """Enters for each word what is nearer than what is known, among those in buckets near to its.

    Args:
        left: words in the order of their bucket: the value of the band.
        left_starts: where each bucket begins in `left`; one more than there are buckets.
        left_order: where the words of `left` came from.
        right: the words that they are held against, in the same way.
        right_starts: where each bucket begins in `right`.
        right_order: where the words of `right` came from.
        masks: the differences of a band that are looked for.
        first_bucket: the first bucket of `left` to look at.
        last_bucket: the one after the last.
        bits: of each word, by where it came from, in how many bits the nearest differs.
        places: which that is, by where it came from: of equal ones the earliest.
    """
    for bucket in range(first_bucket, last_bucket):
        for at in range(left_starts[bucket], left_starts[bucket + 1]):
            word, here = left[at], left_order[at]
            best, place = bits[here], places[here]
            for mask in masks:
                other = bucket ^ np.int64(mask)
                for beside in range(right_starts[other], right_starts[other + 1]):
                    differing = count_bits(word ^ right[beside])
                    if differing > best:
                        continue
                    there = right_order[beside]
                    if differing < best or (place >= 0 and there < place):
                        best, place = differing, there
            bits[here], places[here] = best, place


@njit(nogil=True, cache=True)
def nearest_of_all(
    left: Words, right: Words, first: int, last: int, bits: Places, places: Places
) -> None:
    """Enters for each of `left` from `first` to before `last` what of `right` is nearer yet."""
    for at in range(first, last):
        word = left[at]
        best, place = bits[at], places[at]
        for beside in range(right.size):
            differing = count_bits(word ^ right[beside])
            if differing < best:
                best, place = differing, beside
        bits[at], places[at] = best, place
