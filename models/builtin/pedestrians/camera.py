"""How far the camera has moved against a remembered picture."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

_SIDE_PX: Final = 256
_FARTHEST: Final = 0.06
_MEAN: Final = 118.0
_EDGE_SHARE: Final = 0.85
_MOST_APART: Final = 12.0
_BETTER: Final = 0.85
_LEAST_SIDE_PX: Final = 16


class Shift(NamedTuple):
    """The movement of a picture's content, in pixels."""

    right: float
    down: float

    def __bool__(self) -> bool:
        return self != STILL


STILL: Final = Shift(0.0, 0.0)


class SmallGrey(NamedTuple):
    """A grey picture of at most 256 pixels a side, evened in light; by how much it was shrunk."""

    pixels: MatLike
    shrink: float


def small_grey(pixels: MatLike) -> SmallGrey:
    """`pixels`, of shape (h, w, 3), RGB, as a small grey picture."""
    shrink = max(1.0, max(pixels.shape[:2]) / _SIDE_PX)
    size = (max(2, round(pixels.shape[1] / shrink)), max(2, round(pixels.shape[0] / shrink)))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
    return SmallGrey(grey * np.float32(_MEAN / max(1.0, float(grey.mean()))), shrink)


def shift_between(before: SmallGrey, after: SmallGrey) -> Shift | None:
    """How the content of `before` has moved to be that of `after`; None where it is not in it.

    Phase correlation of the whole and of its quarters guesses; people who walk by mislead some of
    the guesses. The one is taken under which most edges of `before` are where they should be.
    """
    edges = _edges(before.pixels)
    best, apart = STILL, _apart(before.pixels, after.pixels, edges, STILL)
    for guess in _guesses(before.pixels, after.pixels):
        guessed_apart = _apart(before.pixels, after.pixels, edges, guess)
        if guessed_apart < _BETTER * apart:
            best, apart = guess, guessed_apart
    if apart > _MOST_APART:
        return None
    return Shift(best.right * before.shrink, best.down * before.shrink)


def _guesses(before: MatLike, after: MatLike) -> Iterator[Shift]:
    height, width = before.shape
    if min(height, width) < _LEAST_SIDE_PX:
        return
    halves = ((0, height // 2), (height // 2, height)), ((0, width // 2), (width // 2, width))
    parts = [(rows, columns) for rows in halves[0] for columns in halves[1]]
    for (top, bottom), (left, right) in [((0, height), (0, width)), *parts]:
        part = np.s_[top:bottom, left:right]
        window = cv2.createHanningWindow((right - left, bottom - top), cv2.CV_32F)
        (across, along), _ = cv2.phaseCorrelate(
            np.ascontiguousarray(before[part]), np.ascontiguousarray(after[part]), window
        )
        if max(abs(across), abs(along)) <= _FARTHEST * width:
            yield Shift(across, along)


def _edges(pixels: MatLike) -> NDArray[np.bool_]:
    """Where lightness changes most."""
    slope = cv2.magnitude(cv2.Sobel(pixels, cv2.CV_32F, 1, 0), cv2.Sobel(pixels, cv2.CV_32F, 0, 1))
    edges: NDArray[np.bool_] = slope >= np.quantile(slope[::2, ::2], _EDGE_SHARE)
    return edges


def _apart(before: MatLike, after: MatLike, edges: NDArray[np.bool_], shift: Shift) -> float:
    """Median difference on the edges of `before`, were its content moved by `shift`."""
    move = np.array([[1, 0, -shift.right], [0, 1, -shift.down]], np.float32)
    size = (before.shape[1], before.shape[0])
    back = cv2.warpAffine(after, move, size, borderMode=cv2.BORDER_REPLICATE) if shift else after
    return float(np.median(np.abs(back[edges] - before[edges])))
