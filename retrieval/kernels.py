"""Loops compiled by numba, imported inside functions only: numba is slow to load."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from retrieval.embeddings import FloatRows, Ids
from retrieval.similarity.products import Similarities

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


# Count, in a tile of the product of images and texts, the items that reach a threshold.

Counts = NDArray[np.int32]

_SEGMENT = 256
"""The number of products of a row that are processed together: they fit into the L1 cache."""


class Side(NamedTuple):
    """The images, or the texts, of a tile: n of them.

    Attributes:
        rows: their unit rows, of shape (n, d).
        samples: for each the sample that it belongs to; within a sample nobody competes.
        thresholds: the similarity that a competitor must reach; none of its own sample is higher.
        above, below: what a product says for sure about it (`products.Limits`).
        counts: how many of the other side reach it; added to.
    """

    rows: FloatRows
    samples: Ids
    thresholds: Similarities
    above: NDArray[np.float32]
    below: NDArray[np.float32]
    counts: Counts


@njit(nogil=True, cache=True)
def count_tile(tile: NDArray[np.float32], images: Side, texts: Side) -> None:
    """Counts, in both directions, the items of other samples that reach each threshold.

    Args:
        tile: products of the rows of images and texts, of shape (images, texts).
        images: their counts grow by the texts that reach their thresholds.
        texts: their counts grow by the images that do.
    """
    for image in range(tile.shape[0]):
        for start in range(0, tile.shape[1], _SEGMENT):
            end = min(start + _SEGMENT, tile.shape[1])
            above, unclear = _count_segment(
                tile[image, start:end],
                images.above[image],
                images.below[image],
                texts.above[start:end],
                texts.below[start:end],
                texts.counts[start:end],
            )
            images.counts[image] += above
            if unclear > 0:
                _count_unclear(tile[image], start, end, image, images, texts)


@njit(nogil=True, cache=True)
def _count_segment(
    products: NDArray[np.float32],
    image_above: np.float32,
    image_below: np.float32,
    text_above: NDArray[np.float32],
    text_below: NDArray[np.float32],
    text_counts: Counts,
) -> tuple[int, int]:
    """The number of products certainly above the image's threshold, and of those that are unclear.

    `text_counts` grow by the products certainly above a text's threshold. There are no branches, so
    that the compiler can use vector instructions.
    """
    above, unclear = np.int32(0), np.int32(0)
    for at in range(products.size):
        product = products[at]
        reaches_image = np.int32(product >= image_above)
        reaches_text = np.int32(product >= text_above[at])
        above += reaches_image
        text_counts[at] += reaches_text
        unclear += np.int32(product >= image_below) - reaches_image
        unclear += np.int32(product >= text_below[at]) - reaches_text
    return int(above), int(unclear)


@njit(nogil=True, cache=True)
def _count_unclear(
    products: NDArray[np.float32], start: int, end: int, image: int, images: Side, texts: Side
) -> None:
    """Decides, by the rule, the products that `_count_segment` could not."""
    for text in range(start, end):
        product = products[text]
        at_image = images.below[image] <= product < images.above[image]
        at_text = texts.below[text] <= product < texts.above[text]
        if not (at_image or at_text) or images.samples[image] == texts.samples[text]:
            continue
        exact = similarity(images.rows[image], texts.rows[text])
        if at_image and exact >= images.thresholds[image]:
            images.counts[image] += 1
        if at_text and exact >= texts.thresholds[text]:
            texts.counts[text] += 1


# Keep the images of a tile of products that are nearest to each text, exactly.


@njit(nogil=True, cache=True)
def keep_exact_nearest(
    tile: NDArray[np.float32],
    texts: FloatRows,
    images: FloatRows,
    first: int,
    excluded: Ids,
    bound: float,
    kept: Similarities,
    kept_at: Ids,
) -> None:
    """Merges a tile into the nearest of each text; `kept` is sorted in descending order.

    Products exclude what cannot be among the nearest; the rest is computed by the rule of
    `retrieval.similarity.products`. Of equal images the first stays first, so tiles must come in
    the order of the images.

    Args:
        tile: products of texts and images, of shape (t, i).
        texts: unit rows, of shape (t, d).
        images: unit rows, of shape (i, d).
        first: the index of the first of these images among all.
        excluded: for each text the index, among all, of the image that is left out.
        bound: how far a product may be from its similarity.
        kept: the highest similarities so far, of shape (t, k); −∞ where there are fewer.
        kept_at: the images that they belong to.
    """
    last = kept.shape[1] - 1
    for text in range(tile.shape[0]):
        for column in range(tile.shape[1]):
            if tile[text, column] < kept[text, last] - bound or first + column == excluded[text]:
                continue
            exact = similarity(texts[text], images[column])
            if exact <= kept[text, last]:
                continue
            at = last
            while at > 0 and kept[text, at - 1] < exact:
                kept[text, at] = kept[text, at - 1]
                kept_at[text, at] = kept_at[text, at - 1]
                at -= 1
            kept[text, at] = exact
            kept_at[text, at] = first + column


# Keep the columns with the highest products of each row over tiles of a product.

_NEAREST_SEGMENT = 256
"""The number of products of a row that are checked together: most segments contain nothing new."""


@njit(nogil=True, cache=True)
def keep_nearest(
    tile: NDArray[np.float32],
    row_samples: Ids,
    column_samples: Ids,
    first_column: int,
    kept: NDArray[np.float32],
    kept_at: Ids,
) -> None:
    """Inserts products that are higher than those kept, except of a row's own sample.

    Args:
        tile: products, of shape (rows, columns).
        row_samples: the sample that each row belongs to.
        column_samples: the sample that each column belongs to.
        first_column: the index of the tile's first column.
        kept: the highest products of each row so far, falling, of shape (rows, room); changed.
        kept_at: the indices of their columns; changed.
    """
    for row in range(tile.shape[0]):
        for start in range(0, tile.shape[1], _NEAREST_SEGMENT):
            products = tile[row, start : min(start + _NEAREST_SEGMENT, tile.shape[1])]
            if _count_above(products, kept[row, -1]) == 0:
                continue
            for at in range(products.size):
                column = start + at
                is_higher = products[at] > kept[row, -1]
                if is_higher and column_samples[column] != row_samples[row]:
                    _insert(kept[row], kept_at[row], products[at], first_column + column)


@njit(nogil=True, cache=True)
def _count_above(products: NDArray[np.float32], least: np.float32) -> int:
    """The number of products above `least`; without branches, for vector instructions."""
    above = np.int32(0)
    for at in range(products.size):
        above += np.int32(products[at] > least)
    return int(above)


@njit(nogil=True, cache=True)
def _insert(kept: NDArray[np.float32], kept_at: Ids, product: np.float32, column: int) -> None:
    """Inserts a product into a descending list; the last one is dropped."""
    at = kept.size - 1
    while at > 0 and kept[at - 1] < product:
        kept[at], kept_at[at] = kept[at - 1], kept_at[at - 1]
        at -= 1
    kept[at], kept_at[at] = product, column


# Count and sum what ranks above each match of a query, in a tile of the product.

_RANKING_SEGMENT = 512
"""The number of products of a row that are compared match by match: they fit into the L1 cache."""

_FEW = 64
"""Up to this number of matches it is faster to scan a segment once for each, without branches."""

FIXED_POINT = 2.0**30
"""Similarities are summed as multiples of 2⁻³⁰: the sum does not depend on the order."""

_FIXED_POINT = np.float32(FIXED_POINT)
_STRIDE = 32  # of a segment with something unclear in it, so many products are looked at together
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
        if last - first <= _FEW:
            _rank_few(tile[query], block, query, gallery)
        else:
            _rank_many(tile[query], block, query, gallery)


@njit(nogil=True, cache=True)
def _rank_few(
    products: NDArray[np.float32], block: QueryBlock, query: int, gallery: FloatRows
) -> None:
    """Scans each segment once for every match, from the least similar one upwards."""
    for start in range(0, products.size, _RANKING_SEGMENT):
        segment = products[start : start + _RANKING_SEGMENT]
        for pair in range(block.starts[query + 1] - 1, block.starts[query] - 1, -1):
            reached, unclear, total = _reaching(segment, block.above[pair], block.below[pair])
            if reached + unclear == 0:
                break  # nor does anything reach the matches that are more similar
            block.counts[pair] += reached
            block.sums[pair] += total
            if unclear > 0:
                _settle(segment, block, query, pair, gallery[start : start + _RANKING_SEGMENT])


@njit(nogil=True, cache=True)
def _reaching(
    products: NDArray[np.float32], above: np.float32, below: np.float32
) -> tuple[int, int, int]:
    """The number of products certainly above, of unclear ones, and the sum of those above.

    There are no branches and nothing wider than 32 bits, so that the compiler can use vector
    instructions. The sum is split, so that neither half can overflow within a segment.
    """
    reached, possible = np.int32(0), np.int32(0)
    high, low = np.int32(0), np.int32(0)
    for at in range(products.size):
        product = products[at]
        fixed = np.int32((product if product >= above else np.float32(0)) * _FIXED_POINT)
        reached = np.int32(reached + np.int32(product >= above))
        possible = np.int32(possible + np.int32(product >= below))
        high = np.int32(high + np.int32(fixed >> 15))
        low = np.int32(low + np.int32(fixed & 0x7FFF))
    return int(reached), int(possible - reached), (int(high) << 15) + int(low)


@njit(nogil=True, cache=True)
def _settle(
    products: NDArray[np.float32], block: QueryBlock, query: int, pair: int, gallery: FloatRows
) -> None:
    """Decides, by the rule of similarity, the unclear products of a segment for a match."""
    above, below = block.above[pair], block.below[pair]
    for start in range(0, products.size, _STRIDE):
        stride = products[start : start + _STRIDE]
        if _unclear(stride, above, below) == 0:
            continue
        for at in range(stride.size):
            if (
                below <= stride[at] < above
                and similarity(block.rows[query], gallery[start + at]) >= block.thresholds[pair]
            ):
                block.counts[pair] += 1
                block.sums[pair] += np.int64(np.int32(stride[at] * _FIXED_POINT))


@njit(nogil=True, cache=True)
def _unclear(products: NDArray[np.float32], above: np.float32, below: np.float32) -> int:
    """The number of products between the two bounds of a threshold."""
    count = np.int32(0)
    for at in range(products.size):
        count = np.int32(count + (np.int32(products[at] >= below) & np.int32(products[at] < above)))
    return int(count)


@njit(nogil=True, cache=True)
def _rank_many(
    products: NDArray[np.float32], block: QueryBlock, query: int, gallery: FloatRows
) -> None:
    """Finds for each product the most similar match that it reaches, then accumulates."""
    chosen = slice(block.starts[query], block.starts[query + 1])
    thresholds, above, below = block.thresholds[chosen], block.above[chosen], block.below[chosen]
    counts = np.zeros(thresholds.size, dtype=np.int64)
    sums = np.zeros(thresholds.size, dtype=np.int64)
    for at in range(products.size):
        product = products[at]
        if product < below[-1]:
            continue
        reached = _first_reached(above, product)
        if _first_reached(below, product) < reached:
            reached = _first_reached(thresholds, similarity(block.rows[query], gallery[at]))
        if reached < thresholds.size:
            counts[reached] += 1
            sums[reached] += np.int64(np.int32(product * _FIXED_POINT))
    block.counts[chosen] += np.cumsum(counts)
    block.sums[chosen] += np.cumsum(sums)


@njit(nogil=True, cache=True)
def _first_reached(falling: NDArray[np.floating], value: float) -> int:
    """The first position in `falling` with a value of at most `value`, else its size."""
    first, last = 0, falling.size
    while first < last:
        middle = (first + last) // 2
        if falling[middle] <= value:
            last = middle
        else:
            first = middle + 1
    return first


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
