"""Keeping, of tiles of a product, the columns with the highest products of each row."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from retrieval.embeddings import Ids

SEGMENT = 256
"""So many products of a row are looked at together: most rows have nothing new in most of them."""


@njit(nogil=True, cache=True)
def keep_nearest(
    tile: NDArray[np.float32],
    row_samples: Ids,
    column_samples: Ids,
    first_column: int,
    kept: NDArray[np.float32],
    kept_at: Ids,
) -> None:
    """Puts what is higher than what is kept into its place, but nothing of a row's own sample.

    Args:
        tile: products, of shape (rows, columns).
        row_samples: the sample that each row belongs to.
        column_samples: the sample that each column belongs to.
        first_column: the index of the tile's first column.
        kept: the highest products of each row so far, falling, of shape (rows, room); changed.
        kept_at: the indices of their columns; changed.
    """
    for row in range(tile.shape[0]):
        for start in range(0, tile.shape[1], SEGMENT):
            products = tile[row, start : min(start + SEGMENT, tile.shape[1])]
            if _count_above(products, kept[row, -1]) == 0:
                continue
            for at in range(products.size):
                column = start + at
                is_higher = products[at] > kept[row, -1]
                if is_higher and column_samples[column] != row_samples[row]:
                    _insert(kept[row], kept_at[row], products[at], first_column + column)


@njit(nogil=True, cache=True)
def _count_above(products: NDArray[np.float32], least: np.float32) -> int:
    """How many products are above `least`; without branches, for vector instructions."""
    above = np.int32(0)
    for at in range(products.size):
        above += np.int32(products[at] > least)
    return int(above)


@njit(nogil=True, cache=True)
def _insert(kept: NDArray[np.float32], kept_at: Ids, product: np.float32, column: int) -> None:
    """Puts a product into its place in a falling list; the last one falls out."""
    at = kept.size - 1
    while at > 0 and kept[at - 1] < product:
        kept[at], kept_at[at] = kept[at - 1], kept_at[at - 1]
        at -= 1
    kept[at], kept_at[at] = product, column
