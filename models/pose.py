"""The seam behind which keypoints of people are counted."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from models.tracking.detector import Pixels
from schemas import tracking
from schemas.chat import ModelRef


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
    from models.transformers_pose import TransformersPoseModel

    return TransformersPoseModel(spec)
