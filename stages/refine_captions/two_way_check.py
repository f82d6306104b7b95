"""Whether each caption of a group prefers its own image, and each image its own captions.

A caption that an embedder cannot tell from a sibling's image need not be wrong: it goes to people.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.caption_contrast import caption_name, image_letter

STAGE = "check_preferences"
VERSION = "1"

Vectors = NDArray[np.floating]
_DECIMALS = 6


class CaptionPreference(NamedTuple):
    """What an embedder makes of one caption.

    Attributes:
        row: the coarse caption that it was made from, from 0.
        column: its image.
        similarity: its cosine to its own image.
        nearest_image: of the other images, the one that it is nearest to.
        nearest_similarity: its cosine to that.
        best_caption: of the other images' captions from the same coarse one, that of the image
            whose caption its own image is nearest to.
        best_similarity: the cosine of that caption to the caption's own image.
    """

    row: int
    column: int
    similarity: float
    nearest_image: int
    nearest_similarity: float
    best_caption: int
    best_similarity: float

    @property
    def prefers_other_image(self) -> bool:
        """Whether another image is as near to the caption as its own, or nearer."""
        return self.nearest_similarity >= self.similarity

    @property
    def loses_own_image(self) -> bool:
        """Whether another image's caption is as near to its own image, or nearer."""
        return self.best_similarity >= self.similarity

    @property
    def confused_with(self) -> int | None:
        """The image that it is confused with, by the caption's side first; None for none."""
        if self.prefers_other_image:
            return self.nearest_image
        return self.best_caption if self.loses_own_image else None

    @property
    def sentence(self) -> str:
        """What is wrong, for people; empty where nothing is."""
        name, own = caption_name(self.row, self.column), image_letter(self.column)
        told = []
        if self.prefers_other_image:
            told.append(
                f"fits image {image_letter(self.nearest_image)} as well as its own or better "
                f"({self.nearest_similarity:.3f} and {self.similarity:.3f})"
            )
        if self.loses_own_image:
            told.append(
                f"fits image {own} no better than caption "
                f"{caption_name(self.row, self.best_caption)} does "
                f"({self.similarity:.3f} and {self.best_similarity:.3f})"
            )
        return f"Caption {name} {', and '.join(told)}, says the embedder." if told else ""


def check_preferences(text_vectors: Vectors, image_vectors: Vectors) -> list[CaptionPreference]:
    """One finding for each caption: row by row, in each the images in their order.

    A caption has to be nearer to its own image than to any other of the group, and its image
    nearer to it than to the other images' captions from the same coarse caption. Cosines are
    rounded to six decimals, so that the same comes out on every machine; ties are errors.

    Args:
        text_vectors: of k coarse captions × n images, of unit length, of shape (k, n, d).
        image_vectors: of the images, likewise, of shape (n, d), n at least 2.

    Raises:
        ValueError: the shapes do not fit, or a value is no finite number.
    """
    cosines = _cosines(text_vectors, image_vectors)  # [row, caption's image, image]
    others = cosines.copy()
    each = np.arange(len(image_vectors))
    others[:, each, each] = -np.inf
    by_caption, by_image = others.argmax(axis=2), others.argmax(axis=1)
    return [
        CaptionPreference(
            row=row,
            column=column,
            similarity=float(cosines[row, column, column]),
            nearest_image=int(image := by_caption[row, column]),
            nearest_similarity=float(cosines[row, column, image]),
            best_caption=int(caption := by_image[row, column]),
            best_similarity=float(cosines[row, caption, column]),
        )
        for row in range(len(cosines))
        for column in each.tolist()
    ]


def _cosines(text_vectors: Vectors, image_vectors: Vectors) -> NDArray[np.float64]:
    texts, images = np.asarray(text_vectors, np.float64), np.asarray(image_vectors, np.float64)
    if images.ndim != 2 or len(images) < 2 or texts.shape[1:] != images.shape:
        raise ValueError(
            f"text_vectors must be (k, n, d) and image_vectors (n, d), n at least 2; "
            f"got {texts.shape} and {images.shape}"
        )
    if not (np.isfinite(texts).all() and np.isfinite(images).all()):
        raise ValueError("vectors must hold finite numbers only")
    cosines: NDArray[np.float64] = np.einsum("rcd,id->rci", texts, images)
    return cosines.round(_DECIMALS)
