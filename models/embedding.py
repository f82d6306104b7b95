"""The protocol of models that embed images and texts in one space."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loupe.schemas.chat import ModelRef

Vectors = NDArray[np.float32]
"""Rows of unit length, of shape (n, d)."""


@runtime_checkable
class ImageTextEmbedder(Protocol):
    """A model whose image and text vectors are compared by their cosine.

    Who owns what:

    - The *model* owns resizing, normalising, tokenising, truncating, batching and its device.
    - The *caller* owns reading files, the cache, and what happens to an image that cannot be read.

    What is promised: one row per input, in order, float32, of unit length, the same for the same
    input in any batch. `ModelError` where the model cannot go on.
    """

    @property
    def ref(self) -> ModelRef:
        """Name and revision: what cache keys and provenance say of this model."""
        ...

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ...

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """A vector for each RGB image, of shape (n, d)."""
        ...

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text, of shape (n, d)."""
        ...
