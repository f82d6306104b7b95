"""Pairs and nearest neighbours of 64-bit hashes: exact, without comparing all pairs."""

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Pairs of 64-bit hashes that differ in few bits: exact, without comparing all pairs.
#
# Multi-index hashing (Norouzi, Punjani, Fleet: Fast Search in Hamming Space with Multi-Index
# Hashing, CVPR 2012): if two words of four bands differ in r bits, one of the bands differs in at
# most r / 4 bits. So words are sorted into 65,536 buckets for each band, and only buckets that
# differ in so few bits are compared. All pairs are compared if the radius leaves no bits to choose
# from, or if there are few words.

Hashes = NDArray[np.uint64]
Pairs = NDArray[np.int64]
"""Indices of shape (p, 2)."""

BITS = 64
_BANDS = 4
_BAND_BITS = BITS // _BANDS
_BUCKETS = 1 << _BAND_BITS
_MOST_IN_BAND = 2  # bits: 137 buckets to each; one more would be 697
_FEW = 1 << 12
_PARTS = 64


def close_pairs(hashes: Hashes, radius: int, *, workers: int = 2) -> Pairs:
    """All pairs (i, j), i < j, of `hashes` (n,) that differ in at most `radius` bits, in order.

    Memory grows with the words and with the pairs that are found. Threads share the work; the
    result does not depend on their number.
    """
    found = _search(hashes, hashes, radius, workers, is_same=True)
    return _ordered(np.sort(found, axis=1))


def close_pairs_between(left: Hashes, right: Hashes, radius: int, *, workers: int = 2) -> Pairs:
    """All pairs (i, j) of `left` (n,) and `right` (m,) that differ in at most `radius` bits."""
    return _ordered(_search(left, right, radius, workers, is_same=False))


def _search(left: Hashes, right: Hashes, radius: int, workers: int, *, is_same: bool) -> Pairs:
    if radius < 0 or not (len(left) and len(right)):
        return np.empty((0, 2), np.int64)
    if radius // _BANDS > _MOST_IN_BAND or _is_few(len(left), len(right)):
        return _all_within(left, right, radius, is_same=is_same)
    left, right = (np.ascontiguousarray(side, np.uint64) for side in (left, right))
    found = [
        _search_band(left, right, band, radius, workers, is_same=is_same) for band in range(_BANDS)
    ]
    return np.concatenate(found)


def _is_few(left: int, right: int) -> bool:
    """Whether comparing all pairs is faster than loading compiled code."""
    return left * right <= _FEW**2


class Buckets(NamedTuple):
    """Words by the value of one band: the `starts` of buckets, and the words' positions."""

    words: Hashes
    starts: NDArray[np.int64]
    order: NDArray[np.int64]


def _buckets_of(hashes: Hashes, band: int) -> Buckets:
    """`hashes` (n,) sorted by the value of band number `band`."""
    values = ((hashes >> np.uint64(band * _BAND_BITS)) & np.uint64(_BUCKETS - 1)).astype(np.uint16)
    order = np.argsort(values, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(values, minlength=_BUCKETS))))
    return Buckets(hashes[order], starts.astype(np.int64), order)


def _search_band(
    left: Hashes, right: Hashes, band: int, radius: int, workers: int, *, is_same: bool
) -> Pairs:
    from loupe.retrieval.similarity.kernels import find_in_band

    ours = _buckets_of(left, band)
    theirs = ours if is_same else _buckets_of(right, band)
    masks = _masks_of(radius // _BANDS)

    def search(part: tuple[int, int]) -> Pairs:
        at, beside = find_in_band(
            ours.words,
            ours.starts,
            theirs.words,
            theirs.starts,
            masks,
            band,
            _BAND_BITS,
            radius,
            *part,
            is_same,
        )
        return np.column_stack((ours.order[at], theirs.order[beside]))

    with ThreadPoolExecutor(workers) as threads:
        return np.concatenate(list(threads.map(search, parts_of(ours.starts))))


def parts_of(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of buckets with about equal numbers of words."""
    marks = np.linspace(0, starts[-1], _PARTS + 1)[1:-1]
    borders = [0, *np.searchsorted(starts, marks).tolist(), _BUCKETS]
    return [(first, last) for first, last in pairwise(borders) if first < last]


def _masks_of(most: int) -> Hashes:
    """All differences of a band in at most `most` bits, by number of bits."""
    masks = [
        sum(1 << bit for bit in bits)
        for count in range(most + 1)
        for bits in combinations(range(_BAND_BITS), count)
    ]
    return np.array(masks, np.uint64)


def _all_within(left: Hashes, right: Hashes, radius: int, *, is_same: bool) -> Pairs:
    """All pairs, in blocks of rows."""
    rows = max(1, _FEW**2 // 4 // max(1, len(right)))
    blocks = []
    for start in range(0, len(left), rows):
        first = start if is_same else 0
        differing = np.bitwise_count(left[start : start + rows, None] ^ right[None, first:])
        near = np.argwhere(differing <= radius) + np.array((start, first))
        blocks.append(near[near[:, 0] < near[:, 1]] if is_same else near)
    return np.concatenate(blocks)


def _ordered(pairs: Pairs) -> Pairs:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


# For each of many 64-bit hashes the nearest of others.

_MOST_BITS = _BANDS * (_MOST_IN_BAND + 1) - 1
"""The largest radius within which not all pairs are compared."""


class Nearest(NamedTuple):
    """The nearest of others for each of n hashes.

    Attributes:
        bits: in how many bits it differs, of shape (n,); 65 where none is near enough.
        places: which it is, of shape (n,); -1 where there is none.
    """

    bits: NDArray[np.int64]
    places: NDArray[np.int64]


def nearest_hashes(left: Hashes, right: Hashes, radius: int = BITS, *, workers: int = 2) -> Nearest:
    """For each of `left` (n,) the nearest of `right` (m,) within `radius` bits; of equal the first.

    Up to a radius of 11 bits few pairs are compared, beyond it all. Equal hashes are searched once,
    so that collections with many of them take no longer. Memory grows with n + m, and up to 11 bits
    with the pairs of different hashes within the radius.
    """
    words, back = np.unique(left, return_inverse=True)
    others, firsts = np.unique(right, return_index=True)
    in_order = np.argsort(firsts)
    others, firsts = others[in_order], firsts[in_order]
    bits, places = np.full(len(words), BITS + 1), np.full(len(words), -1)
    if radius <= _MOST_BITS:
        at, beside = close_pairs_between(words, others, radius, workers=workers).T
        differing = np.bitwise_count(words[at] ^ others[beside])
        order = np.lexsort((beside, differing, at))
        found, nearest = np.unique(at[order], return_index=True)
        bits[found] = differing[order][nearest]
        places[found] = firsts[beside[order][nearest]]
    elif len(words) and len(others):
        bits, places = _nearest_of_all(words, others)
        places = np.where(bits <= radius, firsts[places], -1)
        bits = np.where(bits <= radius, bits, BITS + 1)
    return Nearest(bits[back], places[back])


def _nearest_of_all(left: Hashes, right: Hashes) -> Nearest:
    """The nearest of each of `left`, whatever its distance."""
    rows, blocks = max(1, _FEW**2 // 4 // len(right)), []
    for start in range(0, len(left), rows):
        differing = np.bitwise_count(left[start : start + rows, None] ^ right)
        places = np.argmin(differing, axis=1)
        blocks.append((differing[np.arange(len(places)), places].astype(np.int64), places))
    return Nearest(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))
