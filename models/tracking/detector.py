"""What every person detector gives: the people of a frame."""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.chat import ModelRef

# A frame of a video, as it passes from the decoder to the detector and the scissors.

Pixels = NDArray[np.uint8]
"""A picture of shape (height, width, 3), RGB, upright."""


class Frame(NamedTuple):
    """`number` counts the frames of the video from 0; `time_seconds` is when it is shown."""

    number: int
    time_seconds: float
    pixels: Pixels


# The seam behind which people are found in frames.


class Detections(NamedTuple):
    """The people in one frame, falling by score.

    Attributes:
        boxes_xyxy: (n, 4) float32: left, top, right, bottom in pixels of the frame, not clipped.
        scores: (n,) float32 in [0, 1].
        embeddings: (n, d) float32 of unit length; None where nothing is known of appearance.
    """

    boxes_xyxy: NDArray[np.float32]
    scores: NDArray[np.float32]
    embeddings: NDArray[np.float32] | None

    def __bool__(self) -> bool:
        return len(self.scores) > 0


class PersonDetector(Protocol):
    """Finds people in the frames of one video, given in order.

    A detector may remember earlier frames (where the background is, say) until it is reset for
    another video. What it remembers is its `state`: restored into a new detector, the next frames
    give the same detections, bit for bit.
    """

    @property
    def ref(self) -> ModelRef:
        """The model, for provenance."""
        ...

    def detect(self, frame: Frame) -> Detections:
        """The people in `frame`."""
        ...

    def reset(self) -> None:
        """Forgets all frames: the next one is the first of a video."""
        ...

    def state(self) -> bytes:
        """All that is remembered of earlier frames; empty where that is nothing."""
        ...

    def restore(self, state: bytes) -> None:
        """Remembers what another detector of the same kind did."""
        ...
