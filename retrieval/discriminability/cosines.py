"""Cosines in float64.

Elsewhere similarities are those of float32 rows, which rank as well. Here they are divided by a
temperature of a hundredth, say, so that their last digits are seen in dis(t).
"""

import numpy as np
from numpy.typing import NDArray

from retrieval.embeddings import Ids
from retrieval.similarity import Similarities

_FLOATS_AT_ONCE = 1 << 21  # 16 MiB of images as float64

Rows = NDArray[np.generic]
ExactRows = NDArray[np.float64]


def exact_cosines(texts: Rows, images: Rows, images_at: Ids) -> Similarities:
    """The cosine of each text with the images named beside it, of shape (n, k).

    Args:
        texts: floats of shape (n, d), of any length and precision; none is zero.
        images: floats of shape (m, d), alike; only the rows that are named are read.
        images_at: indices of images, of shape (n, k).
    """
    from retrieval.kernels.similarity import fill_similarities

    count, k = images_at.shape
    cosines = np.empty((count, k))
    step = max(1, _FLOATS_AT_ONCE // max(1, k * texts.shape[1]))
    for start in range(0, count, step):
        chosen, where = np.unique(images_at[start : start + step], return_inverse=True)
        left, right = _units(texts[start : start + step]), _units(images[chosen])
        left_at = np.repeat(np.arange(len(left)), k)
        fill_similarities(
            left, right, left_at, where.ravel(), cosines[start : start + step].reshape(-1)
        )
    return cosines


def _units(rows: Rows) -> ExactRows:
    """Rows in float64 at unit length; their largest value first becomes 1, so nothing overflows."""
    exact = rows.astype(np.float64)
    exact /= np.abs(exact).max(axis=1, keepdims=True)
    exact /= np.sqrt(np.einsum("ij,ij->i", exact, exact))[:, None]
    return exact
