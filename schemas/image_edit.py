"""Requests to image editing models, their results, and the available models."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loupe.schemas.base import Box, Record, canonical_json, digest_of, sha256_of
from loupe.schemas.chat import ChatImage, ModelRef, NamedModel, PluginModel


class EditRequest(Record):
    """One edit: an image, the instruction, and the seed."""

    image: ChatImage
    instruction: str = Field(min_length=1)
    seed: int = Field(ge=0)

    def key(self, model: ModelRef, parameters: dict[str, Any]) -> str:
        """Return the identity of this edit: equal for equal model, parameters and request."""
        return digest_of(
            str(model),
            canonical_json(parameters),
            self.instruction,
            str(self.seed),
            sha256_of(self.image.data),
        )


class EditedPicture(Record):
    """An edited image, encoded losslessly (PNG), and the seconds that the edit took.

    `regions` are boxes around the objects of the instruction, in pixels of the image: where it was
    to change, whether or not it did. Empty if unknown, or if the whole image was to change.
    """

    image: ChatImage
    width_px: int = Field(gt=0)
    height_px: int = Field(gt=0)
    seconds: float = Field(ge=0)
    regions: tuple[Box, ...] = ()


class EditFailure(Record):
    """An edit without an image.

    `reason` is a snake_case word (`instruction_not_understood`, `nothing_to_change`,
    `image_unreadable`, `out_of_memory`, `bad_values` …); `retriable` is whether a later retry may
    help.
    """

    reason: str
    detail: str
    retriable: bool = False


EditOutcome = EditedPicture | EditFailure


class BuiltinEditor(NamedModel):
    """The editor of drawn stills, whose code it parses: no download, deterministic by seed."""

    provider: Literal["builtin-editor"] = "builtin-editor"
    name: str = "loupe-coded-stills-editor"
    revision: str = "2"

    @property
    def steps(self) -> int:
        """Number of steps of an edit."""
        return 1


class QwenImageEdit(NamedModel):
    """Qwen-Image-Edit, or Qwen-Image-Edit-Plus (`plus`), through diffusers (CCD, appendix A).

    Attributes:
        plus: whether the weights are for the Plus pipeline (Qwen-Image-Edit-2509 and later).
        steps: denoising steps.
        true_cfg_scale: the scale of classifier-free guidance.
        negative_prompt: what guidance avoids.
        offload: what is moved between processor and accelerator: `none`, whole components
            (`model`), or layers (`sequential`), which needs the least memory.
        area_px: images are edited at no more than this many pixels; None for the pipeline's own
            area, about a megapixel. Less needs less memory and time, but loses detail.
        batch_size: up to this many images of equal size are edited at once; more needs more memory.
            1 with `plus`, whose pipeline has no batches.
        dtype: precision of the weights; `auto` is bfloat16 on an accelerator, else float32.
    """

    determined_by = ("steps", "true_cfg_scale", "negative_prompt", "dtype", "area_px")
    provider: Literal["qwen-image-edit"]
    name: str = "Qwen/Qwen-Image-Edit"
    revision: str = "main"
    plus: bool = False
    steps: int = Field(default=28, ge=1)
    true_cfg_scale: float = Field(default=4.0, ge=1)
    negative_prompt: str = " "
    offload: Literal["none", "model", "sequential"] = "none"
    area_px: int | None = Field(default=None, ge=64 * 64, le=1024 * 1024)
    batch_size: int = Field(default=1, ge=1)
    device: str = "auto"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"

    @model_validator(mode="after")
    def _has_batches(self) -> "QwenImageEdit":
        if self.plus and self.batch_size > 1:
            raise ValueError(
                f"batch_size must be 1 with plus = true, whose pipeline edits one image at a time; "
                f"got {self.batch_size}"
            )
        return self


class PluginEditor(PluginModel):
    """The editor of a plugin; `steps` are the steps of an edit, for provenance."""

    steps: int = Field(default=1, ge=1)


ImageEditorSpec = Annotated[
    BuiltinEditor | QwenImageEdit | PluginEditor, Field(discriminator="provider")
]
