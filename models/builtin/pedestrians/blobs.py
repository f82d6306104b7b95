"""Connected regions that differ from the background."""

from typing import Final, NamedTuple

import cv2
import numpy as np
from cv2.typing import MatLike

from models.builtin.pedestrians.background import Mask
from models.builtin.pedestrians.boxes import Boxes

_LEAST_HEIGHT_SHARE: Final = 0.045
_LEAST_FILL: Final = 0.2
_GAP_SHARE: Final = 0.02
_GHOST_SHARE: Final = 0.6


class Blobs(NamedTuple):
    """Regions of a mask.

    Attributes:
        boxes: (n, 4) xyxy.
        labels: (h, w): 1 + index of the blob that a pixel belongs to, 0 for none.
        mask: (h, w): the pixels that differ, small gaps closed.
    """

    boxes: Boxes
    labels: np.ndarray[tuple[int, int], np.dtype[np.int32]]
    mask: Mask


def blobs_in(mask: Mask) -> Blobs:
    """The regions of `mask` that are large enough for a person, gaps between limbs closed."""
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
    """Whether it is the background that shows somebody there, who has left since.

    Along the outline of a thing there are edges: in the picture that shows the thing. All three
    are cut out around the blob.
    """
    outline = cv2.morphologyEx(blob, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8))
    return _edges_along(outline, frame) < _GHOST_SHARE * _edges_along(outline, usual)


def _edges_along(outline: Mask, pixels: MatLike) -> float:
    """The mean slope of lightness on the outline."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    slope = cv2.magnitude(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
    return float(cv2.mean(slope, mask=outline)[0])
