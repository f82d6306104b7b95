"""Overlap of boxes as FairMOT counts it: corners are pixels, and both belong to the box."""

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]
"""An array of shape (n, 4): left, top, right, bottom."""


def overlaps(first: Boxes, second: Boxes) -> NDArray[np.float64]:
    """Intersection over union of every box with every box, of shape (n, m), in [0, 1].

    A side is right - left + 1 pixels long.
    """
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    sides = np.minimum(first[:, None, 2:], second[None, :, 2:])
    sides -= low
    sides += 1
    np.maximum(sides, 0, out=sides)
    shared: NDArray[np.float64] = sides[..., 0] * sides[..., 1]
    shared /= _areas(first)[:, None] + _areas(second) - shared
    return shared


def _areas(boxes: Boxes) -> NDArray[np.float64]:
    width, height = (boxes[:, 2:] - boxes[:, :2] + 1).T
    areas: NDArray[np.float64] = width * height
    return areas
