"""The built-in embedder of stills: what is seen in a drawing against what a text says, offline."""

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from PIL import Image

from models.builtin.embedder import COLOURS_DIMENSION, paint, see
from models.builtin.stills.reading import content_of_image, content_of_text, read_still_text
from models.builtin.stills.seeing import see_still
from models.builtin.stills.space import (
    LAYOUT_DIMENSION,
    Vector,
    content_dimension,
    layout_of,
    vector_of_content,
)
from models.embedding import Vectors, plain_picture
from schemas.chat import ModelRef
from schemas.embedding import BuiltinStillsEmbedder

_CONTENT, _COLOURS, _LAYOUT = 1.0, 0.3, 0.35
_BIAS = 0.02  # so that what says nothing has a direction, too


class StillsLexiconEmbedder:
    """Vectors of what is in a drawing: kinds, numbers, colours, places, actions, signs.

    Of a photograph it knows colours by their place, as `ColourLexiconEmbedder` does, and a coarse
    layout that only other pictures share. The same input always gives the same vector.
    """

    def __init__(self, spec: BuiltinStillsEmbedder) -> None:
        self._spec = spec

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._spec.ref

    @property
    def dimension(self) -> int:
        """How long a vector is."""
        return _dimension()

    def embed_images(self, images: Sequence[Image.Image]) -> Vectors:
        """A vector for each image: see `ImageTextEmbedder`."""
        return _rows(_of_image(plain_picture(image)) for image in images)

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text: see `ImageTextEmbedder`."""
        return _rows(_of_text(text) for text in texts)


def _of_image(image: Image.Image) -> Vector:
    content = vector_of_content(content_of_image(see_still(image)))
    return _joined(content, np.asarray(see(image), np.float64), layout_of(image))


def _of_text(text: str) -> Vector:
    content = vector_of_content(content_of_text(read_still_text(text)))
    return _joined(content, np.asarray(paint(text), np.float64), np.zeros(LAYOUT_DIMENSION))


def _joined(content: Vector, colours: Vector, layout: Vector) -> Vector:
    blocks = ((_CONTENT, content), (_COLOURS, colours), (_LAYOUT, layout))
    vector = np.concatenate([*(weight * _unit(block) for weight, block in blocks), [_BIAS]])
    return _unit(vector)


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else vector


@cache
def _dimension() -> int:
    return content_dimension() + COLOURS_DIMENSION + LAYOUT_DIMENSION + 1


def _rows(vectors: Iterable[Vector]) -> Vectors:
    return np.array([*vectors], np.float32).reshape(-1, _dimension())
