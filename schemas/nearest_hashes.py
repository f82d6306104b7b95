"""For each of many 64-bit hashes the nearest of others: exact, without a table of all pairs.

The search is that of `schemas.hamming`. Equal hashes are looked for once, so that collections in
which many images have one hash take no longer; of equally near ones the earliest is given.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.hamming import (
    BANDS,
    BITS,
    MOST_IN_BAND,
    Buckets,
    Hashes,
    buckets_of,
    masks_of,
    parts_of,
)

MOST_BITS = BANDS * (MOST_IN_BAND + 1) - 1
"""The largest radius within which not all pairs are looked at."""
_FEW = 1 << 22
_ROWS_OF_SMALL = 1 << 8
_PARTS = 64


class Nearest(NamedTuple):
    """The nearest of others for each of n hashes.

    Attributes:
        bits: in how many bits it differs, of shape (n,); 65 where none is near enough.
        places: which it is, of shape (n,); -1 likewise.
    """

    bits: NDArray[np.int64]
    places: NDArray[np.int64]


def nearest_hashes(left: Hashes, right: Hashes, radius: int = BITS, *, workers: int = 2) -> Nearest:
    """For each of `left` (n,) the nearest of `right` (m,) within `radius` bits.

    Up to a radius of 11 bits few pairs are looked at, beyond it all. Memory grows with n + m.
    Threads share the work; the result does not depend on their number.
    """
    words, back = np.unique(left, return_inverse=True)
    others, firsts = np.unique(right, return_index=True)
    in_order = np.argsort(firsts)
    others, firsts = others[in_order], firsts[in_order].astype(np.int64)
    bits = np.full(len(words), min(radius, BITS) + 1, np.int64)
    places = np.full(len(words), -1, np.int64)
    if len(words) and len(others):
        _search(words, others, radius, bits, places, workers)
    none = places < 0
    places = np.where(none, -1, firsts[places] if len(firsts) else -1)
    return Nearest(np.where(none, BITS + 1, bits)[back], places[back])


def _search(
    left: Hashes,
    right: Hashes,
    radius: int,
    bits: NDArray[np.int64],
    places: NDArray[np.int64],
    workers: int,
) -> None:
    if len(left) * len(right) <= _FEW:
        _search_few(left, right, bits, places)
    elif radius <= MOST_BITS:
        for band in range(BANDS):
            ours, theirs = buckets_of(left, band), buckets_of(right, band)
            _search_band(ours, theirs, radius, bits, places, workers)
    else:
        _search_all(left, right, bits, places, workers)


def _search_few(
    left: Hashes, right: Hashes, bits: NDArray[np.int64], places: NDArray[np.int64]
) -> None:
    """With few hashes, nothing that is compiled needs to be loaded."""
    for start in range(0, len(left), _ROWS_OF_SMALL):
        rows = slice(start, start + _ROWS_OF_SMALL)
        differing = np.bitwise_count(left[rows, None] ^ right[None, :])
        at = np.argmin(differing, axis=1)
        least = differing[np.arange(len(at)), at].astype(np.int64)
        nearer = least < bits[rows]
        places[rows] = np.where(nearer, at, places[rows])
        bits[rows] = np.where(nearer, least, bits[rows])


def _search_band(
    ours: Buckets,
    theirs: Buckets,
    radius: int,
    bits: NDArray[np.int64],
    places: NDArray[np.int64],
    workers: int,
) -> None:
    from schemas.kernels.nearest import nearest_in_band

    masks = masks_of(radius // BANDS)

    def search(part: tuple[int, int]) -> None:
        nearest_in_band(
            ours.words,
            ours.starts,
            ours.order,
            theirs.words,
            theirs.starts,
            theirs.order,
            masks,
            *part,
            bits,
            places,
        )

    _in_threads(search, parts_of(ours.starts), workers)


def _search_all(
    left: Hashes,
    right: Hashes,
    bits: NDArray[np.int64],
    places: NDArray[np.int64],
    workers: int,
) -> None:
    from schemas.kernels.nearest import nearest_of_all

    marks = np.linspace(0, len(left), min(_PARTS, len(left)) + 1).astype(int).tolist()

    def search(part: tuple[int, int]) -> None:
        nearest_of_all(left, right, *part, bits, places)

    _in_threads(search, list(pairwise(marks)), workers)


def _in_threads(
    search: Callable[[tuple[int, int]], None], parts: list[tuple[int, int]], workers: int
) -> None:
    """Each part writes of its own words only."""
    with ThreadPoolExecutor(workers) as threads:
        for _ in threads.map(search, parts):
            pass
