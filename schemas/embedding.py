"""Which model turns images and texts into vectors of one space."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base import Record
from schemas.chat import ModelRef
from schemas.device import TorchDevice

ModelWord = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""What a model or its revision is called: something, without control characters."""


class _EmbedderBase(Record):
    name: ModelWord
    revision: ModelWord

    @property
    def ref(self) -> ModelRef:
        """The model as a value for keys and provenance."""
        return ModelRef(name=self.name, revision=self.revision)


class BuiltinEmbedder(_EmbedderBase):
    """Colours of images by their place, read by a lexicon out of texts: no download."""

    provider: Literal["builtin"] = "builtin"
    name: ModelWord = "loupe-colour-lexicon"
    revision: ModelWord = "1"

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {}


class BuiltinStillsEmbedder(_EmbedderBase):
    """What the code on drawn stills says, against what a lexicon reads in texts: no download."""

    provider: Literal["builtin-stills"] = "builtin-stills"
    name: ModelWord = "loupe-coded-stills-lexicon"
    revision: ModelWord = "2"

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {}


class TorchEmbedderSpec(_EmbedderBase):
    """What embedders on torch share.

    `dtype` says what the network computes in, on every device: so a cached vector is right.
    """

    device: TorchDevice = "auto"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: int = Field(default=64, gt=0)


class OpenClipEmbedder(TorchEmbedderSpec):
    """A CLIP of OpenCLIP (extra `torch`): `name` is its architecture, `revision` its weights.

    `revision` is one of OpenCLIP's pretrained tags, or any word where weights lie on this machine:
    `checkpoint` names a file of them; a name `local-dir:FOLDER` a folder as OpenCLIP saves it
    (then `checkpoint_sha256` is the folder's, as for `TransformersEmbedder`). `architecture_file`
    is JSON in OpenCLIP's form, for an architecture that it does not know.
    """

    provider: Literal["open_clip"]
    architecture_file: Path | None = None
    architecture_sha256: str | None = None
    checkpoint: Path | None = None
    checkpoint_sha256: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {
            "dtype": self.dtype,
            "architecture_sha256": self.architecture_sha256,
            "checkpoint_sha256": self.checkpoint_sha256,
        }


class TransformersEmbedder(TorchEmbedderSpec):
    """A CLIP, SigLIP, SigLIP 2 or BLIP-2 (image-text retrieval) of transformers (extra `torch`).

    `name` is one of the hub at `revision`, or a folder, whose files have the digest
    `folder_sha256`: that of the lines which `sha256sum *.json *.safetensors` prints in it.
    """

    provider: Literal["transformers"]
    folder_sha256: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {"dtype": self.dtype, "folder_sha256": self.folder_sha256}


class QwenVLEmbedder(TorchEmbedderSpec):
    """A Qwen2-VL made to embed (GME, Ops-MM-embedding): the last token's state, with instructions.

    These models were trained with an instruction before what asks, and `candidate_instruction`
    before what is found. `queries` says what asks; `directed` gives the specification that is right
    for one direction. With `both`, the default, one set of vectors serves both directions.

    `name` and `folder_sha256` are as for `TransformersEmbedder`.
    """

    provider: Literal["qwen-vl"]
    folder_sha256: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    batch_size: int = Field(default=4, gt=0)
    queries: Literal["both", "images", "texts"] = "both"
    image_instruction: str = "Find an image caption describing the given everyday image."
    text_instruction: str = "Find me an everyday image that matches the given caption."
    candidate_instruction: str = "You are a helpful assistant."
    least_pixels: int = Field(default=256 * 28 * 28, gt=0)
    most_pixels: int = Field(default=1280 * 28 * 28, gt=0)
    most_tokens: int = Field(default=1800, gt=0)

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        left_out = {"provider", "name", "revision", "device", "batch_size"}
        return self.model_dump(mode="json", exclude=left_out)


class CfamEmbedder(TorchEmbedderSpec):
    """A checkpoint of our CFAM trainer: a folder with `model.safetensors` and `settings.json`."""

    provider: Literal["cfam"]
    name: ModelWord = "cfam"
    revision: ModelWord = "checkpoint"
    checkpoint: Path
    checkpoint_sha256: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {"dtype": self.dtype, "checkpoint_sha256": self.checkpoint_sha256}


class PrecomputedEmbedder(_EmbedderBase):
    """Vectors that are there already, as `.npy`, a row for each image and text of the release.

    Rows have the order of the release: images by row, texts by row and then by caption. No
    model stands behind it: `retrieval.embeddings` reads the vectors.
    """

    provider: Literal["precomputed"]
    revision: ModelWord = "1"
    images: Path
    texts: Path
    images_sha256: str | None = None
    texts_sha256: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        return {"images_sha256": self.images_sha256, "texts_sha256": self.texts_sha256}


PlainModelSpec = (
    BuiltinEmbedder
    | BuiltinStillsEmbedder
    | OpenClipEmbedder
    | TransformersEmbedder
    | QwenVLEmbedder
)
"""What `models.embedders` builds."""

EmbeddingModelSpec = Annotated[PlainModelSpec | CfamEmbedder, Field(discriminator="provider")]
"""What `retrieval.embedders` builds: every model."""

EmbedderSpec = Annotated[
    PlainModelSpec | CfamEmbedder | PrecomputedEmbedder, Field(discriminator="provider")
]
"""Every source of vectors."""


def directed(spec: EmbedderSpec, queries: Literal["images", "texts"]) -> EmbedderSpec:
    """`spec` for the direction in which `queries` ask: itself, unless it takes instructions."""
    if isinstance(spec, QwenVLEmbedder) and spec.queries == "both":
        return spec.model_copy(update={"queries": queries})
    return spec
