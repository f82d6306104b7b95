"""Arithmetic of boxes: (n, 4) arrays of left, top, right, bottom."""

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float32]


def areas(boxes: Boxes) -> NDArray[np.float32]:
    """(n,): how large each box is; 0 where it is turned inside out."""
    sides: Boxes = np.clip(boxes[:, 2:] - boxes[:, :2], 0, None)
    return sides[:, 0] * sides[:, 1]


def shared_areas(boxes: Boxes, others: Boxes) -> NDArray[np.float32]:
    """(n, m): how much each of `boxes` shares with each of `others`."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    sides: Boxes = np.clip(high - low, 0, None)
    return sides[..., 0] * sides[..., 1]


def overlaps(boxes: Boxes, others: Boxes) -> NDArray[np.float32]:
    """(n, m): intersection over union."""
    shared = shared_areas(boxes, others)
    union = areas(boxes)[:, None] + areas(others)[None, :] - shared
    share: NDArray[np.float32] = shared / np.maximum(union, np.float32(1e-6))
    return share


def best_apart(
    boxes: Boxes, scores: NDArray[np.float32], most_overlap: float, most_inside: float
) -> NDArray[np.intp]:
    """Indices of the boxes that stay when the better of two alike is kept, best first.

    Two are alike where their intersection over union, or the share of the smaller that lies in the
    other, is above the limits. Among equal scores the first stays.
    """
    order = np.argsort(-scores, kind="stable")
    smaller = np.minimum(areas(boxes)[:, None], areas(boxes)[None, :])
    inside = shared_areas(boxes, boxes) / np.maximum(smaller, np.float32(1e-6))
    alike = (overlaps(boxes, boxes) > most_overlap) | (inside > most_inside)
    kept: list[int] = []
    for index in order:
        if not alike[index, kept].any():
            kept.append(int(index))
    return np.array(kept, np.intp)
