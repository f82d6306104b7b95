"""Appearance of a person as a vector: lightness and tint of six stripes from head to shoes.

Each stripe has a histogram of lightness and one of tint (CIELAB a*, b*). They are soft-binned, so
that noise or jitter changes them little, and in square roots (the dot product of two is then their
Bhattacharyya coefficient). The pixels near the vertical centre line count more than those at the
sides, where the street is visible. Changes of light of the whole frame are compensated before.

Most people wear dark and grey, so that all these vectors point in about the same direction. `MEAN`
is subtracted, which leaves the differences. The cosine of two different people is then around 0 to
0.5, that of one person in two frames above 0.9.

Pixels and weights are whole numbers, whose sums are the same in any order and thus on any
processor.
"""

from pathlib import Path
from typing import Final

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray

from loupe.models.tracking.detector import Pixels

Boxes = NDArray[np.float32]
"""An array of shape (n, 4): left, top, right, bottom."""

_STRIPES: Final = 6
_LIGHT_BINS: Final = 8
_TINT_BINS: Final = 5
_STRIPE_PX: Final = 10
_WIDTH_PX: Final = 24
_MEAN_LUMA: Final = 118.0
_TINT_SCALE: Final = 18.0
_TINT_SHARE: Final = 0.6
_WHOLE: Final = 255
"""The weight of a pixel in the middle, and of a value in the middle of a bin."""
DIMENSIONS: Final = _STRIPES * (_LIGHT_BINS + _TINT_BINS**2)

Weights = NDArray[np.float64]
"""Whole numbers, as floating point because NumPy multiplies those faster."""

_ACROSS = np.linspace(-1, 1, _WIDTH_PX)
_COLUMNS: Final[Weights] = np.round(_WHOLE * np.exp(-((_ACROSS / 0.55) ** 2)))
"""The weights of pixels, (columns,); smallest at the sides."""

_DOWN = 2 * np.arange(_STRIPES * _STRIPE_PX) + 1  # middles of rows, in half pixels
_MIDDLES = _STRIPE_PX * (2 * np.arange(_STRIPES) + 1)
_AWAY = np.abs(_DOWN[None] - _MIDDLES[:, None])
_ROWS: Final[Weights] = np.clip(25 - _AWAY, 0, 20).astype(np.float64)
"""How much a row belongs to a stripe, (stripes, rows); neighbouring rows do slightly."""


def _soft(values: NDArray[np.float64], bins: int) -> Weights:
    """Divide each value in [0, bins - 1] between the two bins next to it, (values, bins)."""
    distance = np.abs(values[:, None] - np.arange(bins))
    weights: Weights = np.round(_WHOLE * np.clip(1 - distance, 0, 1))
    return weights


_LEVELS = np.arange(256)
_LIGHTS: Final = _soft(_LEVELS / 255 * (_LIGHT_BINS - 1), _LIGHT_BINS)
"""The bins of lightness by L* of 8 bits."""

_TINTS: Final = _soft(
    (np.tanh((_LEVELS - 128) / _TINT_SCALE) + 1) * (_TINT_BINS - 1) / 2, _TINT_BINS
)
"""The bins of tint by a* or b* of 8 bits, finer near grey."""

MEAN: Final[NDArray[np.float32]] = np.load(Path(__file__).with_name("appearance_mean.npy"))
"""(d,): the mean of `signatures` over people of the demonstration street, each counted once."""


def embeddings_of(frame: Pixels, boxes: Boxes) -> NDArray[np.float32]:
    """Return (n, d) vectors of unit length: one for each of `boxes`, (n, 4) xyxy, in `frame`."""
    centred = signatures(frame, boxes) - MEAN
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit: NDArray[np.float32] = (centred / np.maximum(lengths, 1e-6)).astype(np.float32)
    return unit


def signatures(frame: Pixels, boxes: Boxes) -> NDArray[np.float64]:
    """Return (n, d) vectors of unit length: histograms in square roots, before the subtraction."""
    if not len(boxes):
        return np.zeros((0, DIMENSIONS))
    gain = _MEAN_LUMA / max(1.0, float(frame[::8, ::8].mean()))
    crops = np.stack([_crop(frame, box) for box in boxes])
    lit = np.clip(np.round(crops * gain), 0, 255).astype(np.uint8)
    lab = cv2.cvtColor(lit.reshape(-1, _WIDTH_PX, 3), cv2.COLOR_RGB2LAB).reshape(lit.shape)
    tints = _TINTS[lab[..., 1], :, None] * _TINTS[lab[..., 2], None, :]
    tint_shares = _histograms(tints.reshape(*lab.shape[:3], _TINT_BINS**2)) * _TINT_SHARE
    light_shares = _histograms(_LIGHTS[lab[..., 0]]) * (1 - _TINT_SHARE)
    joined = np.concatenate([light_shares, tint_shares], axis=2)
    return np.sqrt(joined / _STRIPES).reshape(len(boxes), DIMENSIONS)


def _crop(frame: Pixels, box: Boxes) -> MatLike:
    """Return the contents of `box` in a fixed size; at least one pixel of the frame."""
    height, width = frame.shape[:2]
    farthest = np.array([width, height, width, height])
    left, top, right, bottom = np.clip(np.round(box), 0, farthest).astype(int)
    left = min(left, width - 1)
    top = min(top, height - 1)
    right = max(right, left + 1)
    bottom = max(bottom, top + 1)
    inside = frame[top:bottom, left:right]
    size = (_WIDTH_PX, _STRIPES * _STRIPE_PX)
    return cv2.resize(inside, size, interpolation=cv2.INTER_AREA)


def _histograms(weights: Weights) -> NDArray[np.float64]:
    """Return histograms of each stripe, (n, stripes, bins), of (n, rows, columns, bins); sum 1."""
    stripes = _ROWS @ (_COLUMNS @ weights)
    shares: NDArray[np.float64] = stripes / np.maximum(stripes.sum(axis=2, keepdims=True), 1)
    return shares
