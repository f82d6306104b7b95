"""CLIP models of OpenCLIP."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from loupe.models.torch_embedder import TorchEmbedder
from loupe.models.weights import (
    LOCAL_FOLDER,
    checkpoint_digest,
    folder_digest,
    loading_faults,
    local_folder,
    require_digest,
)
from loupe.schemas.decoders import plain_picture
from loupe.schemas.embedding import OpenClipEmbedder
from loupe.schemas.errors import ModelError
from loupe.schemas.extras import needs_extra
from loupe.schemas.validation import refuse_code

_QUICK = "-quickgelu"
_PRECISIONS = {"float32": "fp32", "bfloat16": "pure_bf16", "float16": "pure_fp16"}


class OpenClipImageTextEmbedder(TorchEmbedder[OpenClipEmbedder]):
    """The vectors that a CLIP's contrastive loss compares.

    Images are resized and normalised as in training; texts longer than the context are cut.
    Checkpoints are read as weights only: no code in them is run.

    Raises:
        MissingExtraError: torch or open_clip is not installed.
        ModelError: there is no such architecture or tag, or the weights do not fit it.
    """

    def __init__(self, spec: OpenClipEmbedder) -> None:
        with needs_extra(f"the embedder {spec.name!r}"):
            import open_clip
            import torch
        self._torch = torch
        super().__init__(spec)
        with loading_faults("OpenCLIP", spec.ref):
            self._load(open_clip)
        self.dimension = len(self._encode_texts([""])[0])

    def _load(self, open_clip: Any) -> None:
        spec = self._spec
        name = spec.name
        self._check_digests()
        if spec.architecture_file is not None:
            name = _register_architecture(open_clip, spec.architecture_file)
        described = _described(open_clip, spec, name)
        weights = None if name.startswith(LOCAL_FOLDER) else str(spec.checkpoint or spec.revision)
        with warnings.catch_warnings():
            # Another activation than in training gives other vectors; OpenCLIP only warns.
            warnings.filterwarnings("error", "QuickGELU mismatch")
            try:
                model, self._preprocess = open_clip.create_model_from_pretrained(
                    name, weights, precision=_PRECISIONS[spec.dtype]
                )
            except UserWarning as warning:
                raise ModelError(
                    f"the weights {weights!r} were trained with another activation; "
                    f"wanted the architecture {_twin(name)!r}, got {name!r}"
                ) from warning
        self._model = model.to(self._device).eval()
        has_vocabulary = described.get("text_cfg", {}).get("hf_tokenizer_name")
        trust = {"trust_remote_code": False} if has_vocabulary else {}
        self._tokenizer = open_clip.get_tokenizer(name, **trust)

    def _check_digests(self) -> None:
        spec = self._spec
        if spec.architecture_sha256 and (path := spec.architecture_file):
            require_digest(path, spec.architecture_sha256, checkpoint_digest(path))
        if spec.checkpoint_sha256 and (path := spec.checkpoint or local_folder(spec)):
            found = folder_digest(path) if path.is_dir() else checkpoint_digest(path)
            require_digest(path, spec.checkpoint_sha256, found)

    def _encode_images(self, images: Sequence[Image.Image]) -> Any:
        pixels = self._torch.stack([self._preprocess(plain_picture(image)) for image in images])
        return self._model.encode_image(pixels.to(self._device, self._dtype))

    def _encode_texts(self, texts: Sequence[str]) -> Any:
        with self._torch.inference_mode():
            return self._model.encode_text(self._tokenizer(list(texts)).to(self._device))


def _described(open_clip: Any, spec: OpenClipEmbedder, name: str) -> dict[str, Any]:
    """The description of an architecture, empty if OpenCLIP does not know it.

    Raises:
        ModelError: it would run code, or use files that are not pinned with it.
    """
    folder = local_folder(spec)
    if ":" in name and folder is None:
        raise ModelError(
            f"an OpenCLIP model is an architecture, or {LOCAL_FOLDER}FOLDER with files that were "
            f"downloaded before; got {name!r}"
        )
    if folder is None and spec.checkpoint is None and Path(spec.revision).exists():
        raise ModelError(f"state the file {spec.revision!r} as checkpoint, not as revision")
    described: dict[str, Any] = open_clip.get_model_config(name) or {}
    where = str(folder or spec.architecture_file or name)
    try:
        refuse_code(described)
    except ValueError as error:
        raise ModelError(f"{where!r}: {error}") from error
    text = described.get("text_cfg", {})
    vision = described.get("vision_cfg", {})
    others = [text.get("hf_model_name"), vision.get("timm_model_name")]
    if folder is None:  # a folder has a vocabulary of its own
        others.append(text.get("hf_tokenizer_name"))
    for other in others:
        if isinstance(other, str) and (":" in other or Path(other).exists()):
            raise ModelError(f"{where!r} must not name files elsewhere; got {other!r}")
    return described


def _register_architecture(open_clip: Any, path: Path) -> str:
    """Registers an architecture file with OpenCLIP under its stem, and returns that name.

    Raises:
        ModelError: the file is none of an architecture, or its name is another one's.
    """
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"the architecture file {str(path)!r} cannot be read: {error}") from error
    known = open_clip.get_model_config(path.stem)
    if known is None:
        open_clip.add_model_config(path)
        known = open_clip.get_model_config(path.stem)
    if known is None:
        raise ModelError(
            f"the architecture file {str(path)!r} must have the keys "
            f"'embed_dim', 'vision_cfg' and 'text_cfg'"
        )
    if known != described:
        raise ModelError(
            f"the architecture file {str(path)!r} has the name of another architecture; rename it"
        )
    return path.stem


def _twin(architecture: str) -> str:
    plain = architecture.removesuffix(_QUICK)
    return plain if plain != architecture else plain + _QUICK
