"""A frame of a video, as it passes from the decoder to the detector and the scissors."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""A picture of shape (height, width, 3), RGB, upright."""


class Frame(NamedTuple):
    """`number` counts the frames of the video from 0; `time_seconds` is when it is shown."""

    number: int
    time_seconds: float
    pixels: Pixels
