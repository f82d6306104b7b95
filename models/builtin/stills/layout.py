"""A coarse signature of any picture, so that pictures of which nothing is known can be compared."""

import cv2
import numpy as np
from PIL import Image

from models.builtin.describer.colour_names import lab_of
from models.builtin.stills.space import Vector

_GRID = 4
_SIDE_PX = 64
_EDGE_SCALE, _LIGHT_SCALE, _TINT_SCALE = 12.0, 22.0, 14.0
_MEAN_LIGHT = 62.0
_DIRECTIONS = 4
LAYOUT_DIMENSION = _GRID * _GRID * (3 + _DIRECTIONS)


def layout_of(image: Image.Image) -> Vector:
    """Of shape (LAYOUT_DIMENSION,): light, tint and the direction of edges in a grid of cells.

    All parts are around 0 for an ordinary picture, so that the cosine of two that have nothing to
    do with each other is around 0.
    """
    small = np.asarray(image.resize((_SIDE_PX, _SIDE_PX), Image.Resampling.BOX), np.uint8)
    lab = lab_of(small)
    colours = (_cells(lab) - (_MEAN_LIGHT, 0, 0)) / (_LIGHT_SCALE, _TINT_SCALE, _TINT_SCALE)
    light = lab[..., 0]
    right, down = cv2.Sobel(light, cv2.CV_32F, 1, 0), cv2.Sobel(light, cv2.CV_32F, 0, 1)
    direction = (np.arctan2(down, right) % np.pi / np.pi * _DIRECTIONS).astype(int) % _DIRECTIONS
    strength = np.hypot(right, down)
    edges = np.stack([strength * (direction == one) for one in range(_DIRECTIONS)], axis=-1)
    cells = np.log1p(_cells(edges) / _EDGE_SCALE) - 1
    return np.concatenate([colours.ravel(), 0.6 * cells.ravel()]).astype(np.float64)


def _cells(field: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> Vector:
    """The means of `field`, of shape (side, side, n), in a grid."""
    side = field.shape[0] // _GRID
    return np.asarray(
        field.reshape(_GRID, side, _GRID, side, field.shape[2]).mean(axis=(1, 3)), np.float64
    )
