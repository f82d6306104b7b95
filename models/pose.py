"""Pose models: ViTPose (transformers) and MediaPipe's pose landmarks."""

from itertools import compress
from typing import Any

import numpy as np
from PIL import Image

from loupe.models.adapter import Adapter
from loupe.models.tracking.detector import Pixels
from loupe.models.weights import (
    configuration_of,
    file_of_package,
    load_network,
    loading_faults,
    torch_device,
)
from loupe.schemas import tracking
from loupe.schemas.errors import ModelError
from loupe.schemas.extras import needs_extra
from loupe.schemas.video import LANDMARKS, Body

# ViTPose (Xu et al., NeurIPS 2022) as implemented in transformers.


class TransformersPoseModel(Adapter[tracking.ViTPoseModel]):
    """Counts the keypoints whose heatmap reaches `spec.visible_score`.

    Weights are loaded from safetensors files only, which contain no code.

    Raises:
        MissingExtraError: torch, torchvision or transformers is not installed.
        ModelError: the model could not be loaded, or is of another class.
    """

    def __init__(self, spec: tracking.ViTPoseModel) -> None:
        with needs_extra(f"the pose model {spec.name!r}"):
            import torch
            import torchvision  # noqa: F401
            import transformers
        self._torch = torch
        super().__init__(spec)
        self._device = torch_device(spec.device)
        with loading_faults("transformers", spec.ref):
            self._load(transformers)

    def body(self, pixels: Pixels) -> Body:
        """Return the number of visible keypoints: see `PoseModel`."""
        height, width = pixels.shape[:2]
        boxes = [[[0.0, 0.0, width, height]]]
        crop = self._processor(Image.fromarray(pixels), boxes=boxes, return_tensors="pt")
        if self._has_experts:  # those of ViTPose+, one per dataset; the first is COCO's
            crop["dataset_index"] = self._torch.zeros(1, dtype=self._torch.int64)
        try:
            with self._torch.inference_mode():
                heat = self._model(**crop.to(self._device))
        except self._torch.OutOfMemoryError as error:
            raise ModelError(
                f"{self.ref} does not fit into the memory of {self._device}"
            ) from error
        visible = heat.heatmaps.flatten(2).amax(dim=2) >= self._spec.visible_score
        names = tuple(compress(LANDMARKS, visible[0].tolist()))
        return Body(keypoints=len(names), visible=names)

    def _load(self, transformers: Any) -> None:
        config = configuration_of(transformers, self.ref)
        # transformers would fill a model of another class with random weights, and only warn.
        if not isinstance(config, transformers.VitPoseConfig):
            raise ModelError(f"{self.ref} is a {config.model_type!r}; wanted a 'vitpose'")
        self._processor = transformers.AutoImageProcessor.from_pretrained(
            self._spec.name, revision=self._spec.revision, trust_remote_code=False
        )
        network = load_network(transformers.VitPoseForPoseEstimation, self.ref)
        self._model = network.to(self._device)
        self._has_experts = getattr(config.backbone_config, "num_experts", 1) > 1


# The pose landmarks of MediaPipe (BlazePose, Bazarevsky et al. 2020), run by OpenCV.

_SIDE_PX = 256
_COCO_LANDMARKS = (0, 2, 5, 7, 8, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28)
"""Those of MediaPipe's 33 that are `LANDMARKS`."""
_VISIBILITY = 3  # of a landmark's five values: x, y, z, visibility, presence


class MediaPipePoseModel(Adapter[tracking.MediaPipePoseModel]):
    """Landmarks, person score and person mask of one person.

    Raises:
        MissingExtraError: the package `mediapipe` is not installed.
    """

    def __init__(self, spec: tracking.MediaPipePoseModel) -> None:
        import cv2

        what = f"the pose model {spec.name!r} (provider 'mediapipe')"
        folder = file_of_package(what, "mediapipe", "modules", "pose_landmark")
        self._network = cv2.dnn.readNetFromTFLite(str(folder / "pose_landmark_full.tflite"))
        super().__init__(spec)

    def body(self, pixels: Pixels) -> Body:
        """Return the visible body: see `PoseModel`."""
        import cv2

        height, width = pixels.shape[:2]
        side = max(height, width)
        above = (side - height) // 2
        before = (side - width) // 2
        square = np.zeros((side, side, 3), np.uint8)
        square[above : above + height, before : before + width] = pixels
        self._network.setInput(cv2.dnn.blobFromImage(square, 1 / 255, (_SIDE_PX, _SIDE_PX)))
        outputs = self._network.forward(["Identity", "Identity_1", "Identity_2"])
        landmarks, flag, mask = (np.asarray(part, np.float32) for part in outputs)
        logits = landmarks.reshape(-1, 5)[list(_COCO_LANDMARKS), _VISIBILITY]
        scores = 1 / (1 + np.exp(-logits.clip(-50, 50)))
        whole = cv2.resize(mask[0, 0], (side, side), interpolation=cv2.INTER_LINEAR)
        inside = whole[above : above + height, before : before + width]
        names = tuple(compress(LANDMARKS, scores >= self._spec.visible_score))
        return Body(
            keypoints=len(names),
            visible=names,
            person=round(float(flag.ravel()[0]), 4),
            person_share=round(float((inside > 0).mean()), 4),  # of logits
        )
