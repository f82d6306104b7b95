"""Specifications of models that map images and texts to vectors of one space."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from loupe.schemas.base import Record, TorchDevice
from loupe.schemas.chat import NamedModel, PluginModel
from loupe.schemas.validation import PlacedPath

_FAMILIES = Path(__file__).with_name("mllm_families.toml")

ModelWord = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Name of a model or its revision: not empty, without control characters."""


class _EmbedderBase(NamedModel):
    name: ModelWord
    revision: ModelWord


class BuiltinEmbedder(_EmbedderBase):
    """Colours of images by position, extracted from texts by a lexicon: no download."""

    provider: Literal["builtin"] = "builtin"
    name: ModelWord = "loupe-colour-lexicon"
    revision: ModelWord = "1"


class BuiltinStillsEmbedder(_EmbedderBase):
    """Contents of the code on drawn stills, extracted from texts by a lexicon: no download."""

    provider: Literal["builtin-stills"] = "builtin-stills"
    name: ModelWord = "loupe-coded-stills-lexicon"
    revision: ModelWord = "2"


class PluginEmbedder(PluginModel):
    """The embedder of a plugin, by its name among the entry points `loupe.models`.

    `options` are what it is made with.
    """

    name: ModelWord
    revision: ModelWord = "1"


class TorchEmbedderSpec(_EmbedderBase):
    """Common fields of embedders that use torch.

    `dtype` is the data type of computations, on every device, so that cached vectors are valid.
    """

    device: TorchDevice = "auto"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: int = Field(default=64, gt=0)


class OpenClipEmbedder(TorchEmbedderSpec):
    """A CLIP of OpenCLIP (extra `torch`): `name` is its architecture, `revision` its weights.

    `revision` is one of OpenCLIP's pretrained tags, or any word if the weights are on this machine:
    `checkpoint` is a file of them; a name `local-dir:FOLDER` is a folder as OpenCLIP saves it (then
    `checkpoint_sha256` is the digest of the folder, as for `TransformersEmbedder`).
    `architecture_file` is JSON in OpenCLIP's form, for an architecture that OpenCLIP does not know.
    """

    determined_by = ("dtype", "architecture_sha256", "checkpoint_sha256")
    provider: Literal["open_clip"]
    architecture_file: PlacedPath | None = None
    architecture_sha256: str | None = None
    checkpoint: PlacedPath | None = None
    checkpoint_sha256: str | None = None


class TransformersEmbedder(TorchEmbedderSpec):
    """A two-tower model of transformers (extra `torch`).

    ALIGN, AltCLIP, CLIP, SigLIP, SigLIP 2, and BLIP and BLIP-2 for image-text retrieval.

    `name` is a model of the hub at `revision`, or a folder whose files have the digest
    `folder_sha256`: that of the lines which `sha256sum` prints for its files (docs/embedders.md).
    `scoring` is for BLIP-2, whose images have many vectors: evaluations compare a text with their
    mean, or with the most similar one. `rerank` is for BLIP and BLIP-2: evaluations rerank this
    many of the first results of each query with the matching head.
    """

    provider: Literal["transformers"]
    folder_sha256: str | None = None
    scoring: Literal["mean", "maximum"] = "mean"
    rerank: int = Field(default=0, ge=0)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return everything, besides name and revision, that determines a vector."""
        found: dict[str, Any] = {"dtype": self.dtype, "folder_sha256": self.folder_sha256}
        return found if self.scoring == "mean" else {**found, "scoring": self.scoring}


class MllmFamily(Record):
    """How a family of multimodal language models is prompted for a vector.

    The fields are explained in `mllm_families.toml`, which holds the known families.
    """

    model_type: str
    checkpoints: tuple[str, ...]
    source: str
    image_query: str
    image_candidate: str
    text_query: str
    text_candidate: str
    image_size_px: int | None = None


@cache
def mllm_families() -> dict[str, MllmFamily]:
    """Return the known families by name."""
    values = tomllib.loads(_FAMILIES.read_text(encoding="utf-8"))
    return {name: MllmFamily.model_validate(family) for name, family in values.items()}


class MllmEmbedder(TorchEmbedderSpec):
    """A multimodal language model for embedding (GME, VLM2Vec, UniME and others): extra `torch`.

    Its vector is the state of the last token of a prompt of its `family`, which may be left out for
    the published checkpoints. These models were trained with different prompts for queries and for
    candidates. `queries` says which side the queries are; `directed` returns the specification for
    one direction. With `none`, the default, both sides use the prompts of candidates.

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
            raise ValueError(
                f"must be one of {known}, because the checkpoint is not a published one"
            )
        return family

    @property
    def image_prompt(self) -> str:
        """Return the prompt around an image."""
        family = mllm_families()[self.family]
        return family.image_query if self.queries == "images" else family.image_candidate

    @property
    def text_prompt(self) -> str:
        """Return the prompt around `{text}`."""
        family = mllm_families()[self.family]
        return family.text_query if self.queries == "texts" else family.text_candidate

    @property
    def parameters(self) -> dict[str, Any]:
        """Return everything, besides name and revision, that determines a vector."""
        left_out = {"provider", "name", "revision", "device", "batch_size", "queries"}
        prompts = {"image_prompt": self.image_prompt, "text_prompt": self.text_prompt}
        found = self.model_dump(mode="json", exclude=left_out) | prompts
        size = mllm_families()[self.family].image_size_px
        return found if size is None else {**found, "image_size_px": size}


class CfamEmbedder(TorchEmbedderSpec):
    """A checkpoint of our CFAM trainer: a folder with `model.safetensors` and `settings.json`."""

    determined_by = ("dtype", "checkpoint_sha256")
    provider: Literal["cfam"]
    name: ModelWord = "cfam"
    revision: ModelWord = "checkpoint"
    checkpoint: PlacedPath
    checkpoint_sha256: str | None = None


class PrecomputedEmbedder(_EmbedderBase):
    """Existing vectors as `.npy`, with a row for each image and text of the release.

    Rows have the order of the release: images by row, texts by row and then by caption. There is no
    model; `loupe.retrieval.embeddings` reads the vectors.
    """

    determined_by = ("images_sha256", "texts_sha256")
    provider: Literal["precomputed"]
    revision: ModelWord = "1"
    images: PlacedPath
    texts: PlacedPath
    images_sha256: str | None = None
    texts_sha256: str | None = None


PlainModelSpec = Annotated[
    BuiltinEmbedder
    | BuiltinStillsEmbedder
    | OpenClipEmbedder
    | TransformersEmbedder
    | MllmEmbedder
    | PluginEmbedder,
    Field(discriminator="provider"),
]
"""The embedders that `loupe.models.registry` builds."""

EmbeddingModelSpec = Annotated[PlainModelSpec | CfamEmbedder, Field(discriminator="provider")]
"""The embedders that `loupe.flows.engine.embedding` builds: all models."""

EmbedderSpec = Annotated[
    PlainModelSpec | CfamEmbedder | PrecomputedEmbedder, Field(discriminator="provider")
]
"""Every source of vectors."""


def directed(spec: EmbedderSpec, queries: Literal["images", "texts"]) -> EmbedderSpec:
    """Return `spec` for the direction of `queries`; unchanged if it takes no instructions."""
    if isinstance(spec, MllmEmbedder) and spec.queries == "none":
        return spec.model_copy(update={"queries": queries})
    return spec
