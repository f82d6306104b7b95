"""Cut images out of the pixels of a frame, and encode them."""

from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.models.tracking.detector import Pixels
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import LoupeError
from loupe.schemas.records import Picture

MARGIN = 0.03
"""Margin around a person, as a share of the box's width and height.

Boxes of trackers often cut off feet and hands; at this size the crop still shows next to nothing of
the surroundings.
"""
_MEDIA_TYPE = "image/jpeg"
_JPEG_QUALITY = 95
"""JPEG quality of crops.

The video was compressed with loss already. At this quality, with full colour resolution, a crop
takes a third of the size of its PNG and adds less error than the video has itself.
"""


class Crop(NamedTuple):
    """An encoded image: its bytes and what is recorded about it."""

    data: bytes
    picture: Picture


def cut(pixels: Pixels, box_xyxy: NDArray[np.float64], margin: float = 0.0) -> Pixels:
    """Return the part of a frame inside a box, as a view; empty if they do not overlap.

    The box is extended by `margin` of its size on each side, rounded to whole pixels, and clipped
    to the frame.
    """
    left, top, right, bottom = window(pixels, box_xyxy, margin)
    return pixels[top:bottom, left:right]


def window(
    pixels: Pixels, box_xyxy: NDArray[np.float64], margin: float
) -> tuple[int, int, int, int]:
    """Return the whole pixels of a frame that `cut` takes: left, top, right, bottom."""
    left, top, right, bottom = map(float, box_xyxy)
    room_x, room_y = margin * (right - left), margin * (bottom - top)
    height, width = pixels.shape[:2]
    first_column, first_row = max(0, floor(left - room_x)), max(0, floor(top - room_y))
    last_column, last_row = min(width, ceil(right + room_x)), min(height, ceil(bottom + room_y))
    return first_column, first_row, max(first_column, last_column), max(first_row, last_row)


def encode(pixels: Pixels) -> Crop:
    """Encode an image as JPEG at quality 95 with full colour resolution."""
    import cv2

    options = [
        cv2.IMWRITE_JPEG_QUALITY,
        _JPEG_QUALITY,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR,
        cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    ]
    is_written, file = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), options)
    height, width = pixels.shape[:2]
    if not is_written:
        raise LoupeError(f"a crop of {width}×{height} pixels could not be written as JPEG")
    data = file.tobytes()
    picture = Picture(
        sha256=sha256_of(data), media_type=_MEDIA_TYPE, width_px=width, height_px=height
    )
    return Crop(data, picture)
