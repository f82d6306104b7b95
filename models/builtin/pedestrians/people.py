"""Detect people from HOG detections and motion: one tight, scored box each."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from models.builtin.pedestrians.background import Blobs, Boxes, best_apart, overlaps, places_in
from models.tracking.detector import Pixels

# OpenCV's pedestrian detector (HOG and a linear SVM), with boxes that fit people.

WINDOW_PX: Final = (64, 128)
PERSON_PX: Final = 92.0
"""Height of a person in the detector's window of 64×128 pixels."""

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
    """Detections: boxes (n, 4) xyxy in pixels of the frame, and SVM margins (n,)."""

    boxes: NDArray[np.float32]
    margins: NDArray[np.float32]


NOTHING: Final = Sights(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))


class Hog:
    """Searches for people; has no state between two calls."""

    def __init__(self) -> None:
        self._descriptor = _descriptor()

    def around(self, frame: Pixels, box: NDArray[np.float32], least_margin: float) -> Sights:
        """Find people in and around `box`, about as high as it is."""
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
        """Find people of at least `least_height_px` in the whole frame."""
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
        """Return the detections in `picture` scaled down by `zooms`, in pixels of the frame.

        OpenCV's own search over sizes runs in threads that append windows and margins separately,
        so that occasionally a window gets the margin of another (HOGInvoker in objdetect's
        hog.cpp). Sizes are therefore searched one after the other.
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
    """Return the factor by which each size is smaller than the first."""
    return (step**level for level in range(count))


def _descriptor() -> cv2.HOGDescriptor:
    descriptor = cv2.HOGDescriptor()
    people = np.array(cv2.HOGDescriptor.getDefaultPeopleDetector(), np.float32)
    descriptor.setSVMDetector(people)
    return descriptor


def _cut(
    frame: MatLike, area: tuple[float, float, float, float]
) -> tuple[MatLike, tuple[int, int]]:
    """Return the part of `frame` in `area`; outside the frame its border is repeated."""
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
    """Convert windows (left, top, width, height) to people in the frame, most confident first."""
    order = np.lexsort((*windows.T, -margins))
    windows, margins = windows[order], margins[order]
    centres = windows[:, :2] + windows[:, 2:] / 2
    halves = windows[:, 2:] * np.array([_WIDTH_SHARE, _HEIGHT_SHARE], np.float32) / 2
    shift = np.array(origin, np.float32)
    corners = [(centres - halves) * scale + shift, (centres + halves) * scale + shift]
    return Sights(np.concatenate(corners, axis=1).astype(np.float32), margins)


# Combines HOG detections and motion: one tight, scored box a person.

_MOST_OVERLAP: Final = 0.4
_MOST_INSIDE: Final = 0.7
_REACH: Final = 0.2
_ENOUGH_FILL: Final = 0.3
_LEAST_PIXELS: Final = 30
_ASPECTS: Final = (0.2, 0.75)
_UNSEEN_MARGIN: Final = -1.6
_MARGINS: Final = (-1.6, 3.0)

# Logistic regression of "is a person" on the two measures. A walking person leaves a good quarter
# of the box free, at the head and between the limbs. Larger shares come from changes of light, or
# from the street behind a turning camera, so the share is capped. A blob without a HOG detection
# stays uncertain: if it were certain, the background would wait for it and differ there
# permanently.
_FULLEST: Final = 0.75
_MARGIN_WEIGHT: Final = 1.3
_FILL_WEIGHT: Final = 4.0
_BIAS: Final = -1.6
_STILL: Final = 0.1
_STILL_WEIGHT: Final = -1.6


class People(NamedTuple):
    """Boxes (n, 4) xyxy and scores (n,), in decreasing order of score."""

    boxes: Boxes
    scores: NDArray[np.float32]


def people_of(sights: Sights, blobs: Blobs | None) -> People:
    """Return the people in `sights` and `blobs`; without blobs, only those in the sights."""
    kept = best_apart(sights.boxes, sights.margins, _MOST_OVERLAP, _MOST_INSIDE)
    boxes, margins = sights.boxes[kept], sights.margins[kept]
    fills = None
    if blobs is not None:
        boxes = _fitted(boxes, blobs)
        lonely = _without_sight(boxes, blobs)
        boxes = np.concatenate([boxes, lonely])
        margins = np.concatenate([margins, np.full(len(lonely), _UNSEEN_MARGIN, np.float32)])
        fills = np.array([fill(box, blobs.mask) for box in boxes], np.float32)
    scores = score(margins, fills)
    order = best_apart(boxes, scores, _MOST_OVERLAP, _MOST_INSIDE)
    return People(boxes[order], scores[order])


def score(margins: NDArray[np.float32], fills: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """Return the probability of a person, (n,), from SVM margin and share of moving pixels.

    `fills` is None if the camera moves, because motion is then unknown.
    """
    evidence = _MARGIN_WEIGHT * np.clip(margins, *_MARGINS) + _BIAS
    if fills is not None:
        moving = _FILL_WEIGHT * np.minimum(fills, _FULLEST)
        evidence = evidence + moving + _STILL_WEIGHT * (fills < _STILL)
    likely: NDArray[np.float32] = (1 / (1 + np.exp(-evidence))).astype(np.float32)
    return likely


def _fitted(boxes: Boxes, blobs: Blobs) -> Boxes:
    """Fit each box tightly around the motion in it.

    A box that is alone in a blob of a person's shape becomes the blob's box; several in one blob
    divide its pixels, each taking those that are nearer to it than to the others.
    """
    if not len(boxes):
        return boxes
    fitted = boxes.copy()
    homes = np.array([_home(box, blobs) for box in boxes])
    rows, columns = places_in((blobs.labels > 0).astype(np.uint8))
    distance = _distances(boxes, rows, columns)
    nearest = distance.argmin(axis=0)
    for index, home in enumerate(homes):
        if home is None or fill(boxes[index], blobs.mask) < _ENOUGH_FILL:
            continue
        if np.count_nonzero(homes == home) == 1 and _has_shape(blobs.boxes[home][None])[0]:
            fitted[index] = blobs.boxes[home]
            continue
        mine = (nearest == index) & (distance[index] <= 1 + _REACH)
        if np.count_nonzero(mine) >= _LEAST_PIXELS:
            fitted[index] = _around(rows[mine], columns[mine])
    return fitted


def _home(box: Boxes, blobs: Blobs) -> int | None:
    """Return the index of the blob that most moving pixels of `box` belong to."""
    labels = _part(box, blobs.labels)
    counts = np.bincount(labels.ravel(), minlength=1)
    counts[0] = 0
    return int(counts.argmax()) - 1 if counts.any() else None


def _has_shape(boxes: Boxes) -> NDArray[np.bool_]:
    """Return which boxes have the aspect ratio of a walking person."""
    wide, high = (boxes[:, 2:] - boxes[:, :2]).T
    aspect = wide / np.maximum(high, 1)
    shaped: NDArray[np.bool_] = (aspect >= _ASPECTS[0]) & (aspect <= _ASPECTS[1])
    return shaped


def _distances(boxes: Boxes, rows: MatLike, columns: MatLike) -> NDArray[np.float32]:
    """Return the distance of pixels from the centres of boxes, (n, pixels); 1 is the border."""
    middles, halves = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2
    across = np.abs(columns[None] - middles[:, :1]) / np.maximum(halves[:, :1], 1)
    down = np.abs(rows[None] - middles[:, 1:]) / np.maximum(halves[:, 1:], 1)
    distance: NDArray[np.float32] = np.maximum(across * 0.7, down).astype(np.float32)
    return distance


def _around(rows: MatLike, columns: MatLike) -> Boxes:
    """Return the box of nearly all of the pixels: single outliers are noise."""
    left, right = np.percentile(columns, (1, 99))
    top, bottom = np.percentile(rows, (0.5, 99.5))
    return np.array([left, top, right + 1, bottom + 1], np.float32)


def _without_sight(boxes: Boxes, blobs: Blobs) -> Boxes:
    """Return the blobs of a person's shape without a box."""
    shaped = _has_shape(blobs.boxes)
    if len(boxes):
        shaped &= overlaps(blobs.boxes, boxes).max(axis=1) < _MOST_OVERLAP
    return blobs.boxes[shaped]


def fill(box: Boxes, mask: MatLike) -> float:
    """Return the share of the pixels in `box` that are in `mask`."""
    inside = _part(box, mask)
    return float(np.count_nonzero(inside)) / inside.size if inside.size else 0.0


def _part(box: Boxes, picture: MatLike) -> MatLike:
    """Return the part inside `box`."""
    left, top, right, bottom = np.clip(np.round(box), 0, None).astype(int)
    return picture[top:bottom, left:right]
