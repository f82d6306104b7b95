"""Loads networks of transformers: its own classes, safetensors weights, nothing left random."""

from pathlib import Path
from typing import Any

from models.weights import folder_digest, require_digest
from schemas.chat import ModelRef
from schemas.embedding import MllmEmbedder, TransformersEmbedder
from schemas.errors import ModelError

_Spec = TransformersEmbedder | MllmEmbedder
_NAMED_AT_MOST = 3


def configuration_of(transformers: Any, ref: ModelRef) -> Any:
    """The configuration of a model with its `model_type`, and its `_commit_hash` if it has one."""
    return transformers.AutoConfig.from_pretrained(
        ref.name, revision=ref.revision, trust_remote_code=False
    )


def load_network(model_class: Any, spec: _Spec, dtype: Any) -> Any:
    """A network with the weights of `spec`, ready for inference, on the CPU.

    Raises:
        ModelError: the weights are others than `spec` says, or do not fill the network.
    """
    folder = Path(spec.name)
    if spec.folder_sha256 is not None and folder.is_dir():
        require_digest(folder, spec.folder_sha256, folder_digest(folder))
    model, report = model_class.from_pretrained(
        spec.name,
        revision=spec.revision,
        dtype=dtype,
        use_safetensors=True,
        output_loading_info=True,
    )
    # transformers would leave them random and only warn.
    wrong = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
    if wrong:
        raise ModelError(f"{spec.ref} lacks weights: {', '.join(wrong[:_NAMED_AT_MOST])}, …")
    return model.eval()


def processor_of(transformers: Any, ref: ModelRef, **settings: Any) -> Any:
    """The processor that was saved beside a network."""
    return transformers.AutoProcessor.from_pretrained(
        ref.name, revision=ref.revision, trust_remote_code=False, **settings
    )
