"""Builds and pins embedders of a profile, CFAM included."""

from pathlib import Path
from typing import overload

import models.registry
from models.embedding import ImageTextEmbedder
from models.weights import checkpoint_digest
from schemas.embedding import CfamEmbedder, EmbedderSpec, EmbeddingModelSpec, PrecomputedEmbedder
from schemas.errors import FormatError, MissingExtraError

_WEIGHTS = "model.safetensors"
CHECKPOINT_FILES = (_WEIGHTS, "settings.json")
"""What the folder of a CFAM checkpoint holds."""


def build_embedder(spec: EmbeddingModelSpec) -> ImageTextEmbedder:
    """The embedder that `spec` describes, loaded; only its own libraries are imported.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    if not isinstance(spec, CfamEmbedder):
        return models.registry.build_embedder(spec)
    try:
        from retrieval.cfam.network.checkpoints import CfamImageTextEmbedder
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the embedder {spec.name!r}", "torch") from error
    return CfamImageTextEmbedder(spec)


@overload
def pinned(spec: EmbeddingModelSpec) -> EmbeddingModelSpec: ...
@overload
def pinned(spec: PrecomputedEmbedder) -> PrecomputedEmbedder: ...
@overload
def pinned(spec: EmbedderSpec) -> EmbedderSpec: ...
def pinned(spec: EmbedderSpec) -> EmbedderSpec:
    """The same specification with digests of its weights or vectors: see `models.registry.pinned`.

    Raises:
        MissingExtraError: only a library that is not installed can tell.
        ModelError: files cannot be read, or there is no such model.
        FormatError: a file of vectors is missing, or has another digest than is asked for.
    """
    match spec:
        case CfamEmbedder():
            found = spec.checkpoint_sha256 or checkpoint_digest(spec.checkpoint / _WEIGHTS)
            return spec.model_copy(update={"checkpoint_sha256": found})
        case PrecomputedEmbedder():
            digests = {
                "images_sha256": _held(spec.images, spec.images_sha256),
                "texts_sha256": _held(spec.texts, spec.texts_sha256),
            }
            return spec.model_copy(update=digests)
        case _:
            return models.registry.pinned(spec)


def _held(path: Path, wanted: str | None) -> str:
    """The digest of a file of vectors, compared with the expected one."""
    if not path.is_file():
        raise FormatError(f"{path} is no file; wanted a .npy file")
    found = checkpoint_digest(path)
    if wanted not in (None, found):
        raise FormatError(f"{path} has the SHA-256 {found}; wanted {wanted}")
    return found
