"""Undoes the style in which a picture is drawn, and finds the ink around its things."""

from typing import Literal, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

Style = Literal["flat drawing", "pencil sketch", "poster", "mosaic"]
Pixels = NDArray[np.float32]
Mask = NDArray[np.bool_]

WIDTH_PX = 320
_HEIGHTS_PX = (80, 640)

_TILE_PX, _DOT_PX, _STROKE_PX = 4, 6, 5
_SEAM, _DOTS, _STROKES = 3.0, 9.0, 1.4
_PAPER = np.array((250, 247, 238), np.float32)
_COVER = 0.57  # how much crayon covers the paper, on the mean
_POSTER_STRENGTH = 1.35
_INK = 52.0  # of 255: darker in all channels is ink
_EVEN = 7.0  # neighbours that differ by less are of one area
_MOSTLY_EVEN = 0.5


class Prepared(NamedTuple):
    """A picture made plain.

    `pixels` of shape (height, width, 3) in 0 … 255, 320 wide, as if it were drawn flat; `ink` of
    shape (height, width); `style` is None for what seems to be no drawing.
    """

    pixels: Pixels
    ink: Mask
    style: Style | None


def prepare(image: Image.Image) -> Prepared:
    """The plain picture of an RGB image."""
    pixels = _sized(image)
    style = _style(pixels)
    undone = _undone(pixels, style)
    ink = _largest(undone) < _INK
    if style is None and _evenness(pixels) >= _MOSTLY_EVEN:
        style = "flat drawing"
    return Prepared(undone, ink, style)


def _sized(image: Image.Image) -> Pixels:
    height = round(image.height * WIDTH_PX / image.width)
    size = (WIDTH_PX, min(_HEIGHTS_PX[1], max(_HEIGHTS_PX[0], height)))
    if image.size != size:
        image = image.resize(size, Image.Resampling.BICUBIC)
    return np.asarray(image, np.float32)


def _style(pixels: Pixels) -> Style | None:
    """A style that leaves a regular trace; None for a flat drawing and for all others."""
    light = pixels.mean(axis=2)
    if _seams(light) > _SEAM:
        return "mosaic"
    if _strokes(light) > _STROKES:
        return "pencil sketch"
    return "poster" if _dots(light) > _DOTS else None


def _seams(light: Pixels) -> float:
    """How much every fourth column and row stands out from its neighbours."""
    found = []
    for field in (light, light.T):
        change = np.abs(field[:, 1:-1] - (field[:, :-2] + field[:, 2:]) / 2)
        columns = np.median(change, axis=0)
        place = np.arange(1, 1 + columns.size) % _TILE_PX
        found.append(columns[place == _TILE_PX - 1].mean() - columns[place == 1].mean())
    return float(min(found))


def _strokes(light: Pixels) -> float:
    """How much more light changes across strokes from lower left to upper right than along."""
    along = np.abs(light[1:, :-1] - light[:-1, 1:])
    across = np.abs(light[1:, 1:] - light[:-1, :-1])
    return float(across.mean() / max(along.mean(), 1.0))


def _dots(light: Pixels) -> float:
    """How much darker the middles of squares of six pixels are than their corners."""
    height, width = (side - side % _DOT_PX for side in light.shape)
    squares = light[:height, :width].reshape(height // _DOT_PX, _DOT_PX, width // _DOT_PX, _DOT_PX)
    squares = squares.transpose(0, 2, 1, 3)
    middle, corner = squares[:, :, 2:4, 2:4].mean(axis=(2, 3)), squares[:, :, 0, 0]
    return float(np.median((corner - middle)[corner > 100])) if (corner > 100).any() else 0.0


def _evenness(pixels: Pixels) -> float:
    """The share of pixels that look like their neighbours to the right and below."""
    right = _largest(np.abs(np.diff(pixels, axis=1)))[:-1]
    below = _largest(np.abs(np.diff(pixels, axis=0)))[:, :-1]
    return float(((right < _EVEN) & (below < _EVEN)).mean())


def _largest(pixels: Pixels) -> Pixels:
    """The largest of the three channels: many times faster than `max(axis=2)`."""
    red, green, blue = np.moveaxis(pixels, 2, 0)
    return np.asarray(np.maximum(np.maximum(red, green), blue))


def _undone(pixels: Pixels, style: Style | None) -> Pixels:
    if style == "mosaic":
        return _without_seams(pixels)
    if style == "pencil sketch":
        return _without_strokes(pixels)
    if style == "poster":
        mean = pixels.mean(axis=2, keepdims=True)
        return np.asarray(mean + (pixels - mean) / _POSTER_STRENGTH, np.float32)
    return pixels


def _without_seams(pixels: Pixels) -> Pixels:
    height, width = (side // _TILE_PX for side in pixels.shape[:2])
    whole = pixels[: height * _TILE_PX, : width * _TILE_PX]
    tiles = whole.reshape(height, _TILE_PX, width, _TILE_PX, 3)[:, :3, :, :3].mean(axis=(1, 3))
    stones = np.repeat(np.repeat(tiles, _TILE_PX, axis=0), _TILE_PX, axis=1)
    undone = pixels.copy()
    undone[: stones.shape[0], : stones.shape[1]] = stones
    return undone


def _without_strokes(pixels: Pixels) -> Pixels:
    ink = _largest(pixels)[..., None] < _INK + 20
    weight = np.where(ink, 0, 1).astype(np.float32)
    box = (_STROKE_PX, _STROKE_PX)
    share = cv2.blur(weight[..., 0], box)[..., None]
    smooth = cv2.blur(pixels * weight, box) / np.maximum(share, 1e-3)
    undone = (smooth - _PAPER * (1 - _COVER)) / _COVER
    return np.asarray(np.where(ink, 16, np.clip(undone, _INK, 255)), np.float32)
