"""Puts what is drawn onto a picture, with a line of ink around it."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from models.builtin.drawing.pen import FINE
from models.builtin.drawing.vocabulary import OUTLINE


def put_inked(
    canvas: Image.Image, sheet: Image.Image, corner: tuple[float, float], line_px: float
) -> None:
    """Puts a sheet onto the canvas, its upper left at `corner`, with ink around what is on it."""
    small = inked(sheet, line_px)
    left, top = corner
    pad = pad_px(line_px)
    canvas.paste(small, (round(left) - pad, round(top) - pad), small)


def pad_px(line_px: float) -> int:
    """By how many pixels of the picture ink may reach beyond a sheet, on each side."""
    return round((line_px + 2) * FINE) // FINE


def inked(sheet: Image.Image, line_px: float) -> Image.Image:
    """What is on the sheet with its ink (RGBA), at the size of the picture, padded."""
    pad = round((line_px + 2) * FINE)
    padded = Image.new("RGBA", (sheet.width + 2 * pad, sheet.height + 2 * pad))
    padded.paste(sheet, (pad, pad))
    shape = Image.fromarray(_widened(np.asarray(padded.getchannel("A")), line_px * FINE))
    drawn = Image.new("RGBA", padded.size, (*OUTLINE, 0))
    drawn.putalpha(shape)
    drawn = Image.alpha_composite(drawn, padded)
    size = (max(1, drawn.width // FINE), max(1, drawn.height // FINE))
    return _reduced(drawn, size)


def _widened(alpha: NDArray[np.uint8], by_px: float) -> NDArray[np.uint8]:
    """What is covered, of shape (height, width), and everything as near to it as `by_px`."""
    import cv2

    side = 2 * round(by_px) + 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side))
    return np.asarray(cv2.dilate(alpha, disc), np.uint8)


def _reduced(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The sheet at the picture's size; colours weighted by how much they cover."""
    pixels = np.asarray(picture, np.float32)
    pixels[..., :3] *= pixels[..., 3:] / 255
    small = np.stack(
        [
            np.asarray(
                Image.fromarray(pixels[..., band]).resize(size, Image.Resampling.BOX), np.float32
            )
            for band in range(4)
        ],
        axis=-1,
    )
    small[..., :3] *= 255 / np.maximum(small[..., 3:], 1)
    return Image.fromarray(np.clip(small.round(), 0, 255).astype(np.uint8))
