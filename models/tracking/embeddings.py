"""Embeddings as text: little-endian float16 in base64, as records carry them."""

import base64

import numpy as np
from numpy.typing import NDArray


def packed(embedding: NDArray[np.floating]) -> str:
    """`embedding`, of shape (d,), as text; precise to about three decimal digits."""
    return base64.b64encode(embedding.astype("<f2").tobytes()).decode("ascii")


def unpacked(text: str) -> NDArray[np.float32]:
    """The embedding in `text`, of shape (d,), brought back to unit length."""
    vector = np.frombuffer(base64.b64decode(text), "<f2").astype(np.float32)
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
