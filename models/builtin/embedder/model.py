"""The built-in embedder: compares what a text says with what an image shows, offline."""

from collections.abc import Iterable, Sequence

import numpy as np
from PIL import Image

from models.builtin.embedder.painting import paint
from models.builtin.embedder.seeing import see
from models.builtin.embedder.space import DIMENSION
from models.embedding import Vectors
from models.plain_pictures import plain_picture
from schemas.chat import ModelRef
from schemas.embedding import BuiltinEmbedder


class ColourLexiconEmbedder:
    """Vectors of colours by their place, patterns, and bare arms and legs.

    An image is measured; a text is read through a lexicon, as if it were painted. What neither
    knows (faces, actions, kinds of things) does not count. The same input always gives the same
    vector.
    """

    def __init__(self, spec: BuiltinEmbedder) -> None:
        self._spec = spec

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._spec.ref

    @property
    def dimension(self) -> int:
        """How long a vector is."""
        return DIMENSION

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """A vector for each image: see `ImageTextEmbedder`."""
        return _rows(see(plain_picture(image)) for image in images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text: see `ImageTextEmbedder`."""
        return _rows(paint(text) for text in texts)


def _rows(vectors: Iterable[Vectors]) -> Vectors:
    return np.array([*vectors], np.float32).reshape(-1, DIMENSION)
