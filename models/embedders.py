"""Builds and pins the embedder that a profile names."""

import re
from pathlib import Path
from typing import Any, assert_never

from models.embedding import ImageTextEmbedder
from schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    MllmEmbedder,
    OpenClipEmbedder,
    PlainModelSpec,
    TransformersEmbedder,
)
from schemas.errors import MissingExtraError, ModelError

_COMMIT = re.compile(r"[0-9a-f]{40}")


def build_embedder(spec: PlainModelSpec) -> ImageTextEmbedder:
    """The embedder that `spec` describes, loaded; only its own libraries are imported.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    match spec:
        case BuiltinEmbedder():
            from models.builtin.embedder import ColourLexiconEmbedder

            return ColourLexiconEmbedder(spec)
        case BuiltinStillsEmbedder():
            from models.builtin.stills.embedder import StillsLexiconEmbedder

            return StillsLexiconEmbedder(spec)
        case OpenClipEmbedder():
            from models.open_clip_embedder import OpenClipImageTextEmbedder

            return OpenClipImageTextEmbedder(spec)
        case TransformersEmbedder():
            from models.transformers_embedder import load_transformers_embedder

            return load_transformers_embedder(spec)
        case MllmEmbedder():
            from models.mllm_embedder import MllmImageTextEmbedder

            return MllmImageTextEmbedder(spec)
        case _:
            assert_never(spec)


def pinned(spec: PlainModelSpec) -> PlainModelSpec:
    """The same specification with digests of files, or the commit of a hub's revision.

    So a cached vector belongs to these weights, and no others are loaded under their name.

    Raises:
        MissingExtraError: only a library that is not installed can tell.
        ModelError: files cannot be read, or there is no such model.
    """
    match spec:
        case BuiltinEmbedder() | BuiltinStillsEmbedder():
            return spec
        case OpenClipEmbedder():
            return spec.model_copy(update=_open_clip_digests(spec))
        case TransformersEmbedder() | MllmEmbedder():
            return spec.model_copy(update=_transformers_revision(spec))
        case _:
            assert_never(spec)


def _open_clip_digests(spec: OpenClipEmbedder) -> dict[str, Any]:
    from models.fairmot.detector import checkpoint_digest
    from models.open_clip_embedder import local_folder
    from models.weights import folder_digest

    found: dict[str, Any] = {}
    if spec.architecture_file and not spec.architecture_sha256:
        found["architecture_sha256"] = checkpoint_digest(spec.architecture_file)
    if spec.checkpoint_sha256:
        return found
    if spec.checkpoint:
        found["checkpoint_sha256"] = checkpoint_digest(spec.checkpoint)
    elif folder := local_folder(spec):
        found["checkpoint_sha256"] = folder_digest(folder)
    return found


def _transformers_revision(spec: TransformersEmbedder | MllmEmbedder) -> dict[str, Any]:
    from models.torch_batches import loading_faults
    from models.transformers_loading import configuration_of
    from models.weights import folder_digest

    if Path(spec.name).is_dir():
        return {"folder_sha256": spec.folder_sha256 or folder_digest(Path(spec.name))}
    if _COMMIT.fullmatch(spec.revision):
        return {}
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the embedder {spec.name!r}", "torch") from error
    with loading_faults("transformers", spec.ref):
        commit = configuration_of(transformers, spec.ref)._commit_hash
    if commit is None:
        raise ModelError(f"transformers does not tell which commit {spec.ref} is")
    return {"revision": commit}
