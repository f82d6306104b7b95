"""Loops compiled by numba, imported inside functions only: numba is slow to load."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from loupe.retrieval.embeddings import FloatRows, Ids, Similarities

# The similarity of two rows, in float64 and always added up in the same order.


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


# Keep the rows of the gallery that are nearest to each query, exactly, over tiles of a product.

_SEGMENT = 128
"""The number of products of a row that are checked together: most segments contain nothing new."""


class GalleryPart(NamedTuple):
    """Rows of the gallery, of shape (m, d); `first` is the index of the first of them among all.

    `samples` and `groups`, of shape (m,), say which of them may be neighbours of a query.
    """

    rows: FloatRows
    first: int
    samples: Ids
    groups: Ids


class NearestBlock(NamedTuple):
    """Some queries, of shape (n, d), and the nearest rows found so far.

    Attributes:
        rows: their unit rows.
        samples: for each the sample whose rows are not its neighbours, of shape (n,).
        groups: for each the group whose rows may be, of shape (n,).
        similarities: the highest so far, falling, of shape (n, k); −∞ where there are fewer.
        places: the rows of the gallery that they belong to.
    """

    rows: FloatRows
    samples: Ids
    groups: Ids
    similarities: Similarities
    places: Ids


@njit(nogil=True, cache=True)
def keep_nearest(
    tile: NDArray[np.float32], block: NearestBlock, part: GalleryPart, bound: float
) -> None:
    """Merges a tile of products into the nearest rows of each query of a block.

    Products exclude what cannot be among the nearest; the rest is computed by the rule of
    `loupe.retrieval.similarity.products`. Of equal rows the first stays first, so parts must come
    in the order of the gallery.

    Args:
        tile: products of the block and the part, of shape (n, m).
        block: its nearest rows are updated.
        part: the rows that are looked at.
        bound: how far a product may be from its similarity.
    """
    last = block.similarities.shape[1] - 1
    for query in range(tile.shape[0]):
        kept = block.similarities[query]
        for start in range(0, tile.shape[1], _SEGMENT):
            products = tile[query, start : start + _SEGMENT]
            if _count_from(products, kept[last] - bound) == 0:
                continue
            for at in range(products.size):
                row = start + at
                if (
                    products[at] < kept[last] - bound
                    or part.samples[row] == block.samples[query]
                    or part.groups[row] != block.groups[query]
                ):
                    continue
                exact = similarity(block.rows[query], part.rows[row])
                if exact > kept[last]:
                    _insert(kept, block.places[query], exact, part.first + row)


@njit(nogil=True, cache=True)
def _count_from(products: NDArray[np.float32], least: float) -> int:
    """The number of products of at least `least`; without branches, for vector instructions."""
    count = np.int32(0)
    for at in range(products.size):
        count += np.int32(products[at] >= least)
    return int(count)


@njit(nogil=True, cache=True)
def _insert(kept: Similarities, places: Ids, exact: float, place: int) -> None:
    """Inserts a similarity into a falling list; the last one is dropped."""
    at = kept.size - 1
    while at > 0 and kept[at - 1] < exact:
        kept[at], places[at] = kept[at - 1], places[at - 1]
        at -= 1
    kept[at], places[at] = exact, place


# Count and sum what ranks above each match of a query, in a tile of the product.

FIXED_POINT = 2.0**30
"""Similarities are summed as multiples of 2⁻³⁰: the sum does not depend on the order."""

_FIXED_POINT = np.float32(FIXED_POINT)
_NEVER = np.float32(-2)  # below every threshold


class QueryBlock(NamedTuple):
    """Some queries with their matches in the gallery, and what was found above these.

    The gallery is in order of identity, so the matches of a query are adjacent in it. Pairs of a
    query and a match are ordered by query, the most similar match first.

    Attributes:
        rows: unit rows of the queries, of shape (queries, d).
        firsts: where in the gallery the matches of each query begin, of shape (queries,).
        starts: where the pairs of each query begin, of shape (queries + 1,).
        thresholds: the similarity of each pair, of shape (pairs,).
        above, below: what a product says for sure about it (`products.Limits`).
        counts: how many others are at least as similar, of shape (pairs,); added to.
        sums: the sum of their similarities, in units of 1 / FIXED_POINT; added to.
    """

    rows: FloatRows
    firsts: Ids
    starts: Ids
    thresholds: Similarities
    above: NDArray[np.float32]
    below: NDArray[np.float32]
    counts: NDArray[np.int64]
    sums: NDArray[np.int64]


@njit(nogil=True, cache=True)
def rank_tile(
    tile: NDArray[np.float32], block: QueryBlock, gallery: FloatRows, gallery_start: int
) -> None:
    """Adds to `block` what items of a part of the gallery rank above its matches.

    Args:
        tile: products of the block's queries with the part, of shape (queries, part); matches are
            overwritten.
        block: its `counts` and `sums` grow.
        gallery: unit rows of the part, of shape (part, d).
        gallery_start: where the part begins in the gallery.
    """
    for query in range(tile.shape[0]):
        first, last = block.starts[query], block.starts[query + 1]
        if first == last:
            continue
        begin = block.firsts[query] - gallery_start
        tile[query, max(begin, 0) : max(begin + last - first, 0)] = _NEVER
        _rank(tile[query], block, query, gallery)


@njit(nogil=True, cache=True)
def _rank(products: NDArray[np.float32], block: QueryBlock, query: int, gallery: FloatRows) -> None:
    """Compares each segment with every match, from the least similar one upwards."""
    for start in range(0, products.size, _SEGMENT):
        segment = products[start : start + _SEGMENT]
        for pair in range(block.starts[query + 1] - 1, block.starts[query] - 1, -1):
            above, below = block.above[pair], block.below[pair]
            certain, unclear, total = _reaching(segment, above, below)
            if certain + unclear == 0:
                break  # nothing reaches the more similar matches either
            block.counts[pair] += certain
            block.sums[pair] += total
            threshold, near = block.thresholds[pair], above - below
            for at in range(segment.size if unclear else 0):
                if (
                    abs(segment[at] - threshold) < near  # one branch for nearly all of them
                    and below <= segment[at] < above
                    and similarity(block.rows[query], gallery[start + at]) >= threshold
                ):
                    block.counts[pair] += 1
                    block.sums[pair] += np.int64(np.int32(segment[at] * _FIXED_POINT))


@njit(nogil=True, cache=True)
def _reaching(
    products: NDArray[np.float32], above: np.float32, below: np.float32
) -> tuple[int, int, int]:
    """How many products are at least `above`, how many between the bounds, and the former's sum.

    The sum is in units of 1 / FIXED_POINT. There are no branches and nothing wider than 32 bits, so
    that the compiler can use vector instructions. The sum is split: neither half overflows within a
    segment.
    """
    certain, possible = np.int32(0), np.int32(0)
    high, low = np.int32(0), np.int32(0)
    for at in range(products.size):
        product = products[at]
        fixed = np.int32((product if product >= above else np.float32(0)) * _FIXED_POINT)
        certain = np.int32(certain + np.int32(product >= above))
        possible = np.int32(possible + np.int32(product >= below))
        high = np.int32(high + np.int32(fixed >> 15))
        low = np.int32(low + np.int32(fixed & 0x7FFF))
    return int(certain), int(possible - certain), (int(high) << 15) + int(low)


@njit(nogil=True, cache=True)
def sum_up_to(
    queries: FloatRows,
    query_of: Ids,
    gallery: FloatRows,
    order: Ids,
    places: Ids,
    by_place: Ids,
    at_place: NDArray[np.float64],
    up_to_place: NDArray[np.float64],
) -> None:
    """Dot products of queries with the row at a place of the gallery, and with all rows up to it.

    One pass over the gallery, whatever the number of places: the sum of its rows grows along.

    Args:
        queries: unit rows, of shape (queries, d).
        query_of: the query of each place that is asked for, of shape (places,).
        gallery: unit rows, of shape (gallery, d).
        order: the rows of the gallery in the order that places count in, of shape (gallery,).
        places: the places asked for, from 0, of shape (places,).
        by_place: what sorts them, of shape (places,).
        at_place: receives the dot product with the row at the place, of shape (places,).
        up_to_place: receives the sum of the dot products up to it, of shape (places,).
    """
    running = np.zeros(gallery.shape[1], dtype=np.float64)
    done = 0
    for place in range(order.size):
        row = gallery[order[place]]
        for at in range(row.size):
            running[at] += row[at]
        while done < by_place.size and places[by_place[done]] == place:
            asked = by_place[done]
            query = queries[query_of[asked]]
            at_place[asked] = similarity(query, row)
            up_to_place[asked] = _dot(query, running)
            done += 1
        if done == by_place.size:
            break


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _dot(left: NDArray[np.float32], right: NDArray[np.float64]) -> float:
    """A dot product whose last bits do not matter: the order of summation is free."""
    total = 0.0
    for at in range(left.size):
        total += np.float64(left[at]) * right[at]
    return total
