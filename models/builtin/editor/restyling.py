"""Draws whole pictures otherwise: drawings as other drawings, photographs in five ways."""

import cv2
import numpy as np
from PIL import Image

from models.builtin.drawing.styles import LINE_PX
from models.builtin.drawing.vocabulary import OUTLINE, Style
from models.builtin.editor.canvas import Canvas, UneditableError
from models.builtin.editor.changes import Manner
from models.builtin.editor.edited import Edited
from models.builtin.editor.layers import styled_picture
from models.builtin.stills.preparing import Pixels

_BLUR_SHARE = 0.012  # of the shorter side
_SOLID = 0.97
_COARSE_PX = 1.0  # lines that are to be so much wider would break otherwise
_LEVELS = 5
_GREY = 24.0  # of 255: by how much channels may differ
_STONES = 72  # across the shorter side
_GROUT = np.array((208, 204, 196), np.float32)
_DIM = np.array((0.34, 0.38, 0.52), np.float32)


def redrawn(canvas: Canvas, manner: Manner, seed: int) -> Edited:
    """A flat drawing in another style."""
    if canvas.style is not Style.FLAT:
        raise UneditableError("not_drawable", f"a {canvas.style.value} cannot be drawn otherwise")
    if manner == "black-and-white picture":
        raise UneditableError("not_drawable", "a drawing keeps its colours")
    style = Style(manner)
    pixels = _inked(canvas, LINE_PX[style] - canvas.line_px)
    picture = Image.fromarray(np.clip(pixels.round(), 0, 255).astype(np.uint8))
    pixels = styled_picture(picture, style, seed)
    return Edited(pixels, canvas.seen._replace(style=manner))


def _inked(canvas: Canvas, wider_px: float) -> Pixels:
    """The picture with wider lines of ink around its things, as some styles need them."""
    if wider_px < _COARSE_PX:
        return canvas.pixels
    drawn = canvas.pixels.copy()
    side = 2 * round(2 * wider_px) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    for one in canvas.drawn:
        cover = canvas.cover_of(one.look)
        fine = cv2.resize(cover, None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)
        wide = cv2.resize(cv2.dilate(fine, disc), cover.shape[::-1], interpolation=cv2.INTER_AREA)
        share = np.where(cover > _SOLID, 0, wide)[..., None]
        drawn = drawn + share * (np.array(OUTLINE, np.float32) - drawn)
    return drawn


def photograph_as(pixels: Pixels, manner: Manner) -> Pixels:
    """A photograph, of shape (height, width, 3) in 0 … 255, as something else."""
    match manner:
        case "black-and-white picture":
            return np.repeat(_light(pixels)[..., None], 3, axis=2)
        case "pencil sketch":
            return _sketched(pixels)
        case "poster":
            return _as_poster(pixels)
        case "mosaic":
            return _as_mosaic(pixels)


def is_coloured(pixels: Pixels) -> bool:
    """Whether some part of a picture is more than grey."""
    return float(np.percentile(np.ptp(pixels, axis=2), 95)) > _GREY


def darkened(pixels: Pixels) -> Pixels:
    """A picture in dim, bluish light."""
    return np.asarray(255 * (pixels / 255) ** 1.15 * _DIM, np.float32)


def _light(pixels: Pixels) -> Pixels:
    return np.asarray(pixels @ np.array((0.299, 0.587, 0.114), np.float32), np.float32)


def _sketched(pixels: Pixels) -> Pixels:
    """Grey strokes where light changes, on white paper (a colour dodge with its own blur)."""
    light = _light(pixels)
    sigma = max(2.0, _BLUR_SHARE * min(light.shape))
    blurred = cv2.GaussianBlur(light, (0, 0), sigma)
    drawn = np.clip(light * 250 / np.maximum(blurred, 12), 0, 250)
    return np.repeat(drawn[..., None], 3, axis=2).astype(np.float32)


def _as_poster(pixels: Pixels) -> Pixels:
    """Few, strong colours in even areas."""
    smooth = cv2.bilateralFilter(np.clip(pixels, 0, 255).astype(np.uint8), 9, 60, 9)
    step = 255 / (_LEVELS - 1)
    field = smooth.astype(np.float32)
    mean = field.mean(axis=2, keepdims=True)
    return np.asarray(np.round(np.clip(mean + 1.4 * (field - mean), 0, 255) / step) * step)


def _as_mosaic(pixels: Pixels) -> Pixels:
    """Square stones with grout between them."""
    height, width = pixels.shape[:2]
    side = max(4, round(min(height, width) / _STONES))
    size = (max(1, -(-width // side)), max(1, -(-height // side)))
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    stones = np.repeat(np.repeat(small, side, axis=0), side, axis=1)[:height, :width]
    seam = np.zeros((height, width, 1), bool)
    seam[side - 1 :: side], seam[:, side - 1 :: side] = True, True
    return np.asarray(np.where(seam, 0.5 * stones + 0.5 * _GROUT, stones), np.float32)
