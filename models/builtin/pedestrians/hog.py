"""OpenCV's pedestrian detector (HOG and a linear SVM), with boxes that fit people."""

from typing import Final, NamedTuple

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from models.tracking.frame import Pixels

WINDOW_PX: Final = (64, 128)
PERSON_PX: Final = 92.0
"""How high a person stands in the detector's window of 64×128 pixels."""

_WIDTH_SHARE: Final = 0.5
_HEIGHT_SHARE: Final = PERSON_PX / WINDOW_PX[1]
_SLACK: Final = 0.22
_LARGEST_ZOOM: Final = 1.16
_ZOOM_STEP: Final = 1.12
_SCAN_STEP: Final = 1.2
_STRIDE: Final = (8, 8)


class Sights(NamedTuple):
    """What looks like a person: boxes (n, 4) xyxy in pixels of the frame, and SVM margins (n,)."""

    boxes: NDArray[np.float32]
    margins: NDArray[np.float32]


NOTHING: Final = Sights(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))


class Hog:
    """Looks for people; keeps nothing between two calls."""

    def __init__(self) -> None:
        self._near = _descriptor(levels=4)
        self._far = _descriptor(levels=64)

    def around(self, frame: Pixels, box: NDArray[np.float32], least_margin: float) -> Sights:
        """People in and around `box`, about as high as it is."""
        left, top, right, bottom = (float(side) for side in box)
        height = max(bottom - top, 8.0)
        zoom = PERSON_PX / height * _LARGEST_ZOOM
        side_room = (WINDOW_PX[0] / PERSON_PX * (1 + _SLACK) * height) / 2
        end_room = (WINDOW_PX[1] / PERSON_PX * (1 + _SLACK) * height - height) / 2
        middle = (left + right) / 2
        area = (
            min(left, middle - side_room),
            top - end_room,
            max(right, middle + side_room),
            bottom + end_room,
        )
        crop, origin = _cut(frame, area)
        size = (
            max(WINDOW_PX[0], round(crop.shape[1] * zoom)),
            max(WINDOW_PX[1], round(crop.shape[0] * zoom)),
        )
        scale = np.array([crop.shape[1] / size[0], crop.shape[0] / size[1]], np.float32)
        large = cv2.resize(crop, size, interpolation=cv2.INTER_LINEAR)
        return _looked(self._near, large, scale, origin, least_margin, _ZOOM_STEP)

    def everywhere(self, frame: Pixels, least_height_px: float, least_margin: float) -> Sights:
        """People of at least `least_height_px` in the whole frame."""
        zoom = PERSON_PX / least_height_px
        height, width = frame.shape[:2]
        size = (max(WINDOW_PX[0], round(width * zoom)), max(WINDOW_PX[1], round(height * zoom)))
        scale = np.array([width / size[0], height / size[1]], np.float32)
        large = cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR)
        return _looked(self._far, large, scale, (0, 0), least_margin, _SCAN_STEP)


def _descriptor(levels: int) -> cv2.HOGDescriptor:
    """The detector as it was trained, but for the number of sizes it looks at."""
    block, stride, cell, bins, norm_limit = (16, 16), (8, 8), (8, 8), 9, 0.2
    descriptor = cv2.HOGDescriptor(
        WINDOW_PX, block, stride, cell, bins, 1, -1.0, 0, norm_limit, True, levels
    )
    people = np.array(cv2.HOGDescriptor.getDefaultPeopleDetector(), np.float32)
    descriptor.setSVMDetector(people)
    return descriptor


def _cut(
    frame: MatLike, area: tuple[float, float, float, float]
) -> tuple[MatLike, tuple[int, int]]:
    """The part of `frame` in `area`; what lies outside the frame repeats its border."""
    height, width = frame.shape[:2]
    left, top = int(np.floor(area[0])), int(np.floor(area[1]))
    right, bottom = int(np.ceil(area[2])), int(np.ceil(area[3]))
    inside = frame[max(0, top) : min(height, bottom), max(0, left) : min(width, right)]
    beyond = (max(0, -top), max(0, bottom - height), max(0, -left), max(0, right - width))
    if any(beyond):
        inside = cv2.copyMakeBorder(inside, *beyond, borderType=cv2.BORDER_REPLICATE)
    return inside, (left, top)


def _looked(
    hog: cv2.HOGDescriptor,
    picture: MatLike,
    scale: NDArray[np.float32],
    origin: tuple[int, int],
    least_margin: float,
    step: float,
) -> Sights:
    """What `hog` finds in `picture`, in pixels of the frame.

    The levels are worked on in parallel and end in any order: what they find is sorted.
    """
    found, margins = hog.detectMultiScale(
        picture,
        hitThreshold=least_margin,
        winStride=_STRIDE,
        padding=(0, 0),
        scale=step,
        groupThreshold=0,
    )
    if len(found) == 0:
        return NOTHING
    windows = np.asarray(found, np.float32).reshape(-1, 4)
    weights = np.asarray(margins, np.float32).reshape(-1)
    order = np.lexsort((*windows.T, -weights))
    windows, weights = windows[order], weights[order]
    centres = windows[:, :2] + windows[:, 2:] / 2
    halves = windows[:, 2:] * np.array([_WIDTH_SHARE, _HEIGHT_SHARE], np.float32) / 2
    shift = np.array(origin, np.float32)
    corners = [(centres - halves) * scale + shift, (centres + halves) * scale + shift]
    return Sights(np.concatenate(corners, axis=1).astype(np.float32), weights)
