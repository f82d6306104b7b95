"""The background seen by a still camera, and the regions that differ from it."""

from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple, cast

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from loupe.models.tracking.detector import Pixels

# Arithmetic of boxes: (n, 4) arrays of left, top, right, bottom.

Boxes = NDArray[np.float32]


def areas(boxes: Boxes) -> NDArray[np.float32]:
    """Return how large each box is, (n,); 0 if it is inverted."""
    return np.asarray(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1), np.float32)


def _shared_areas(boxes: Boxes, others: Boxes) -> NDArray[np.float32]:
    """Return the shared area of each of `boxes` with each of `others`, (n, m)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=2), np.float32)


def overlaps(boxes: Boxes, others: Boxes) -> NDArray[np.float32]:
    """Return the intersection over union, (n, m)."""
    shared = _shared_areas(boxes, others)
    union = areas(boxes)[:, None] + areas(others)[None, :] - shared
    return np.asarray(shared / np.maximum(union, np.float32(1e-6)), np.float32)


def best_apart(
    boxes: Boxes, scores: NDArray[np.float32], most_overlap: float, most_inside: float
) -> NDArray[np.intp]:
    """Return the indexes of the boxes after non-maximum suppression, best first.

    Two boxes are duplicates if their intersection over union, or the share of the smaller in the
    other, is above the limits. In case of a tie the first is kept.
    """
    order = np.argsort(-scores, kind="stable")
    smaller = np.minimum(areas(boxes)[:, None], areas(boxes)[None, :])
    inside = _shared_areas(boxes, boxes) / np.maximum(smaller, np.float32(1e-6))
    similar = (overlaps(boxes, boxes) > most_overlap) | (inside > most_inside)
    kept: list[int] = []
    for index in order:
        if not similar[index, kept].any():
            kept.append(int(index))
    return np.array(kept, np.intp)


# How far the camera has moved against a stored image.

_SIDE_PX: Final = 256
_FARTHEST: Final = 0.06
_MEAN: Final = 118.0
_EDGE_SHARE: Final = 0.85
_MOST_APART: Final = 12.0
_BETTER: Final = 0.85
_LEAST_SIDE_PX: Final = 16


Shift = tuple[float, float]
"""The movement of an image's content, in pixels: (right, down)."""

_STILL: Final[Shift] = (0.0, 0.0)


def _small_grey(pixels: MatLike) -> tuple[MatLike, float]:
    """Return `pixels` (RGB) in grey, at most 256 pixels a side, in even light, and the scale."""
    shrink = max(1.0, max(pixels.shape[:2]) / _SIDE_PX)
    size = (max(2, round(pixels.shape[1] / shrink)), max(2, round(pixels.shape[0] / shrink)))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return grey * np.float32(_MEAN / max(1.0, float(grey.mean()))), shrink


def _moved_back(pixels: MatLike, shift: Shift, **options: Any) -> MatLike:
    """Return `pixels` with its content moved by `-shift`, with subpixel accuracy."""
    move = np.array([[1, 0, -shift[0]], [0, 1, -shift[1]]], np.float32)
    return cv2.warpAffine(pixels, move, (pixels.shape[1], pixels.shape[0]), **options)


def _shift_between(before: MatLike, after: MatLike) -> Shift | None:
    """Return the movement of the content from `before` to `after`; None if it is not found.

    Candidates are the phase correlations of the whole and of its quarters, because people who walk
    by make some of them wrong. The result is the candidate under which most edges of `before`
    match.
    """
    (before, shrink), (after, _) = _small_grey(before), _small_grey(after)
    slope = cv2.magnitude(cv2.Sobel(before, cv2.CV_32F, 1, 0), cv2.Sobel(before, cv2.CV_32F, 0, 1))
    edges = slope >= np.quantile(slope[::2, ::2], _EDGE_SHARE)

    def apart(shift: Shift) -> float:
        """Return the median difference at the edges, with `before` moved by `shift`."""
        border = {"borderMode": cv2.BORDER_REPLICATE}
        back = after if shift == _STILL else _moved_back(after, shift, **border)
        return float(np.median(np.abs(back[edges] - before[edges])))

    best, least = _STILL, apart(_STILL)
    for guess in _guesses(before, after):
        guessed = apart(guess)
        if guessed < _BETTER * least:
            best, least = guess, guessed
    return None if least > _MOST_APART else (best[0] * shrink, best[1] * shrink)


def _guesses(before: MatLike, after: MatLike) -> Iterator[Shift]:
    height, width = before.shape
    if min(height, width) < _LEAST_SIDE_PX:
        return
    halves = ((0, height // 2), (height // 2, height)), ((0, width // 2), (width // 2, width))
    for (top, bottom), (left, right) in [((0, height), (0, width)), *product(*halves)]:
        part = np.s_[top:bottom, left:right]
        window = cv2.createHanningWindow((right - left, bottom - top), cv2.CV_32F)
        guess, _ = cv2.phaseCorrelate(
            np.ascontiguousarray(before[part]), np.ascontiguousarray(after[part]), window
        )
        if max(map(abs, guess)) <= _FARTHEST * width:
            yield guess[0], guess[1]


# The background seen by a still camera, and the regions that differ from it.

Mask = MatLike
"""(h, w): 255 where an object is, else 0."""

_RATE: Final = 0.04
_STEP: Final = 1.5
_LEAST_DIFFERENCE: Final = 18.0
_DARKEST: Final = 0.3
_USUAL_LIGHT: Final = (0.6, 1.6)
_NOISE_FACTOR: Final = 5.0
_STEADY_PX: Final = 0.3
_SHADOW: Final = (0.6, 0.96)
_SHADOW_TINT: Final = 0.06
_GRID: Final = 8


class View(NamedTuple):
    """A frame in the coordinates of the background.

    Attributes:
        pixels: the frame, aligned with the background.
        shift: (right, down): from a position in `pixels` to the same one in the frame.
    """

    pixels: Pixels
    shift: Shift


class Background:
    """A running image of the place without people; it starts as the first frame.

    Where nothing differs it follows the frames as a running average. Objects that are not people
    are absorbed within about a hundred frames; where people are, it waits.

    Attributes:
        pixels: (h, w, 3) float32, RGB: the complete state.
    """

    def __init__(self, pixels: NDArray[np.float32]) -> None:
        self.pixels = pixels

    def view(self, frame: Pixels) -> View | None:
        """Align `frame` with the background; None if it shows another place or viewpoint.

        A shaking camera is compensated with subpixel accuracy.
        """
        if frame.shape != self.pixels.shape:
            return None
        usual = cv2.convertScaleAbs(self.pixels)
        shift = _shift_between(usual, frame)
        if shift is None:
            return None
        if max(map(abs, shift)) < _STEADY_PX:
            return View(frame, _STILL)
        # Parts outside the frame are filled from the background, and so do not differ.
        border = {"dst": usual, "borderMode": cv2.BORDER_TRANSPARENT}
        moved = _moved_back(frame, shift, flags=cv2.INTER_LINEAR, **border)
        return View(cast("Pixels", moved), shift)

    def difference(self, frame: Pixels) -> Mask:
        """Return where `frame` differs by more than light or a shadow."""
        now = cv2.GaussianBlur(frame, (3, 3), 0)
        gain = self._gain(now)
        usual = cv2.convertScaleAbs(cv2.multiply(self.pixels, _by_channel(gain)))
        red, green, blue = cv2.split(cv2.absdiff(now, usual))
        apart = cv2.max(cv2.max(red, green), blue)
        noise = float(np.median(apart[::_GRID, ::_GRID]))
        brightness = float(np.clip(gain.mean(), _DARKEST, 1))
        limit = max(_LEAST_DIFFERENCE * brightness, _NOISE_FACTOR * noise)
        mask = cv2.threshold(apart, limit, 255, cv2.THRESH_BINARY)[1]
        _clear_shadows(mask, now, usual)
        return cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))

    def learn(self, frame: Pixels, differs: Mask, people: Mask) -> None:
        """Update with `frame`, except where `people` are, or if the light is unusual."""
        gain = self._gain(frame)
        if not _USUAL_LIGHT[0] < float(gain.mean()) < _USUAL_LIGHT[1]:
            return
        now = _evened(frame, gain)
        usual = cv2.bitwise_not(cv2.bitwise_or(differs, people))
        cv2.accumulateWeighted(now, self.pixels, _RATE, mask=usual)
        rows, columns = places_in(cv2.subtract(differs, people))
        apart = now[rows, columns] - self.pixels[rows, columns]
        self.pixels[rows, columns] += np.clip(apart, -_STEP, _STEP)

    def forget(self, frame: Pixels, where: Mask) -> None:
        """Replace the background by `frame`."""
        cv2.copyTo(_evened(frame, self._gain(frame)), where, self.pixels)

    def _gain(self, now: MatLike) -> NDArray[np.float32]:
        """Return by how much each channel is brighter than usual, over the whole image, (3,)."""
        ratio = (now[::_GRID, ::_GRID] + 1.0) / (self.pixels[::_GRID, ::_GRID] + 1.0)
        return np.median(ratio.reshape(-1, 3), axis=0).astype(np.float32)


def _evened(frame: MatLike, gain: NDArray[np.float32]) -> MatLike:
    """Return `frame` in usual light, (h, w, 3) float32."""
    return cv2.multiply(frame, _by_channel(1 / gain), dtype=cv2.CV_32F)


def _by_channel(factors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return three factors as OpenCV takes them; it multiplies several times faster than NumPy."""
    return np.array([*factors, 0.0])


def places_in(mask: Mask) -> tuple[MatLike, MatLike]:
    """Return the rows and columns of `mask`; many times faster than NumPy's `nonzero`."""
    found = cv2.findNonZero(mask)
    if found is None:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    return found[:, 0, 1], found[:, 0, 0]


def _clear_shadows(mask: Mask, now: MatLike, usual: MatLike) -> None:
    """Remove shadows from `mask`: regions slightly darker than usual in all channels alike."""
    rows, columns = places_in(mask)
    ratio = (now[rows, columns] + np.float32(1)) / (usual[rows, columns] + np.float32(1))
    red, green, blue = ratio.T  # one by one: NumPy is slow along an axis of three
    low = np.minimum(np.minimum(red, green), blue)
    high = np.maximum(np.maximum(red, green), blue)
    shadow = (low > _SHADOW[0]) & (high < _SHADOW[1]) & (high - low < _SHADOW_TINT)
    mask[rows[shadow], columns[shadow]] = 0


# Connected regions that differ from the background.

_LEAST_HEIGHT_SHARE: Final = 0.045
_LEAST_FILL: Final = 0.2
_GAP_SHARE: Final = 0.02
_GHOST_SHARE: Final = 0.6


class Blobs(NamedTuple):
    """Regions of a mask.

    Attributes:
        boxes: (n, 4) xyxy.
        labels: (h, w): 1 + index of the blob that a pixel belongs to, 0 for none.
        mask: (h, w): the pixels that differ, with small gaps closed.
    """

    boxes: Boxes
    labels: np.ndarray[tuple[int, int], np.dtype[np.int32]]
    mask: Mask


def blobs_in(mask: Mask) -> Blobs:
    """Return the regions of `mask` as large as a person, gaps between limbs closed."""
    height = mask.shape[0]
    gap = max(3, round(_GAP_SHARE * height) | 1)
    closed = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((gap, 3), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
    left, top, wide, high, area = stats.T
    large = (high >= _LEAST_HEIGHT_SHARE * height) & (area >= _LEAST_FILL * wide * high)
    large[0] = False
    kept = np.flatnonzero(large)
    numbers = np.zeros(count, np.int32)
    numbers[kept] = np.arange(1, len(kept) + 1)
    boxes = np.stack([left, top, left + wide, top + high], axis=1)[kept].astype(np.float32)
    return Blobs(boxes, numbers[labels], closed)


def is_ghost(frame: MatLike, usual: MatLike, blob: Mask) -> bool:
    """Whether the background, not the frame, shows the person, who has left since.

    An object has edges along its outline in the image that shows it. All three images are cut out
    around the blob.
    """
    outline = cv2.morphologyEx(blob, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
    return _edges_along(outline, frame) < _GHOST_SHARE * _edges_along(outline, usual)


def _edges_along(outline: Mask, pixels: MatLike) -> float:
    """Return the mean gradient of lightness on the outline."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    slope = cv2.magnitude(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
    return float(cv2.mean(slope, mask=outline)[0])
