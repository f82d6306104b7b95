"""Which model turns images and texts into vectors of one space."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Record
from schemas.chat import ModelRef


class _EmbedderBase(Record):
    name: str
    revision: str

    @property
    def ref(self) -> ModelRef:
        """The model as a value for keys and provenance."""
        return ModelRef(name=self.name, revision=self.revision)


class BuiltinEmbedder(_EmbedderBase):
    """Colour and layout of images, read by a lexicon out of texts: no download, deterministic."""

    provider: Literal["builtin"] = "builtin"
    name: str = "loupe-colour-lexicon"
    revision: str = "1"

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {}


class _TorchEmbedder(_EmbedderBase):
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch_size: int = Field(default=64, gt=0)


class OpenClipEmbedder(_TorchEmbedder):
    """A CLIP of OpenCLIP (extra `torch`): `name` is its architecture, `revision` its weights.

    `revision` is one of OpenCLIP's pretrained tags, or any word where `checkpoint` names a file.
    """

    provider: Literal["open_clip"]
    checkpoint: Path | None = None
    checkpoint_sha256: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {"dtype": self.dtype, "checkpoint_sha256": self.checkpoint_sha256}


class TransformersEmbedder(_TorchEmbedder):
    """A CLIP, SigLIP or BLIP-2 (image-text retrieval) of transformers (extra `torch`)."""

    provider: Literal["transformers"]

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {"dtype": self.dtype}


class QwenVLEmbedder(_TorchEmbedder):
    """A Qwen2-VL made to embed (GME, Ops-MM-embedding): the last token's state, with instructions.

    `{text}` in `text_instruction` stands for the text.
    """

    provider: Literal["qwen-vl"]
    batch_size: int = Field(default=4, gt=0)
    image_instruction: str = "Find an image caption describing the given image."
    text_instruction: str = "Find an image that matches the given text."
    least_pixels: int = Field(default=256 * 28 * 28, gt=0)
    most_pixels: int = Field(default=1280 * 28 * 28, gt=0)

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        left_out = {"provider", "name", "revision", "device", "batch_size"}
        return self.model_dump(mode="json", exclude=left_out)


class CfamEmbedder(_TorchEmbedder):
    """A checkpoint of our CFAM trainer: a folder with `model.safetensors` and `settings.json`."""

    provider: Literal["cfam"]
    name: str = "cfam"
    revision: str = "checkpoint"
    checkpoint: Path
    checkpoint_sha256: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {"dtype": self.dtype, "checkpoint_sha256": self.checkpoint_sha256}


class PrecomputedEmbedder(_EmbedderBase):
    """Vectors that are there already, as `.npy`, a row for each image and text of the release.

    Rows stand in the order of the release: images by row, texts by row and then by caption.
    """

    provider: Literal["precomputed"]
    name: str
    revision: str = "1"
    images: Path
    texts: Path

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {}


EmbedderSpec = Annotated[
    BuiltinEmbedder
    | OpenClipEmbedder
    | TransformersEmbedder
    | QwenVLEmbedder
    | CfamEmbedder
    | PrecomputedEmbedder,
    Field(discriminator="provider"),
]
