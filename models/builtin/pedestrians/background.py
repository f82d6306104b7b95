"""What a still camera sees where nobody is, and what differs from it."""

from typing import Final, NamedTuple, cast

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from models.builtin.pedestrians.camera import shift_between, small_grey
from models.tracking.frame import Pixels

Mask = MatLike
"""(h, w): 255 where something is, 0 elsewhere."""

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
    """A frame as the background sees it.

    Attributes:
        pixels: the frame, moved to where it lies on the background.
        shift: (right, down): from a place in `pixels` to the same in the frame.
    """

    pixels: Pixels
    shift: tuple[float, float]


class Background:
    """A running picture of the place without people; it starts as the first frame.

    Where nothing differs it follows the frames as a running average. What differs and is no person
    is taken over within about a hundred frames; where people stand it waits.

    Attributes:
        pixels: (h, w, 3) float32, RGB: all that is remembered.
    """

    def __init__(self, pixels: NDArray[np.float32]) -> None:
        self.pixels = pixels

    @classmethod
    def of(cls, frame: Pixels) -> "Background":
        """The background that is as good as one frame can make it."""
        return cls(frame.astype(np.float32))

    def view(self, frame: Pixels) -> View | None:
        """`frame` laid on the background; None where it shows another place, or from elsewhere.

        A camera that shakes is followed, to a fraction of a pixel.
        """
        if frame.shape != self.pixels.shape:
            return None
        usual = cv2.convertScaleAbs(self.pixels)
        shift = shift_between(small_grey(usual), small_grey(frame))
        if shift is None:
            return None
        if max(abs(shift.right), abs(shift.down)) < _STEADY_PX:
            return View(frame, (0.0, 0.0))
        move = np.array([[1, 0, -shift.right], [0, 1, -shift.down]], np.float32)
        size = (frame.shape[1], frame.shape[0])
        # What the frame does not show stays as the background has it, and so does not differ.
        moved = cv2.warpAffine(
            frame, move, size, dst=usual, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_TRANSPARENT
        )
        return View(cast("Pixels", moved), (shift.right, shift.down))

    def difference(self, frame: Pixels) -> Mask:
        """Where `frame` shows something else: not only other light, nor a mere shadow."""
        now = cv2.GaussianBlur(frame, (3, 3), 0)
        gain = self._gain(now)
        usual = cv2.convertScaleAbs(cv2.multiply(self.pixels, _by_channel(gain)))
        apart = _largest_channel(cv2.absdiff(now, usual))
        noise = float(np.median(apart[::_GRID, ::_GRID]))
        brightness = float(np.clip(gain.mean(), _DARKEST, 1))
        limit = max(_LEAST_DIFFERENCE * brightness, _NOISE_FACTOR * noise)
        mask = cv2.threshold(apart, limit, 255, cv2.THRESH_BINARY)[1]
        _clear_shadows(mask, now, usual)
        return cv2.morphologyEx(mask, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))

    def learn(self, frame: Pixels, differs: Mask, people: Mask) -> None:
        """Goes on to `frame`, but not where `people` are, nor in a light that is not usual."""
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
        """Takes `frame` for the background at once."""
        cv2.copyTo(_evened(frame, self._gain(frame)), where, self.pixels)

    def _gain(self, now: MatLike) -> NDArray[np.float32]:
        """(3,): by how much each channel is brighter than usual, over the whole picture."""
        ratio = (now[::_GRID, ::_GRID] + 1.0) / (self.pixels[::_GRID, ::_GRID] + 1.0)
        gain: NDArray[np.float32] = np.median(ratio.reshape(-1, 3), axis=0).astype(np.float32)
        return gain


def _evened(frame: MatLike, gain: NDArray[np.float32]) -> MatLike:
    """(h, w, 3) float32: `frame` in usual light."""
    return cv2.multiply(frame, _by_channel(1 / gain), dtype=cv2.CV_32F)


def _by_channel(factors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Three factors as OpenCV takes them; it multiplies several times faster than NumPy."""
    return np.array([*factors, 0.0])


def places_in(mask: Mask) -> tuple[MatLike, MatLike]:
    """Rows and columns of what is in `mask`; many times faster than NumPy's `nonzero`."""
    found = cv2.findNonZero(mask)
    if found is None:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    return found[:, 0, 1], found[:, 0, 0]


def _largest_channel(pixels: MatLike) -> Mask:
    red, green, blue = cv2.split(pixels)
    return cv2.max(cv2.max(red, green), blue)


def _clear_shadows(mask: Mask, now: MatLike, usual: MatLike) -> None:
    """Takes out of `mask` where the picture is somewhat darker than usual in all colours alike."""
    rows, columns = places_in(mask)
    ratio = (now[rows, columns] + np.float32(1)) / (usual[rows, columns] + np.float32(1))
    red, green, blue = ratio.T  # one by one: NumPy is slow along an axis of three
    low = np.minimum(np.minimum(red, green), blue)
    high = np.maximum(np.maximum(red, green), blue)
    shadow = (low > _SHADOW[0]) & (high < _SHADOW[1]) & (high - low < _SHADOW_TINT)
    mask[rows[shadow], columns[shadow]] = 0
