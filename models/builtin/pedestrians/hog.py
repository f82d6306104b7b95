"""OpenCV's pedestrian detector (HOG and a linear SVM), with boxes that fit people."""

from collections.abc import Iterable, Iterator
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
_NEAR_LEVELS: Final = 4
_FAR_LEVELS: Final = 64


class Sights(NamedTuple):
    """What looks like a person: boxes (n, 4) xyxy in pixels of the frame, and SVM margins (n,)."""

    boxes: NDArray[np.float32]
    margins: NDArray[np.float32]


NOTHING: Final = Sights(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))


class Hog:
    """Looks for people; keeps nothing between two calls."""

    def __init__(self) -> None:
        self._descriptor = _descriptor()

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
        return self._looked(large, scale, origin, least_margin, _levels(_ZOOM_STEP, _NEAR_LEVELS))

    def everywhere(self, frame: Pixels, least_height_px: float, least_margin: float) -> Sights:
        """People of at least `least_height_px` in the whole frame."""
        zoom = PERSON_PX / least_height_px
        height, width = frame.shape[:2]
        size = (max(WINDOW_PX[0], round(width * zoom)), max(WINDOW_PX[1], round(height * zoom)))
        scale = np.array([width / size[0], height / size[1]], np.float32)
        large = cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR)
        return self._looked(large, scale, (0, 0), least_margin, _levels(_SCAN_STEP, _FAR_LEVELS))

    def _looked(
        self,
        picture: MatLike,
        scale: NDArray[np.float32],
        origin: tuple[int, int],
        least_margin: float,
        zooms: Iterable[float],
    ) -> Sights:
        """What is found in `picture` when it is made smaller by `zooms`, in pixels of the frame.

        OpenCV's own search over sizes runs in threads that list windows and margins apart, so that
        now and then a window gets the margin of another (HOGInvoker in objdetect's hog.cpp): one
        size after the other is asked for.
        """
        windows, weights = [np.zeros((0, 4), np.float32)], [np.zeros(0, np.float32)]
        for zoom in zooms:
            size = (round(picture.shape[1] / zoom), round(picture.shape[0] / zoom))
            if size[0] < WINDOW_PX[0] or size[1] < WINDOW_PX[1]:
                break
            smaller = cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR_EXACT)
            corners, margins = self._descriptor.detect(
                smaller, hitThreshold=least_margin, winStride=_STRIDE
            )
            at = np.rint(np.asarray(corners, np.float32).reshape(-1, 2) * zoom)
            sides = np.broadcast_to(np.rint(np.array(WINDOW_PX) * zoom), at.shape)
            windows.append(np.concatenate([at, sides], axis=1).astype(np.float32))
            weights.append(np.asarray(margins, np.float32).reshape(-1))
        return _sights(np.concatenate(windows), np.concatenate(weights), scale, origin)


def _levels(step: float, count: int) -> Iterator[float]:
    """How much smaller each size is made than the first."""
    return (step**level for level in range(count))


def _descriptor() -> cv2.HOGDescriptor:
    descriptor = cv2.HOGDescriptor()
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


def _sights(
    windows: NDArray[np.float32],
    margins: NDArray[np.float32],
    scale: NDArray[np.float32],
    origin: tuple[int, int],
) -> Sights:
    """Windows (left, top, width, height) of a picture as people in the frame, surest first."""
    order = np.lexsort((*windows.T, -margins))
    windows, margins = windows[order], margins[order]
    centres = windows[:, :2] + windows[:, 2:] / 2
    halves = windows[:, 2:] * np.array([_WIDTH_SHARE, _HEIGHT_SHARE], np.float32) / 2
    shift = np.array(origin, np.float32)
    corners = [(centres - halves) * scale + shift, (centres + halves) * scale + shift]
    return Sights(np.concatenate(corners, axis=1).astype(np.float32), margins)
