"""Vectors that somebody else computed, read from `.npy` files in the order of a release."""

from pathlib import Path
from typing import NamedTuple

from retrieval.embeddings import FloatRows, check_same_space, unit_rows
from retrieval.npy_file import read_array
from schemas.embedding import PrecomputedEmbedder
from schemas.errors import FormatError


class PrecomputedVectors(NamedTuple):
    """Rows of unit length: one an image, one a text, in the order of the release."""

    images: FloatRows
    texts: FloatRows


def read_vectors(spec: PrecomputedEmbedder, images: int, texts: int) -> PrecomputedVectors:
    """The vectors of a release with so many images and texts.

    Raises:
        FormatError: a file is missing or no `.npy` of floats, has another number of rows, holds
            NaN or a zero row, or images and texts have vectors of different lengths.
    """
    found = PrecomputedVectors(
        _read(spec.images, images, "images"), _read(spec.texts, texts, "texts")
    )
    check_same_space(found.texts, found.images, (str(spec.texts), str(spec.images)))
    return found


def _read(path: Path, wanted: int, what: str) -> FloatRows:
    array = read_array(path)
    if array.ndim != 2 or len(array) != wanted:
        raise FormatError(
            f"{path} must have a row for each of the {wanted:,} {what} of the release; "
            f"its shape is {array.shape}"
        )
    return unit_rows(array, str(path))
