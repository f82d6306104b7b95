"""A scene made visible: the place, then each thing with a line of ink around it, then the style."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from sources.demonstration.chance import Chance
from sources.demonstration.colours import Rgb
from sources.demonstration.stills.figures import paint_figure
from sources.demonstration.stills.objects import PAINTERS
from sources.demonstration.stills.pen import FINE, Pen
from sources.demonstration.stills.places import draw_place
from sources.demonstration.stills.placing import (
    FIGURE,
    HEIGHT_PX,
    SIGN,
    WIDTH_PX,
    Placed,
    place_things,
)
from sources.demonstration.stills.scene import Scene
from sources.demonstration.stills.styles import LINE_PX, in_style
from sources.demonstration.stills.vocabulary import COLOURS, OUTLINE

_BOARD: Rgb = (252, 246, 226)
_FRAME: Rgb = (178, 124, 78)
_LETTERS: Rgb = (44, 58, 128)


class Rendering(NamedTuple):
    """The picture (RGB, 320 × 240), and where each thing is in it, in the order of drawing."""

    picture: Image.Image
    placed: list[Placed]


def render_still(scene: Scene, layout_seed: int) -> Rendering:
    """Draws a scene; another `layout_seed` puts the same things elsewhere."""
    chance = Chance("stills", layout_seed)
    canvas = draw_place(chance, scene.place, (WIDTH_PX, HEIGHT_PX))
    placed = place_things(chance, scene)
    line_px = LINE_PX[scene.style]
    for box in sorted(placed, key=lambda box: box.top + box.height):
        _ink(canvas, _drawn(chance, scene, box), box, line_px)
    return Rendering(in_style(canvas, scene.style, chance), placed)


def _drawn(chance: Chance, scene: Scene, box: Placed) -> Image.Image:
    """The thing alone, on a transparent sheet, `FINE` times finer than the picture."""
    pen = Pen(box.width, box.height)
    if box.group == SIGN:
        _paint_sign(pen, scene.sign or "")
        return pen.sheet
    if box.group == FIGURE:
        if scene.figure is not None:
            paint_figure(pen, scene.figure)
        return pen.sheet
    group = scene.groups[box.group]
    PAINTERS[group.kind](pen, COLOURS[group.colour])
    if chance.happens(0.5) and group.kind not in ("book", "clock"):
        return pen.sheet.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return pen.sheet


def _paint_sign(pen: Pen, word: str) -> None:
    for x in (0.18, 0.76):
        pen.box(x, 0.5, x + 0.06, 1, _FRAME)
    pen.box(0, 0, 1, 0.6, _FRAME, 0.05)
    pen.box(0.03, 0.05, 0.97, 0.55, _BOARD, 0.03)
    width, height = pen.sheet.size
    font = ImageFont.load_default(size=round(0.44 * height))
    draw = ImageDraw.Draw(pen.sheet)
    draw.text((width / 2, 0.3 * height), word, font=font, fill=_LETTERS, anchor="mm")


def _ink(canvas: Image.Image, sheet: Image.Image, box: Placed, line_px: float) -> None:
    """Puts a sheet onto the canvas, with a line of ink around what is on it."""
    pad = round((line_px + 2) * FINE)
    padded = Image.new("RGBA", (sheet.width + 2 * pad, sheet.height + 2 * pad))
    padded.paste(sheet, (pad, pad))
    shape = Image.fromarray(_widened(np.asarray(padded.getchannel("A")), line_px * FINE))
    inked = Image.new("RGBA", padded.size, (*OUTLINE, 0))
    inked.putalpha(shape)
    inked = Image.alpha_composite(inked, padded)
    size = (max(1, inked.width // FINE), max(1, inked.height // FINE))
    small = _reduced(inked, size)
    canvas.paste(small, (round(box.left) - pad // FINE, round(box.top) - pad // FINE), small)


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
