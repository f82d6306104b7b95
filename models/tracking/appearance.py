"""Appearance of a person as a vector: lightness and tint of six stripes from head to shoes.

Each stripe has a histogram of lightness and one of tint (CIELAB a*, b*). They are soft-binned, so
that noise or jitter changes them little, and in square roots (the dot product of two is then their
Bhattacharyya coefficient). The pixels near the vertical centre line count more than those at the
sides, where the street is visible. Changes of light of the whole frame are compensated before.

Most people wear dark and grey, so that all these vectors point in about the same direction. `MEAN`
is subtracted, which leaves the differences. The cosine of two different people is then around 0 to
0.5, that of one person in two frames above 0.9.
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
DIMENSIONS: Final = _STRIPES * (_LIGHT_BINS + _TINT_BINS**2)


_ACROSS = np.linspace(-1, 1, _WIDTH_PX, dtype=np.float32)
_COLUMNS: Final[NDArray[np.float32]] = np.exp(-((_ACROSS / np.float32(0.55)) ** 2))
"""The weights of pixels, (columns,); smallest at the sides."""

_DOWN = (np.arange(_STRIPES * _STRIPE_PX, dtype=np.float32) + 0.5) / _STRIPE_PX - 0.5
_AWAY = np.abs(_DOWN[None] - np.arange(_STRIPES, dtype=np.float32)[:, None])
_ROWS: Final = np.clip(1.25 - _AWAY, 0, 1).astype(np.float32)
"""How much a row belongs to a stripe, (stripes, rows); neighbouring rows do slightly."""

MEAN: Final[NDArray[np.float32]] = np.load(Path(__file__).with_name("appearance_mean.npy"))
"""(d,): the mean of `signatures` over people of the demonstration street, each counted once."""


def embeddings_of(frame: Pixels, boxes: Boxes) -> NDArray[np.float32]:
    """Return (n, d) vectors of unit length: one for each of `boxes`, (n, 4) xyxy, in `frame`."""
    centred = signatures(frame, boxes) - MEAN
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit: NDArray[np.float32] = (centred / np.maximum(lengths, np.float32(1e-6))).astype(np.float32)
    return unit


def signatures(frame: Pixels, boxes: Boxes) -> NDArray[np.float32]:
    """Return (n, d) vectors of unit length: histograms in square roots, before the subtraction."""
    if not len(boxes):
        return np.zeros((0, DIMENSIONS), np.float32)
    gain = _MEAN_LUMA / max(1.0, float(frame[::8, ::8].mean()))
    crops = np.stack([_crop(frame, box) for box in boxes]).astype(np.float32)
    lit = np.clip(crops * np.float32(gain / 255), 0, 1)
    light, tint = _light_and_tint(lit)
    light_shares = _soft(light * (_LIGHT_BINS - 1), _LIGHT_BINS)
    across = _soft(tint[..., 0], _TINT_BINS)
    along = _soft(tint[..., 1], _TINT_BINS)
    tint_shares = across[..., :, None] * along[..., None, :]
    tint_shares = tint_shares.reshape(*light.shape, _TINT_BINS**2)
    lights = _histograms(light_shares) * (1 - _TINT_SHARE)
    tints = _histograms(tint_shares) * _TINT_SHARE
    joined = np.concatenate([lights, tints], axis=2)
    roots: NDArray[np.float32] = np.sqrt(joined / _STRIPES)
    return roots.reshape(len(boxes), DIMENSIONS).astype(np.float32)


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


def _light_and_tint(crops: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return lightness in [0, 1], and tint as (…, 2) in [0, bins - 1], finer near grey."""
    flat = crops.reshape(-1, crops.shape[2], 3)
    lab = cv2.cvtColor(flat, cv2.COLOR_RGB2LAB).reshape(crops.shape)
    half = (_TINT_BINS - 1) / 2
    light: NDArray[np.float32] = (lab[..., 0] / 100).astype(np.float32)
    tint: NDArray[np.float32] = (np.tanh(lab[..., 1:] / _TINT_SCALE) + 1).astype(np.float32)
    return light, tint * np.float32(half)


def _soft(values: NDArray[np.float32], bins: int) -> NDArray[np.float32]:
    """Divide each value in [0, bins - 1] between the two bins next to it, (…, bins)."""
    distance = np.abs(values[..., None] - np.arange(bins, dtype=np.float32))
    shares: NDArray[np.float32] = np.clip(1 - distance, 0, 1).astype(np.float32)
    return shares


def _histograms(shares: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return histograms of each stripe, (n, stripes, bins), of (n, rows, columns, bins); sum 1."""
    stripes = _ROWS @ (_COLUMNS @ shares)
    total: NDArray[np.float32] = stripes / np.maximum(stripes.sum(axis=2, keepdims=True), 1e-6)
    return total
