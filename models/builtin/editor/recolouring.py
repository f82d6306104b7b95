"""Gives a thing, or something that is worn, another colour: its shades change, its ink stays.

A drawing has few colours. Which ones is known from how the thing is drawn; each pixel is taken for
one of them, or for a mixture of two that meet there, and gets what these become.
"""

from itertools import combinations
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from models.builtin.drawing.pen import FINE
from models.builtin.drawing.vocabulary import OUTLINE
from models.builtin.editor.looks import Look
from models.builtin.stills.preparing import Pixels

Colours = NDArray[np.float32]

_REACH_PX = 2  # a drawing may be known a pixel or two beside where it is
_LEAST_FINE_PX = 6
_PURE = 14.0  # of 255: so near to a colour, a pixel is no mixture
_MIXING_COSTS = 4.0
_FARTHEST = 42.0  # of 255: what is farther from all of them is none of them


class _Palette(NamedTuple):
    """Colours before and after, of shape (k, 3), and where each may be, (k, height, width)."""

    before: Colours
    after: Colours
    where: NDArray[np.bool_]


def recoloured(pixels: Pixels, look: Look, changed: Look, line_px: float) -> Pixels:
    """`pixels` with the thing drawn as `look` having the colours of `changed`."""
    pad = round(line_px) + 2 + _REACH_PX
    left, top = round(look.left) - pad, round(look.top) - pad
    palette = _palette(look, changed, pad, line_px)
    height, width = palette.where.shape[1:]
    y0, x0 = max(0, top), max(0, left)
    y1, x1 = min(pixels.shape[0], top + height), min(pixels.shape[1], left + width)
    inside = np.s_[:, y0 - top : y1 - top, x0 - left : x1 - left]
    result = pixels.copy()
    result[y0:y1, x0:x1] += _deltas(
        pixels[y0:y1, x0:x1], palette._replace(where=palette.where[inside])
    )
    return result


def _palette(look: Look, changed: Look, pad: int, line_px: float) -> _Palette:
    old, new = (np.asarray(one.sheet(), np.int64) for one in (look, changed))
    drawn = old[..., 3] > 0
    keys = (old[..., :3] * (65536, 256, 1)).sum(axis=2) * 2**24
    keys += (new[..., :3] * (65536, 256, 1)).sum(axis=2)
    values, counts = np.unique(keys[drawn], return_counts=True)
    values = values[counts >= _LEAST_FINE_PX]
    before, after = (np.stack([_rgb(value) for value in part]) for part in divmod(values, 2**24))
    fields = [_coarse((keys == value) & drawn, pad) for value in values]
    ink = _coarse(_outline(drawn, line_px), pad)
    outline = np.array([OUTLINE], np.float32)
    return _Palette(
        np.concatenate([before, outline]),
        np.concatenate([after, outline]),
        np.stack([*fields, ink]),
    )


def _rgb(value: int) -> Colours:
    return np.array([value >> 16, value >> 8 & 255, value & 255], np.float32)


def _outline(drawn: NDArray[np.bool_], line_px: float) -> NDArray[np.bool_]:
    """Where the ink is, next to what is drawn."""
    side = 2 * round(line_px * FINE) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    return np.asarray((cv2.dilate(drawn.astype(np.uint8), disc) > 0) & ~drawn)


def _coarse(field: NDArray[np.bool_], pad: int) -> NDArray[np.bool_]:
    """A field of a sheet in pixels of the picture, `pad` around it, and widened a little."""
    height, width = (-(-side // FINE) for side in field.shape)
    whole = np.zeros((height * FINE, width * FINE), bool)
    whole[: field.shape[0], : field.shape[1]] = field
    touched = whole.reshape(height, FINE, width, FINE).any(axis=(1, 3))
    padded = np.pad(touched, pad).astype(np.uint8)
    side = 2 * _REACH_PX + 1
    return cv2.dilate(padded, np.ones((side, side), np.uint8)) > 0


def _deltas(pixels: Pixels, palette: _Palette) -> Pixels:
    """By how much each pixel changes."""
    steps = palette.after - palette.before
    cost = np.full(pixels.shape[:2], _FARTHEST, np.float32)
    delta = np.zeros_like(pixels)
    for colour, step, where in zip(palette.before, steps, palette.where, strict=True):
        off = np.where(where, np.linalg.norm(pixels - colour, axis=2), np.inf)
        nearer = off < cost
        cost[nearer] = off[nearer]
        delta[nearer] = step
    pure = cost < _PURE
    for one, two in combinations(range(len(steps)), 2):
        both = palette.where[one] & palette.where[two] & ~pure
        if not both.any():
            continue
        first, second = palette.before[one], palette.before[two]
        way = second - first
        share = ((pixels - first) @ way / max(float(way @ way), 1.0)).clip(0, 1)[..., None]
        off = np.linalg.norm(pixels - first - share * way, axis=2) + _MIXING_COSTS
        nearer = both & (off < cost)
        cost[nearer] = off[nearer]
        mixed = (1 - share) * steps[one] + share * steps[two]
        delta[nearer] = mixed[nearer]
    return delta
