"""Keypoints of people: what counts them, and ViTPose as transformers has it."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.torch_batches import torch_device
from models.tracking.detector import Pixels
from schemas import tracking
from schemas.chat import ModelRef
from schemas.errors import MissingExtraError, ModelError


class PoseModel(Protocol):
    """Sees how much of a person shows."""

    @property
    def ref(self) -> ModelRef:
        """The model, for provenance."""
        ...

    def visible_keypoints(self, pixels: Pixels, boxes_xyxy: NDArray[np.floating]) -> list[int]:
        """How many keypoints of a body (17 of them, as in COCO) show in each box, in their order.

        Args:
            pixels: the frame.
            boxes_xyxy: (n, 4): left, top, right, bottom in pixels of the frame.
        """
        ...


def build_pose_model(spec: tracking.PoseModel) -> PoseModel:
    """The pose model that `spec` describes, loaded; only its own libraries are imported.

    Raises:
        MissingExtraError: the extra `torch` is not installed.
        ModelError: the model could not be loaded.
    """
    return _TransformersPoseModel(spec)


# ViTPose (Xu et al., NeurIPS 2022) as transformers has it.

_PEOPLE_AT_ONCE = 32
_SMALLEST_SIDE_PX = 1.0


class _TransformersPoseModel:
    """Counts the keypoints whose heat is at least `spec.visible_score` somewhere.

    Weights are taken from safetensors files only, which hold no code.

    Raises:
        MissingExtraError: torch, torchvision or transformers is not installed.
        ModelError: the model could not be loaded, or is none of this class.
    """

    def __init__(self, spec: tracking.PoseModel) -> None:
        try:
            import torch
            import torchvision  # noqa: F401
            import transformers
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"the pose model {spec.name!r}", "torch") from error
        self._torch = torch
        self._spec = spec
        self._device = torch_device(spec.device)
        try:
            self._load(transformers)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ModelError(f"transformers could not load {self.ref}: {reason}") from error

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the profile states them; the revision is what is loaded."""
        return self._spec.ref

    def visible_keypoints(self, pixels: Pixels, boxes_xyxy: NDArray[np.floating]) -> list[int]:
        """How many keypoints show in each box: see `PoseModel`."""
        frame = Image.fromarray(np.ascontiguousarray(pixels))
        counts: list[int] = []
        for start in range(0, len(boxes_xyxy), _PEOPLE_AT_ONCE):
            counts += self._count(frame, boxes_xyxy[start : start + _PEOPLE_AT_ONCE])
        return counts

    def _load(self, transformers: Any) -> None:
        where = {"revision": self._spec.revision}
        config = transformers.AutoConfig.from_pretrained(self._spec.name, **where)
        # transformers would fill a model of another class with random weights, and only warn.
        if not isinstance(config, transformers.VitPoseConfig):
            raise ModelError(f"{self.ref} is a {config.model_type!r}; wanted a 'vitpose'")
        self._processor = transformers.AutoImageProcessor.from_pretrained(self._spec.name, **where)
        model, report = transformers.VitPoseForPoseEstimation.from_pretrained(
            self._spec.name, use_safetensors=True, output_loading_info=True, **where
        )
        if report["missing_keys"]:
            raise ModelError(f"{self.ref} lacks the weights {min(report['missing_keys'])!r}, …")
        self._model = model.to(self._device).eval()
        self._has_experts = getattr(config.backbone_config, "num_experts", 1) > 1

    def _count(self, frame: Image.Image, boxes_xyxy: NDArray[np.floating]) -> list[int]:
        near, far = boxes_xyxy[:, :2], boxes_xyxy[:, 2:]
        boxes_xywh = np.concatenate([near, np.maximum(far - near, _SMALLEST_SIDE_PX)], axis=1)
        people = self._processor(frame, boxes=[boxes_xywh.tolist()], return_tensors="pt")
        try:
            with self._torch.inference_mode():
                heat = self._model(**people.to(self._device), **self._expert(len(boxes_xywh)))
        except self._torch.OutOfMemoryError as error:
            raise ModelError(
                f"{self.ref} does not fit into the memory of {self._device}"
            ) from error
        visible = heat.heatmaps.flatten(2).amax(dim=2) >= self._spec.visible_score
        counts: list[int] = visible.sum(dim=1).tolist()
        return counts

    def _expert(self, people: int) -> dict[str, Any]:
        """Which expert of ViTPose+ to ask, one a data set: the first is COCO's."""
        if not self._has_experts:
            return {}
        return {
            "dataset_index": self._torch.zeros(people, dtype=self._torch.int64, device=self._device)
        }
