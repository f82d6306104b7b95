"""Qwen-Image-Edit and Qwen-Image-Edit-Plus through diffusers."""

import io
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loupe.models.adapter import Adapter
from loupe.models.image_editor import edited_picture
from loupe.models.weights import hub_commit, loading_faults, torch_device
from loupe.schemas.decoders import as_rgb
from loupe.schemas.errors import ModelError
from loupe.schemas.extras import needs_extra
from loupe.schemas.image_edit import EditFailure, EditOutcome, EditRequest, QwenImageEdit
from loupe.schemas.validation import fault_of

_PIPELINES = {False: "QwenImageEditPipeline", True: "QwenImageEditPlusPipeline"}
_MODULES = {
    False: "diffusers.pipelines.qwenimage.pipeline_qwenimage_edit",
    True: "diffusers.pipelines.qwenimage.pipeline_qwenimage_edit_plus",
}
_SIZES = "calculate_dimensions"
_AREA_PX = 1024 * 1024
_SIZES_LOCK = Lock()
_DARKEST = 2 / 255
"""A picture without any value above this is black."""
_ALLOCATOR_WORDS = ("can't allocate memory", "not enough memory")
_DEVICE_WORDS = ("CUDA error", "HIP error", "CUBLAS_STATUS", "CUDNN_STATUS", "device-side assert")
"""After such an error no request of this process can be run."""


class QwenImageEditor(Adapter[QwenImageEdit]):
    """Edits one image after the other, or several of one working size at once: see `ImageEditor`.

    With a `batch_size` of 1 each request runs alone, and its result cannot depend on its company.
    With more, requests that come one after the other and are edited at one size share a run, in
    which rounding may differ by the company. The Plus pipeline takes several images for one prompt
    and no more than one prompt, so that it has no batches.

    All chance is drawn on the CPU from the request's seed, so that it is the same on every device.
    The pipelines work at about a megapixel with sides that are multiples of 32, whatever the size
    of the image; what comes out is scaled to the size that went in.

    Raises:
        MissingExtraError: diffusers, torch or transformers is not installed.
        ModelError: the model could not be loaded, or is of the other pipeline.
    """

    def __init__(self, spec: QwenImageEdit) -> None:
        with needs_extra(f"the editor {spec.name!r} (provider 'qwen-image-edit')"):
            import diffusers
            import torch
            import transformers  # noqa: F401
        super().__init__(spec)
        self._torch = torch
        self._device = torch_device(spec.device)
        with loading_faults("diffusers", spec.ref):
            self._pipeline = self._load(diffusers)

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[tuple[int, EditOutcome]]:
        """(position, outcome) of each request, a batch at a time: see `ImageEditor`."""
        remaining = iter(requests)
        position = 0
        while batch := list(islice(remaining, self._spec.batch_size)):
            for outcome in self._edited(batch):
                yield position, outcome
                position += 1

    def _load(self, diffusers: Any) -> Any:
        spec = self._spec
        wanted = _PIPELINES[self._spec.plus]
        where = {"revision": spec.revision}
        found = diffusers.DiffusionPipeline.load_config(spec.name, **where).get("_class_name")
        if found != wanted:
            raise ModelError(f"{spec.ref} is made for {found}; with plus = {spec.plus}, {wanted}")
        pipeline = getattr(diffusers, wanted).from_pretrained(
            spec.name, dtype=self._dtype(), use_safetensors=True, trust_remote_code=False, **where
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

    def _edited(self, requests: Sequence[EditRequest]) -> list[EditOutcome]:
        """The outcomes of a batch, in order; images of one working size are edited together."""
        found: dict[int, EditOutcome] = {}
        together: dict[tuple[int, ...], list[int]] = defaultdict(list)
        jobs: dict[int, _Job] = {}
        for place, request in enumerate(requests):
            job = _opened(request)
            if isinstance(job, EditFailure):
                found[place] = job
            else:
                jobs[place] = job
        with _sizes_of(self._spec):
            for place, job in jobs.items():
                together[self._working_size(job.image) or (place,)].append(place)
        for places in together.values():
            outcomes = self._run_together([jobs[place] for place in places])
            found.update(zip(places, outcomes, strict=True))
        return [found[place] for place in range(len(requests))]

    def _run_together(self, jobs: Sequence["_Job"]) -> list[EditOutcome]:
        """The outcomes of requests of one working size; if a batch fails, each runs alone."""
        start = time.perf_counter()
        try:
            pictures = self._run(jobs)
        except (RuntimeError, ValueError, ZeroDivisionError) as error:
            failure = self._failure(error)
            if len(jobs) == 1:
                return [failure]
            outcomes: list[EditOutcome] = []
            for job in jobs:
                outcomes += self._run_together([job])
            return outcomes
        seconds = (time.perf_counter() - start) / len(jobs)
        return [
            _outcome(values, job.image, seconds) for values, job in zip(pictures, jobs, strict=True)
        ]

    def _run(self, jobs: Sequence["_Job"]) -> list[NDArray[np.float32]]:
        """The edited pictures, values from 0 to 1, each of shape (height, width, 3)."""
        spec = self._spec
        options: dict[str, Any] = {
            "true_cfg_scale": spec.true_cfg_scale,
            "num_inference_steps": spec.steps,
            "output_type": "np",
        }
        prompts = [job.request.instruction.replace("<|", "< |") for job in jobs]  # no chat tokens
        chances = [self._torch.Generator("cpu").manual_seed(job.request.seed) for job in jobs]
        with _sizes_of(spec):
            if len(jobs) > 1:
                options |= {"negative_prompt": [spec.negative_prompt] * len(jobs)}
                images = [self._at_working_size(job.image) for job in jobs]
                result = self._pipeline(image=images, prompt=prompts, generator=chances, **options)
            else:
                image: Any = [jobs[0].image] if spec.plus else jobs[0].image
                options |= {"negative_prompt": spec.negative_prompt}
                result = self._pipeline(
                    image=image, prompt=prompts[0], generator=chances[0], **options
                )
        return [np.asarray(values, np.float32) for values in result.images]

    def _at_working_size(self, image: Image.Image) -> Image.Image:
        """As the pipeline scales a single image; for several it leaves that to the caller."""
        width, height = self._working_size(image) or image.size
        scaled: Image.Image = self._pipeline.image_processor.resize(image, height, width)
        return scaled

    def _working_size(self, image: Image.Image) -> tuple[int, int] | None:
        """Width and height at which the pipeline edits; None where it cannot shape the image.

        To be asked for within `_sizes_of`.
        """
        sides = getattr(import_module(_MODULES[self._spec.plus]), _SIZES)
        try:
            width, height, *_ = sides(_AREA_PX, image.width / image.height)
        except (ValueError, ZeroDivisionError):
            return None
        return (int(width), int(height))

    def _failure(self, error: Exception) -> EditFailure:
        """The failure of one request for an error of the pipeline.

        Raises:
            ModelError: the accelerator can serve no further request.
        """
        text = str(error)
        if not isinstance(error, RuntimeError):
            detail = f"the pipeline does not take the request: {fault_of(error)}"
            return EditFailure(reason="refused_request", detail=detail)
        lacks_memory = isinstance(error, self._torch.OutOfMemoryError)
        if lacks_memory or any(words in text for words in _ALLOCATOR_WORDS):
            return self._out_of_memory(error)
        is_broken = isinstance(error, self._torch.AcceleratorError)
        if is_broken or any(words in text for words in _DEVICE_WORDS):
            raise ModelError(f"{self.ref} cannot go on: {fault_of(error)}") from error
        detail = f"the pipeline failed: {fault_of(error)}"
        return EditFailure(reason="edit_failed", detail=detail, retriable=True)

    def _out_of_memory(self, error: Exception) -> EditFailure:
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()
        detail = (
            f"the edit does not fit into memory; offload = 'model' or 'sequential' needs less "
            f"(now {self._spec.offload!r}): {fault_of(error)}"
        )
        return EditFailure(reason="out_of_memory", detail=detail, retriable=True)


def pinned_editor(spec: QwenImageEdit) -> QwenImageEdit:
    """The same specification with the current commit of the hub's revision.

    A folder is unchanged: its owner sets its revision.

    Raises:
        MissingExtraError: diffusers is not installed.
        ModelError: there is no such model, or the hub cannot be reached.
    """
    if Path(spec.name).is_dir():
        return spec

    def ask(diffusers: Any) -> Any:
        return diffusers.DiffusionPipeline.load_config(
            spec.name, revision=spec.revision, return_commit_hash=True
        )[1]

    commit = hub_commit(spec, "diffusers", f"the editor {spec.name!r}", ask)
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
    module = import_module(_MODULES[spec.plus])
    most = spec.area_px
    with _SIZES_LOCK:
        original = getattr(module, _SIZES)
        setattr(module, _SIZES, lambda area, ratio: original(min(area, most), ratio))
        try:
            yield
        finally:
            setattr(module, _SIZES, original)


class _Job(NamedTuple):
    """A request, and its image as RGB."""

    request: EditRequest
    image: Image.Image


def _opened(request: EditRequest) -> _Job | EditFailure:
    try:
        with Image.open(io.BytesIO(request.image.data)) as opened:
            return _Job(request, as_rgb(opened))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return EditFailure(reason="image_unreadable", detail=f"it does not decode: {error}")


def _outcome(values: NDArray[np.float32], image: Image.Image, seconds: float) -> EditOutcome:
    if problem := _bad_values(values, image):
        return EditFailure(reason="bad_values", detail=problem)
    picture = Image.fromarray(np.clip(values * 255, 0, 255).round().astype(np.uint8))
    if picture.size != image.size:
        picture = picture.resize(image.size, Image.Resampling.LANCZOS)
    return edited_picture(picture, seconds)


def _bad_values(values: NDArray[np.float32], image: Image.Image) -> str | None:
    """What is wrong with the values of a picture, if anything."""
    if not np.isfinite(values).all():
        return "the picture has values that are no numbers; a wider dtype may help"
    if values.max() <= _DARKEST < np.asarray(image).max() / 255:
        return "the picture is black; a wider dtype may help"
    return None
