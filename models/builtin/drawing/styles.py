"""Four ways in which the same scene is drawn."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.drawing.pen import Draws
from models.builtin.drawing.vocabulary import Style

Field = NDArray[np.float32]

LINE_PX: dict[Style, float] = {
    Style.FLAT: 2.4,
    Style.SKETCH: 2.2,
    Style.POSTER: 3.2,
    Style.MOSAIC: 4.0,
}
"""How wide the ink around things is."""

_PAPER = np.array((250, 247, 238), np.float32)
_TILE_PX = 4
_GROUT = np.array((214, 208, 196), np.float32)
_DOT_PX = 6
_STEP = 36.0
_GRAY = 14
_INK = 56.0
_INK_SHARE = 0.3  # of a stone: with more, all of it is dark


def in_style(picture: Image.Image, style: Style, chance: Draws) -> Image.Image:
    """The picture (RGB) in a style; ink stays ink in all of them."""
    pixels: Field = np.asarray(picture, np.float32)
    if style is Style.SKETCH:
        pixels = _sketch(pixels, chance)
    elif style is Style.POSTER:
        pixels = _poster(pixels)
    elif style is Style.MOSAIC:
        pixels = _mosaic(pixels, chance)
    return Image.fromarray(np.clip(pixels.round(), 0, 255).astype(np.uint8))


def _sketch(pixels: Field, chance: Draws) -> Field:
    """Pale crayon on paper: slanting strokes between which the paper shows."""
    height, width = pixels.shape[:2]
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    slant = rows + columns + 2.0 * np.sin(columns / 23) + chance.between(0, 6)
    stroke = 0.5 + 0.5 * np.cos(slant * (2 * np.pi / 5))
    grain = 0.08 * chance.noise((height, width))
    cover = np.clip(0.42 + 0.3 * stroke + grain, 0, 1)[..., None]
    drawn = pixels * cover + _PAPER * (1 - cover)
    ink = pixels.max(axis=2, keepdims=True) < _INK
    pencil = 34 + 14 * grain[..., None] + np.zeros(3, np.float32)
    return np.asarray(np.where(ink, pencil, drawn), np.float32)


def _poster(pixels: Field) -> Field:
    """Few, strong colours, and printer's dots in the light ones."""
    mean = pixels.mean(axis=2, keepdims=True)
    strong = mean + 1.35 * (pixels - mean)
    few = np.round(np.clip(strong, 0, 255) / _STEP) * _STEP
    gray = np.round(mean / _STEP) * _STEP
    few = np.where(np.ptp(pixels, axis=2, keepdims=True) < _GRAY, gray, few)
    height, width = pixels.shape[:2]
    rows, columns = np.mgrid[:height, :width]
    middle = (_DOT_PX - 1) / 2
    away = (rows % _DOT_PX - middle) ** 2 + (columns % _DOT_PX - middle) ** 2
    dots = (away < 3.2)[..., None]
    printed = np.where(dots & (mean > 120), few * 0.9, few)
    return np.asarray(np.where(pixels.max(axis=2, keepdims=True) < _INK, 16, printed), np.float32)


def _mosaic(pixels: Field, chance: Draws) -> Field:
    """Square stones, each of one colour, with grout between them."""
    height, width = pixels.shape[0] // _TILE_PX, pixels.shape[1] // _TILE_PX
    squares = pixels.reshape(height, _TILE_PX, width, _TILE_PX, 3)
    tiles = squares[:, 1:3, :, 1:3].mean(axis=(1, 3))
    ink = (squares.max(axis=4) < _INK).mean(axis=(1, 3))[..., None] > _INK_SHARE
    varied = tiles * (1 + 0.035 * chance.noise((height, width, 1)))
    tiles = np.where(ink, 20, np.maximum(varied, _INK + 6))
    stones = np.repeat(np.repeat(tiles, _TILE_PX, axis=0), _TILE_PX, axis=1)
    seam = np.zeros(stones.shape[:2], bool)
    seam[_TILE_PX - 1 :: _TILE_PX] = True
    seam[:, _TILE_PX - 1 :: _TILE_PX] = True
    return np.asarray(np.where(seam[..., None], 0.55 * stones + 0.45 * _GROUT, stones), np.float32)
