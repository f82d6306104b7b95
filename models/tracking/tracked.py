"""What a tracker says of one frame."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class TrackedPerson(NamedTuple):
    """A person in a frame.

    Attributes:
        number: the tracker's number for the person, from 1, unique in the video.
        box_xyxy: (4,) float64: left, top, right, bottom in pixels of the frame, not clipped.
        score: how sure the detector was, in [0, 1].
        embedding: (d,) float32 of unit length, that of this frame alone; None where the detector
            gave none.
    """

    number: int
    box_xyxy: NDArray[np.float64]
    score: float
    embedding: NDArray[np.float32] | None


class TrackedFrame(NamedTuple):
    """The people in one frame, and the numbers that can still come back in a later one."""

    people: tuple[TrackedPerson, ...]
    alive: frozenset[int]
