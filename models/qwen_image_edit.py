"""Qwen-Image-Edit and Qwen-Image-Edit-Plus through diffusers."""

import io
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.torch_batches import loading_faults
from models.torch_device import torch_device
from schemas.chat import ChatImage, ModelRef
from schemas.errors import MissingExtraError, ModelError
from schemas.image_edit import EditedPicture, EditFailure, EditOutcome, EditRequest, QwenImageEdit

_PIPELINES = {False: "QwenImageEditPipeline", True: "QwenImageEditPlusPipeline"}
_MODULES = {
    False: "diffusers.pipelines.qwenimage.pipeline_qwenimage_edit",
    True: "diffusers.pipelines.qwenimage.pipeline_qwenimage_edit_plus",
}
_SIZES = "calculate_dimensions"
_SIZES_LOCK = Lock()
_DARKEST = 2 / 255
"""A picture without any value above this is black."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ALLOCATOR_WORDS = ("can't allocate memory", "not enough memory")


class QwenImageEditor:
    """Edits one image after the other: see `ImageEditor`.

    diffusers cannot put different images into one batch (the Plus pipeline says so, the other takes
    one picture for all prompts), so each request runs alone, and its result cannot depend on its
    company. All chance is drawn on the CPU from the request's seed, so that it is the same on every
    device. The pipelines work at about a megapixel with sides that are multiples of 32, whatever
    the size of the image; what comes out is scaled to the size that went in.

    Raises:
        MissingExtraError: diffusers, torch or transformers is not installed.
        ModelError: the model could not be loaded, or is of the other pipeline.
    """

    def __init__(self, spec: QwenImageEdit) -> None:
        try:
            import diffusers
            import torch
            import transformers  # noqa: F401
        except ModuleNotFoundError as error:
            what = f"the editor {spec.name!r} (provider 'qwen-image-edit')"
            raise MissingExtraError(what, "torch") from error
        self._spec = spec
        self._torch = torch
        self._device = torch_device(spec.device)
        with loading_faults("diffusers", spec.ref):
            self._pipeline = self._load(diffusers)

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the profile states them; the revision is what is loaded."""
        return self._spec.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """Steps, guidance, precision and size."""
        return self._spec.parameters

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[tuple[int, EditOutcome]]:
        """(position, outcome) of each request, one at a time: see `ImageEditor`."""
        for position, request in enumerate(requests):
            yield position, self._edit(request)

    def _load(self, diffusers: Any) -> Any:
        spec, wanted = self._spec, _PIPELINES[self._spec.plus]
        where = {"revision": spec.revision}
        found = diffusers.DiffusionPipeline.load_config(spec.name, **where).get("_class_name")
        if found != wanted:
            raise ModelError(f"{spec.ref} is made for {found}; with plus = {spec.plus}, {wanted}")
        pipeline = getattr(diffusers, wanted).from_pretrained(
            spec.name, dtype=self._dtype(), use_safetensors=True, **where
        )
        pipeline.set_progress_bar_config(disable=True)
        if spec.offload == "none":
            return pipeline.to(self._device)
        if self._device.type == "cpu":
            raise ModelError(
                f"offload = {spec.offload!r} moves {spec.ref} between memory and an accelerator; "
                "this machine has none, wanted offload = 'none'"
            )
        offload = {
            "model": pipeline.enable_model_cpu_offload,
            "sequential": pipeline.enable_sequential_cpu_offload,
        }
        offload[spec.offload](device=self._device)
        return pipeline

    def _dtype(self) -> Any:
        if self._spec.dtype != "auto":
            return getattr(self._torch, self._spec.dtype)
        return self._torch.float32 if self._device.type == "cpu" else self._torch.bfloat16

    def _edit(self, request: EditRequest) -> EditOutcome:
        start = time.perf_counter()
        try:
            with Image.open(io.BytesIO(request.image.data)) as opened:
                image = opened.convert("RGB")
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            return EditFailure(reason="image_unreadable", detail=f"it does not decode: {error}")
        try:
            values = self._run(image, request)
        except self._torch.OutOfMemoryError as error:
            return self._out_of_memory(error)
        except RuntimeError as error:
            if any(words in str(error) for words in _ALLOCATOR_WORDS):
                return self._out_of_memory(error)
            raise ModelError(f"{self.ref} cannot go on: {_first_line(error)}") from error
        except (ValueError, ZeroDivisionError) as error:
            detail = f"the pipeline does not take the request: {_first_line(error)}"
            return EditFailure(reason="refused_request", detail=detail)
        if problem := _bad_values(values, image):
            return EditFailure(reason="bad_values", detail=problem)
        return _picture(values, image.size, time.perf_counter() - start)

    def _run(self, image: Image.Image, request: EditRequest) -> NDArray[np.float32]:
        """The edited picture, values from 0 to 1, of shape (height, width, 3)."""
        spec = self._spec
        with _sizes_of(spec):
            result = self._pipeline(
                image=[image] if spec.plus else image,
                prompt=request.instruction.replace("<|", "< |"),  # no token of the chat's own
                negative_prompt=spec.negative_prompt,
                true_cfg_scale=spec.true_cfg_scale,
                num_inference_steps=spec.steps,
                generator=self._torch.Generator("cpu").manual_seed(request.seed),
                output_type="np",
            )
        return np.asarray(result.images[0], np.float32)

    def _out_of_memory(self, error: Exception) -> EditFailure:
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()
        detail = (
            f"the edit does not fit into memory; offload = 'model' or 'sequential' needs less "
            f"(now {self._spec.offload!r}): {_first_line(error)}"
        )
        return EditFailure(reason="out_of_memory", detail=detail, retriable=True)


def pinned_editor(spec: QwenImageEdit) -> QwenImageEdit:
    """The same with the commit that the hub's revision is now, so that no other weights are loaded.

    A folder stays as it is: its revision is the word of whoever keeps it.

    Raises:
        MissingExtraError: diffusers is not installed.
        ModelError: there is no such model, or the hub cannot be reached.
    """
    if Path(spec.name).is_dir() or _COMMIT.fullmatch(spec.revision):
        return spec
    try:
        import diffusers
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the editor {spec.name!r}", "torch") from error
    with loading_faults("diffusers", spec.ref):
        _, commit = diffusers.DiffusionPipeline.load_config(
            spec.name, revision=spec.revision, return_commit_hash=True
        )
    if commit is None:
        raise ModelError(f"diffusers does not tell which commit {spec.ref} is")
    return spec.model_copy(update={"revision": commit})


@contextmanager
def _sizes_of(spec: QwenImageEdit) -> Iterator[None]:
    """Within, the pipeline works at no more than `spec.area_px`.

    It has no argument for that: the area is written into its code. So the function of its module
    that gives sides for an area is another one as long as a picture is made; only one is at a time.
    """
    if spec.area_px is None:
        yield
        return
    module, most = import_module(_MODULES[spec.plus]), spec.area_px
    with _SIZES_LOCK:
        original = getattr(module, _SIZES)
        setattr(module, _SIZES, lambda area, ratio: original(min(area, most), ratio))
        try:
            yield
        finally:
            setattr(module, _SIZES, original)


def _bad_values(values: NDArray[np.float32], image: Image.Image) -> str | None:
    """What is wrong with the numbers of a picture, if anything is."""
    if not np.isfinite(values).all():
        return "the picture has values that are no numbers; a wider dtype may help"
    if values.max() <= _DARKEST < np.asarray(image).max() / 255:
        return "the picture is black; a wider dtype may help"
    return None


def _picture(values: NDArray[np.float32], size: tuple[int, int], seconds: float) -> EditedPicture:
    pixels = np.clip(values * 255, 0, 255).round().astype(np.uint8)
    picture = Image.fromarray(pixels)
    if picture.size != size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return EditedPicture(
        image=ChatImage(media_type="image/png", data=buffer.getvalue()),
        width_px=size[0],
        height_px=size[1],
        seconds=seconds,
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
