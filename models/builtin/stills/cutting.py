"""Cuts out of a picture what a closed line of ink surrounds."""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from models.builtin.stills.preparing import Mask, Pixels, Prepared

_LEAST_SIDE_PX = 12
_LEAST_AREA_PX = 160
_LEAST_INSIDE = 0.3  # of what a line surrounds; with less it is a dark patch
_GAP = np.ones((2, 2), np.uint8)  # lines may break where they are as thin as a pixel


class Cut(NamedTuple):
    """Something with ink around it; all arrays are those of its box.

    `left`, `top` are the box's corner in pixels of the picture; `shape` marks what the outermost
    line surrounds, `ink` the ink in it; `pixels` has shape (height, width, 3).
    """

    left: int
    top: int
    shape: Mask
    ink: Mask
    pixels: Pixels

    @property
    def height(self) -> int:
        """Of the box, in pixels."""
        return int(self.shape.shape[0])

    @property
    def width(self) -> int:
        """Of the box, in pixels."""
        return int(self.shape.shape[1])


def cut_things(picture: Prepared) -> Iterator[Cut]:
    """Everything that is cut out, from left to right."""
    closed = cv2.morphologyEx(picture.ink.astype(np.uint8), cv2.MORPH_CLOSE, _GAP)
    contours, _ = cv2.findContours(closed, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    boxes = sorted((cv2.boundingRect(contour), place) for place, contour in enumerate(contours))
    for (left, top, width, height), place in boxes:
        if min(width, height) < _LEAST_SIDE_PX:
            continue
        shape = np.zeros((height, width), np.uint8)
        cv2.drawContours(shape, contours, place, 1, cv2.FILLED, offset=(-left, -top))
        window = np.s_[top : top + height, left : left + width]
        ink = picture.ink[window] & (shape > 0)
        if shape.sum() >= _LEAST_AREA_PX and ink.sum() <= (1 - _LEAST_INSIDE) * shape.sum():
            yield Cut(left, top, shape > 0, ink, picture.pixels[window])


def background(picture: Prepared, cuts: list[Cut]) -> NDArray[np.bool_]:
    """The pixels, of shape (height, width), that belong to nothing that was cut out."""
    free = np.ones(picture.ink.shape, np.uint8)
    for cut in cuts:
        window = free[cut.top : cut.top + cut.height, cut.left : cut.left + cut.width]
        window[cut.shape] = 0
    return np.asarray(cv2.erode(free, np.ones((5, 5), np.uint8)) > 0)
