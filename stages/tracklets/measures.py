"""What is measured of a person in a frame, for the noise filter to hold thresholds against.

Pixels are measured inside the box itself, without the margin that a crop has around it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.tracking.detector import Frame, Pixels
from schemas.video import CropMeasures
from stages.tracklets.scissors import cut, is_in_view

SHARPNESS_HEIGHT_PX = 128
"""Crops are scaled to this height before sharpness is measured, so that it does not depend on how
near a person is."""
SAME_GROUND = 0.02
"""Two people of whom neither stands nearer by this share of the box's height: nobody can tell who
is in front, so both count as covered."""

Boxes = NDArray[np.float64]
"""Boxes of shape (n, 4): left, top, right, bottom in pixels of the frame."""


class QuickMeasures(NamedTuple):
    """All that `CropMeasures` holds but what only kept crops need; fields mean the same."""

    width_px: float
    height_px: float
    cut_off: float
    border_px: float
    sharpness: float
    brightness: float
    contrast: float
    overlap: float
    other_people: int

    def with_hash(self, perceptual_hash: str) -> CropMeasures:
        """The measures as they are recorded."""
        return CropMeasures(**self._asdict(), perceptual_hash=perceptual_hash)


def measure(frame: Frame, box_xyxy: Boxes, others: Boxes) -> CropMeasures | None:
    """All measures of a person in a frame, None where it cannot be seen: the box is outside.

    Args:
        frame: the frame.
        box_xyxy: (4,) the person's box, not clipped.
        others: (n, 4) the boxes of all other people in the frame.
    """
    quick = measure_quickly(frame, box_xyxy, others)
    return quick and quick.with_hash(perceptual_hash(cut(frame.pixels, box_xyxy)))


def measure_quickly(frame: Frame, box_xyxy: Boxes, others: Boxes) -> QuickMeasures | None:
    """As `measure`, without the perceptual hash, which takes longer than all the rest."""
    inside = cut(frame.pixels, box_xyxy)
    if not is_in_view(inside):
        return None
    height, width = frame.pixels.shape[:2]
    clipped = np.clip(box_xyxy, 0, (width, height, width, height))
    grey = _grey(inside)
    return QuickMeasures(
        width_px=round(float(clipped[2] - clipped[0]), 2),
        height_px=round(float(clipped[3] - clipped[1]), 2),
        cut_off=round(max(0.0, 1 - _area(clipped) / _area(box_xyxy)), 4),
        border_px=round(_border_distance(box_xyxy, width, height), 2),
        sharpness=round(sharpness(grey), 2),
        brightness=round(float(grey.mean()), 2),
        contrast=round(float(grey.std()), 2),
        overlap=round(overlap(clipped, others), 4),
        other_people=other_people(clipped, others),
    )


def sharpness(grey: NDArray[np.uint8]) -> float:
    """The variance of the Laplacian (3×3 cross) of a grey picture, scaled to 128 px of height."""
    import cv2

    height, width = grey.shape
    size = max(1, round(width * SHARPNESS_HEIGHT_PX / height)), SHARPNESS_HEIGHT_PX
    way = cv2.INTER_AREA if height > SHARPNESS_HEIGHT_PX else cv2.INTER_LINEAR
    scaled = cv2.resize(grey, size, interpolation=way)
    return float(cv2.Laplacian(scaled, cv2.CV_64F).var())


def perceptual_hash(pixels: Pixels) -> str:
    """The pHash of a picture: 64 bits as 16 hex digits."""
    from imagehash import phash
    from PIL import Image

    return str(phash(Image.fromarray(pixels)))


def hash_distance(one: str, other: str) -> int:
    """The bits, 0 to 64, in which two perceptual hashes differ."""
    return (int(one, 16) ^ int(other, 16)).bit_count()


def overlap(box_xyxy: Boxes, others: Boxes) -> float:
    """The largest share of a box that one other person covers, 0 to 1.

    Who stands nearer to the camera covers whoever is behind, and nearer is whose box ends lower in
    the frame (people stand on one ground, and cameras look down on it). Whoever is in front is not
    covered, however much the boxes overlap. Where both end at one height, each counts as covered.
    """
    if not len(others):
        return 0.0
    in_front = others[:, 3] >= box_xyxy[3] - SAME_GROUND * (box_xyxy[3] - box_xyxy[1])
    shares = _shared_areas(box_xyxy, others) * in_front / _area(box_xyxy)
    return float(min(1.0, shares.max()))


def other_people(box_xyxy: Boxes, others: Boxes) -> int:
    """How many other people have at least half of their box in this one, in front or behind."""
    if not len(others):
        return 0
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    return int((_shared_areas(box_xyxy, others) >= 0.5 * areas).sum())


def _grey(pixels: Pixels) -> NDArray[np.uint8]:
    import cv2

    return cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.uint8, copy=False)


def _area(box_xyxy: Boxes) -> float:
    return float((box_xyxy[2] - box_xyxy[0]) * (box_xyxy[3] - box_xyxy[1]))


def _shared_areas(box_xyxy: Boxes, others: Boxes) -> NDArray[np.float64]:
    upper_left = np.maximum(box_xyxy[:2], others[:, :2])
    lower_right = np.minimum(box_xyxy[2:], others[:, 2:])
    shared: NDArray[np.float64] = np.clip(lower_right - upper_left, 0, None).prod(axis=1)
    return shared


def _border_distance(box_xyxy: Boxes, width: int, height: int) -> float:
    left, top, right, bottom = map(float, box_xyxy)
    return max(0.0, min(left, top, width - right, height - bottom))
