"""Searching by a text or an image: Loupe embeds it with the model that made the stored vectors."""

from base64 import b64encode

import numpy as np
from lightly_studio_serve.embedder import ImageBytesEmbedder, TextEmbedder
from lightly_studio_serve.types import EmbeddingResult, EmbeddingSpaceSpec

from loupe_studio.door import ask


class LoupeEmbedder(TextEmbedder, ImageBytesEmbedder):
    """The model of the vectors, as far as queries need it."""

    def __init__(self, space: str, dimension: int) -> None:
        self._spec = EmbeddingSpaceSpec(space_key=space, dimension=dimension)

    def embedding_space_spec(self) -> EmbeddingSpaceSpec:
        """Return the space of the vectors."""
        return self._spec

    def embed_text(self, texts: list[str]) -> EmbeddingResult:
        """Return a vector for each text."""
        return _vectors(ask("embed", {"texts": texts}))

    def embed_image_bytes(self, images: list[bytes]) -> EmbeddingResult:
        """Return a vector for each image."""
        return _vectors(ask("embed", {"images": [b64encode(one).decode() for one in images]}))


def _vectors(answer: dict[str, list[list[float]]]) -> EmbeddingResult:
    found = np.asarray(answer["vectors"], np.float32)
    return EmbeddingResult(embeddings=found, kept_indices=list(range(len(found))))
