"""Keeping, of a tile of products, the images that are nearest to each text, exactly."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from retrieval.embeddings import FloatRows, Ids
from retrieval.kernels.similarity import similarity
from retrieval.similarity import Similarities


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
    """Takes into `kept`, which falls along its rows, what of a tile is among the nearest.

    A product sorts out what cannot be among them; what is left is computed by the rule of
    `retrieval.similarity`. Of equals the image that comes first stays first: tiles must come in the
    order of the images.

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
