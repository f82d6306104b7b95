"""The interfaces of person detectors and pose models: the people of a frame, and their bodies."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from loupe.schemas.chat import ModelRef
from loupe.schemas.video import Body

# A frame of a video, as it passes from the decoder to the detector and to the cropping.

Pixels = NDArray[np.uint8]
"""An image of shape (height, width, 3), RGB, upright."""


class Frame(NamedTuple):
    """`number` counts the frames of the video from 0; `time_seconds` is when it is shown."""

    number: int
    time_seconds: float
    pixels: Pixels


# The interface of person detectors.


class Detections(NamedTuple):
    """The people in one frame, in decreasing order of score.

    Attributes:
        boxes_xyxy: (n, 4) float32: left, top, right, bottom in pixels of the frame, not clipped.
        scores: (n,) float32 in [0, 1].
        embeddings: (n, d) float32 of unit length; None if the detector provides none.
    """

    boxes_xyxy: NDArray[np.float32]
    scores: NDArray[np.float32]
    embeddings: NDArray[np.float32] | None

    def __bool__(self) -> bool:
        return len(self.scores) > 0


class PersonDetector(Protocol):
    """Finds people in single frames; it remembers no earlier ones."""

    @property
    def ref(self) -> ModelRef:
        """The model, for provenance."""
        ...

    def detect(self, frame: Frame) -> Detections:
        """Return the people in `frame`."""
        ...


class PoseModel(Protocol):
    """Measures how much of a person is visible."""

    @property
    def ref(self) -> ModelRef:
        """The model, for provenance."""
        ...

    def body(self, pixels: Pixels) -> Body:
        """Return the visible body in the crop of one person; of 17 keypoints, as in COCO."""
        ...
