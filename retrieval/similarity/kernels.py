"""Loops compiled by numba, imported inside functions only: numba is slow to load."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Pairs of 64-bit words that differ in few bits, found by the buckets of one band of bits.

Words = NDArray[np.uint64]
Places = NDArray[np.int64]

_FIRST_ROOM = 1024
_EVERY_SECOND = np.uint64(0x5555555555555555)
_EVERY_SECOND_PAIR = np.uint64(0x3333333333333333)
_EVERY_SECOND_FOUR = np.uint64(0x0F0F0F0F0F0F0F0F)
_EVERY_BYTE = np.uint64(0x0101010101010101)


@njit(nogil=True, cache=True)
def count_bits(word: np.uint64) -> int:
    """How many bits of a word are set, added up in ever wider fields.

    The compiler knows the pattern, and makes one instruction of it where the processor has one.
    """
    pairs = word - ((word >> np.uint64(1)) & _EVERY_SECOND)
    fours = (pairs & _EVERY_SECOND_PAIR) + ((pairs >> np.uint64(2)) & _EVERY_SECOND_PAIR)
    bytes_ = (fours + (fours >> np.uint64(4))) & _EVERY_SECOND_FOUR
    return np.int64((bytes_ * _EVERY_BYTE) >> np.uint64(56))  # type: ignore[return-value]


@njit(nogil=True, cache=True)
def find_in_band(
    left: Words,
    left_starts: Places,
    right: Words,
    right_starts: Places,
    masks: Words,
    band: int,
    band_bits: int,
    radius: int,
    first_bucket: int,
    last_bucket: int,
    is_same: bool,
) -> tuple[Places, Places]:
    """Pairs within `radius` whose band `band` differs by one of `masks`, in no earlier band so.

    A pair that is near in several bands is given out for the first of them only.

    Args:
        left: words in the order of their bucket: the value of the band.
        left_starts: where each bucket begins in `left`; one more than there are buckets.
        right: the words that they are compared with, in the same form.
        right_starts: where each bucket begins in `right`.
        masks: the differences of a band that are looked for; bands of a pair within `radius` cannot
            all differ by something else.
        band: which band the words are in order of, from 0 at the lowest bits.
        band_bits: how many bits a band has.
        radius: how many bits may differ.
        first_bucket: the first bucket of `left` to look at.
        last_bucket: the one after the last.
        is_same: `left` and `right` are one collection: every pair comes once, none with itself.

    Returns:
        The places of the pairs in `left` and `right`.
    """
    found_left = np.empty(_FIRST_ROOM, np.int64)
    found_right = np.empty(_FIRST_ROOM, np.int64)
    count = 0
    for bucket in range(first_bucket, last_bucket):
        if left_starts[bucket] == left_starts[bucket + 1]:
            continue
        for mask in masks:
            other = bucket ^ np.int64(mask)
            if is_same and other < bucket:
                continue
            for at in range(left_starts[bucket], left_starts[bucket + 1]):
                word = left[at]
                begin = at + 1 if is_same and other == bucket else right_starts[other]
                for beside in range(begin, right_starts[other + 1]):
                    difference = word ^ right[beside]
                    if count_bits(difference) > radius:
                        continue
                    if _was_found(difference, masks, band, band_bits):
                        continue
                    if count == found_left.size:
                        found_left = _doubled(found_left)
                        found_right = _doubled(found_right)
                    found_left[count] = at
                    found_right[count] = beside
                    count += 1
    return found_left[:count].copy(), found_right[:count].copy()


@njit(nogil=True, cache=True)
def _was_found(difference: np.uint64, masks: Words, band: int, band_bits: int) -> bool:
    """Whether an earlier band differs by so little, too; masks hold all differences that do."""
    most = count_bits(masks[-1])  # masks ordered by their number of bits
    low = np.uint64((1 << band_bits) - 1)
    for earlier in range(band):
        part = (difference >> np.uint64(earlier * band_bits)) & low
        if count_bits(part) <= most:
            return True
    return False


@njit(nogil=True, cache=True)
def _doubled(places: Places) -> Places:
    longer = np.empty(2 * places.size, np.int64)
    longer[: places.size] = places
    return longer
