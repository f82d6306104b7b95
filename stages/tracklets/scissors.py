"""People cut out of frames, and the cut pictures as files."""

from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.tracking.detector import Pixels
from schemas.base import sha256_of
from schemas.errors import LoupeError
from schemas.proposals import Picture

MARGIN = 0.03
"""Room left around a person, as a share of the box's width and height: tracked boxes cut into
feet and hands, and what people see of the surroundings is still next to nothing."""
MEDIA_TYPE = "image/jpeg"
JPEG_QUALITY = 95
"""Video was lossy before. At this quality, with colours at full resolution, a crop is a third of
the size of its PNG and differs from the frame by less than the video does from the street."""
LEAST_SIDE_PX = 2
"""What has fewer whole pixels inside the frame, in either direction, cannot be seen."""


class Crop(NamedTuple):
    """A picture as a file: its bytes, and what is recorded of it."""

    data: bytes
    picture: Picture


def cut(pixels: Pixels, box_xyxy: NDArray[np.float64], margin: float = 0.0) -> Pixels:
    """The part of a frame that lies in a box: a view, not a copy; empty where none does.

    The box is widened by `margin` of its sides in each direction, then to whole pixels, then
    clipped to the frame.
    """
    left, top, right, bottom = map(float, box_xyxy)
    room_x, room_y = margin * (right - left), margin * (bottom - top)
    height, width = pixels.shape[:2]
    first_column, last_column = max(0, floor(left - room_x)), min(width, ceil(right + room_x))
    first_row, last_row = max(0, floor(top - room_y)), min(height, ceil(bottom + room_y))
    return pixels[
        first_row : max(first_row, last_row), first_column : max(first_column, last_column)
    ]


def is_in_view(cut_pixels: Pixels) -> bool:
    """Whether enough of a person was cut out to see anything."""
    height, width = cut_pixels.shape[:2]
    return bool(height >= LEAST_SIDE_PX and width >= LEAST_SIDE_PX)


def encode(pixels: Pixels) -> Crop:
    """A picture as a JPEG file of quality 95 with full colour resolution."""
    import cv2

    options = [
        cv2.IMWRITE_JPEG_QUALITY,
        JPEG_QUALITY,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    ]
    is_written, file = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), options)
    height, width = pixels.shape[:2]
    if not is_written:
        raise LoupeError(f"a crop of {width}×{height} pixels could not be written as JPEG")
    data = file.tobytes()
    picture = Picture(
        sha256=sha256_of(data), media_type=MEDIA_TYPE, width_px=width, height_px=height
    )
    return Crop(data, picture)
