"""Which model turns images and texts into vectors of one space."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.base import Record
from schemas.chat import NamedModel
from schemas.device import TorchDevice

_FAMILIES = Path(__file__).with_name("mllm_families.toml")

ModelWord = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""What a model or its revision is called: something, without control characters."""


class _EmbedderBase(NamedModel):
    name: ModelWord
    revision: ModelWord


class BuiltinEmbedder(_EmbedderBase):
    """Colours of images by their place, read by a lexicon out of texts: no download."""

    provider: Literal["builtin"] = "builtin"
    name: ModelWord = "loupe-colour-lexicon"
    revision: ModelWord = "1"


class BuiltinStillsEmbedder(_EmbedderBase):
    """What the code on drawn stills says, against what a lexicon reads in texts: no download."""

    provider: Literal["builtin-stills"] = "builtin-stills"
    name: ModelWord = "loupe-coded-stills-lexicon"
    revision: ModelWord = "2"


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

    determined_by = ("dtype", "architecture_sha256", "checkpoint_sha256")
    provider: Literal["open_clip"]
    architecture_file: Path | None = None
    architecture_sha256: str | None = None
    checkpoint: Path | None = None
    checkpoint_sha256: str | None = None


class TransformersEmbedder(TorchEmbedderSpec):
    """A two-tower model of transformers (extra `torch`).

    ALIGN, AltCLIP, CLIP, SigLIP, SigLIP 2, and BLIP and BLIP-2 for image-text retrieval.

    `name` is one of the hub at `revision`, or a folder, whose files have the digest
    `folder_sha256`: that of the lines which `sha256sum *.json *.safetensors` prints in it.
    `scoring` is for BLIP-2, whose images have many vectors: evaluations compare a text with their
    mean, or with the most similar one. `rerank` is for BLIP and BLIP-2: evaluations have their
    matching head sort the first so many of each query.
    """

    provider: Literal["transformers"]
    folder_sha256: str | None = None
    scoring: Literal["mean", "maximum"] = "mean"
    rerank: int = Field(default=0, ge=0)

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        found: dict[str, Any] = {"dtype": self.dtype, "folder_sha256": self.folder_sha256}
        return found if self.scoring == "mean" else {**found, "scoring": self.scoring}


class MllmFamily(Record):
    """How a family of multimodal language models is asked for a vector.

    The four prompts are explained in `mllm_families.toml`, which holds the known families.
    """

    model_type: str
    checkpoints: tuple[str, ...]
    source: str
    image_query: str
    image_candidate: str
    text_query: str
    text_candidate: str


@cache
def mllm_families() -> dict[str, MllmFamily]:
    """The known families by name."""
    values = tomllib.loads(_FAMILIES.read_text(encoding="utf-8"))
    return {name: MllmFamily.model_validate(family) for name, family in values.items()}


class MllmEmbedder(TorchEmbedderSpec):
    """A multimodal language model made to embed (GME, VLM2Vec, UniME and such): extra `torch`.

    Its vector is the state of the last token of a prompt of its `family`, which may be left out for
    the published checkpoints. These models were trained with one prompt for what asks and another
    for what is found. `queries` says what asks; `directed` gives the specification that is right
    for one direction. With `none`, the default, both sides have the prompts of what is found.

    `name` and `folder_sha256` are as for `TransformersEmbedder`. `least_pixels` and `most_pixels`
    are for models that take images of any size (Qwen2-VL).
    """

    provider: Literal["mllm"]
    family: str = ""
    folder_sha256: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    batch_size: int = Field(default=4, gt=0)
    queries: Literal["none", "images", "texts"] = "none"
    least_pixels: int = Field(default=256 * 28 * 28, gt=0)
    most_pixels: int = Field(default=1280 * 28 * 28, gt=0)
    most_tokens: int = Field(default=1800, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _know_published_checkpoints(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("family"):
            found = (
                k for k, one in mllm_families().items() if values.get("name") in one.checkpoints
            )
            return {**values, "family": next(found, "")}
        return values

    @field_validator("family")
    @classmethod
    def _is_known(cls, family: str) -> str:
        if family not in mllm_families():
            known = ", ".join(mllm_families())
            raise ValueError(f"must be one of {known} for a checkpoint that is none of theirs")
        return family

    @property
    def image_prompt(self) -> str:
        """What stands around an image."""
        family = mllm_families()[self.family]
        return family.image_query if self.queries == "images" else family.image_candidate

    @property
    def text_prompt(self) -> str:
        """What stands around `{text}`."""
        family = mllm_families()[self.family]
        return family.text_query if self.queries == "texts" else family.text_candidate

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside name and revision, determines a vector."""
        left_out = {"provider", "name", "revision", "device", "batch_size", "queries"}
        prompts = {"image_prompt": self.image_prompt, "text_prompt": self.text_prompt}
        return self.model_dump(mode="json", exclude=left_out) | prompts


class CfamEmbedder(TorchEmbedderSpec):
    """A checkpoint of our CFAM trainer: a folder with `model.safetensors` and `settings.json`."""

    determined_by = ("dtype", "checkpoint_sha256")
    provider: Literal["cfam"]
    name: ModelWord = "cfam"
    revision: ModelWord = "checkpoint"
    checkpoint: Path
    checkpoint_sha256: str | None = None


class PrecomputedEmbedder(_EmbedderBase):
    """Vectors that are there already, as `.npy`, a row for each image and text of the release.

    Rows have the order of the release: images by row, texts by row and then by caption. No
    model stands behind it: `retrieval.embeddings` reads the vectors.
    """

    determined_by = ("images_sha256", "texts_sha256")
    provider: Literal["precomputed"]
    revision: ModelWord = "1"
    images: Path
    texts: Path
    images_sha256: str | None = None
    texts_sha256: str | None = None


PlainModelSpec = (
    BuiltinEmbedder | BuiltinStillsEmbedder | OpenClipEmbedder | TransformersEmbedder | MllmEmbedder
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
    if isinstance(spec, MllmEmbedder) and spec.queries == "none":
        return spec.model_copy(update={"queries": queries})
    return spec
