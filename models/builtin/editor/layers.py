"""Puts drawings onto a canvas in the style of its picture, and takes things off."""

from collections.abc import Callable, Sequence

import cv2
import numpy as np
from PIL import Image

from models.builtin.drawing.draws import Draws
from models.builtin.drawing.styles import in_style
from models.builtin.drawing.vocabulary import Style
from models.builtin.editor.canvas import Canvas, Drawn, UneditableError, cover_on, snapped
from models.builtin.editor.filling import filled
from models.builtin.editor.looks import Look
from models.builtin.stills.preparing import Pixels

_COVERED, _MOSTLY = 0.02, 0.6
_DARK = 130.0  # of 255: on a ground that is so near to ink its edge cannot be measured
_INK_RGB = np.array((18, 16, 22), np.float32)


def without(canvas: Canvas, things: Sequence[Drawn]) -> tuple[Pixels, Pixels]:
    """The pixels without some things, and the same of the plain picture."""
    hole = np.zeros(canvas.pixels.shape[:2], bool)
    for one in things:
        hole |= canvas.region(one)
    for other in canvas.drawn:
        if other not in things:
            hole &= ~canvas.region(other)
    if canvas.style is Style.FLAT:
        found = filled(canvas.pixels, hole, canvas.taken, canvas.style)
        return found, found
    both = np.concatenate([canvas.pixels, canvas.plain], axis=2)
    found = filled(both, hole, canvas.taken, canvas.style)
    return found[..., :3], found[..., 3:]


def with_looks(
    canvas: Canvas, pixels: Pixels, plain: Pixels, looks: Sequence[Look], seed: int
) -> Pixels:
    """`pixels` with drawings on them, in the canvas's style; `plain` is what lies behind them."""
    if not looks:
        return pixels
    layer = _image(plain)
    for look in looks:
        look.put_onto(layer, canvas.line_px)
    if canvas.style is Style.FLAT:
        drawn = _image(pixels)
        for look in looks:
            look.put_onto(drawn, canvas.line_px)
        return np.asarray(drawn, np.float32)
    styled = styled_picture(layer, canvas.style, seed)
    mask = np.zeros(pixels.shape[:2], bool)
    for look in looks:
        mask |= cover_on(pixels.shape[:2], look, canvas.line_px) > _COVERED
    if canvas.style is Style.MOSAIC:
        mask = snapped(mask)
    return np.where(mask[..., None], styled, pixels)


def styled_picture(picture: Image.Image, style: Style, seed: int) -> Pixels:
    """A flat picture in a style."""
    if style is Style.MOSAIC and (picture.width % 4 or picture.height % 4):
        raise UneditableError(
            "wrong_size", "a mosaic must be whole stones of four pixels wide and high"
        )
    return np.asarray(in_style(picture, style, Draws("edit", seed)), np.float32)


def on_ground(canvas: Canvas, ground_of: Callable[[Pixels], Pixels]) -> Pixels:
    """The picture on another ground: `ground_of` gives it from the ground as it is.

    What shows through things is ground, too; where ink fades out, it fades into the new ground.
    """
    old = _ground(canvas)
    new = ground_of(old)
    if canvas.style is Style.MOSAIC:
        kept = np.zeros(old.shape[:2], bool)
        for one in canvas.drawn:
            kept |= canvas.cover_of(one.look) > _COVERED
        return np.where(snapped(kept)[..., None], canvas.pixels, new)
    cover = np.zeros(old.shape[:2], np.float32)
    for one in canvas.drawn:
        cover = np.maximum(cover, _cover(canvas, one, old))
    share = cover[..., None]
    faded = share * _INK_RGB + (1 - share) * new
    return np.where(share >= 1, canvas.pixels, faded)


def _ground(canvas: Canvas) -> Pixels:
    """What lies behind everything, roughly: true where things show it, guessed behind them."""
    hole = np.zeros(canvas.pixels.shape[:2], np.uint8)
    for one in canvas.drawn:
        hole |= (canvas.cover_of(one.look) > _COVERED).astype(np.uint8)
    wide = cv2.dilate(hole, np.ones((3, 3), np.uint8))
    small = np.clip(canvas.pixels.round(), 0, 255).astype(np.uint8)
    return np.asarray(cv2.inpaint(small, wide, 2, cv2.INPAINT_TELEA), np.float32)


def _cover(canvas: Canvas, drawn: Drawn, old: Pixels) -> Pixels:
    """How much of each pixel a thing covers, measured where its edge is."""
    known = canvas.cover_of(drawn.look)
    solid = (known > 0.97).astype(np.uint8)
    outline = np.zeros_like(solid)
    cut = drawn.cut
    outline[cut.top : cut.top + cut.height, cut.left : cut.left + cut.width] = cut.shape
    inside = (cv2.erode(outline, np.ones((3, 3), np.uint8)) > 0) & (known > _MOSTLY)
    core = inside | (cv2.erode(solid, np.ones((3, 3), np.uint8)) > 0)
    reach = cv2.dilate((known > _COVERED).astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    towards = _INK_RGB - old
    share = ((canvas.pixels - old) * towards).sum(axis=2) / (towards**2).sum(axis=2)
    measured = np.where(share > 0.9, 1.0, np.where(share < 0.1, 0.0, share))
    faded = np.where((towards**2).sum(axis=2) < _DARK**2, known, measured)
    return np.where(core, 1.0, np.where(reach, faded, 0.0)).astype(np.float32)


def _image(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.clip(pixels.round(), 0, 255).astype(np.uint8))
