"""Puts drawings onto a canvas in its style, takes them off, and fills the background."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from models.builtin.drawing.pen import Draws
from models.builtin.drawing.styles import in_style
from models.builtin.drawing.vocabulary import Style
from models.builtin.editor.canvas import Canvas, Drawn, Look, UneditableError, cover_on, snapped
from models.builtin.stills.seeing import Mask, Pixels

# Draws the background on where something was: with what is beside it, row by row.

_PERIODS = {Style.FLAT: 1, Style.SKETCH: 5, Style.POSTER: 6, Style.MOSAIC: 4}
_RIM_PX = 4
_LEAST_SHIFT_PX, _STEP_PX = 8, 3
_ROUNDS = 8
_UNFILLED_COSTS = 40.0
_LEAST_RIM_PX = 12


def filled(pixels: Pixels, hole: Mask, taken: Mask, style: Style) -> Pixels:
    """`pixels`, of shape (height, width, n), without what is in `hole`.

    Places are alike from left to right: each part of the hole is filled with what lies so far to
    its left or right that it goes on best at the rim, by the first three of the n channels.
    Nothing is copied from where `taken` is. What is left in the end is painted over.
    """
    result = pixels.copy()
    count, marks = cv2.connectedComponents(hole.astype(np.uint8))
    for mark in range(1, count):
        _fill_one(result, marks == mark, taken | hole, _PERIODS[style])
    return result


class _Window(NamedTuple):
    """The part of a picture around a hole, and what is to be filled in it."""

    top: int
    bottom: int
    left: int
    right: int

    def moved(self, shift: int) -> tuple[slice, slice]:
        """The part of the picture that lies `shift` to the right."""
        return slice(self.top, self.bottom), slice(self.left + shift, self.right + shift)


def _fill_one(result: Pixels, hole: Mask, taken: Mask, period: int) -> None:
    window = _window(hole)
    step = _STEP_PX if period == 1 else period
    lowest, highest = -window.left, hole.shape[1] - window.right
    start = -(-_LEAST_SHIFT_PX // step) * step
    shifts = [shift for far in range(start, hole.shape[1], step) for shift in (-far, far)]
    shifts = [shift for shift in shifts if lowest <= shift <= highest]
    todo, blocked = hole[window.moved(0)].copy(), taken.copy()
    for _ in range(_ROUNDS):
        best = _best_shift(result, todo, blocked, window, shifts) if todo.any() else None
        if best is None:
            break
        here = todo & ~blocked[window.moved(best)]
        result[window.moved(0)][here] = result[window.moved(best)][here]
        todo &= ~here
        blocked[window.moved(0)][here] = False
    if todo.any():
        _paint_over(result, todo, window)


def _window(hole: Mask) -> _Window:
    ys, xs = np.nonzero(hole)
    height, width = hole.shape
    return _Window(
        max(0, int(ys.min()) - _RIM_PX),
        min(height, int(ys.max()) + _RIM_PX + 1),
        max(0, int(xs.min()) - _RIM_PX),
        min(width, int(xs.max()) + _RIM_PX + 1),
    )


def _best_shift(
    result: Pixels, todo: Mask, blocked: Mask, window: _Window, shifts: list[int]
) -> int | None:
    """The shift that goes on best at the rim of what is to be filled, and fills most of it."""
    side = 2 * _RIM_PX + 1
    near = cv2.dilate(todo.astype(np.uint8), np.ones((side, side), np.uint8)) > 0
    rim = near & ~blocked[window.moved(0)]
    there = result[window.moved(0)][..., :3]
    total = float(todo.sum())
    best, least = None, np.inf
    for shift in shifts:
        free = ~blocked[window.moved(shift)]
        fills = float((free & todo).sum())
        known = rim & free
        if not fills or known.sum() < _LEAST_RIM_PX:
            continue
        open_costs = _UNFILLED_COSTS * (1 - fills / total)
        if open_costs >= least:
            continue
        beside = result[window.moved(shift)][..., :3]
        cost = float(np.abs(beside[known] - there[known]).mean()) + open_costs
        if cost < least:
            best, least = shift, cost
    return best


def _paint_over(result: Pixels, todo: Mask, window: _Window) -> None:
    for start in range(0, result.shape[2], 3):
        part = result[window.moved(0)][..., start : start + 3]
        small = np.ascontiguousarray(np.clip(part, 0, 255).astype(np.uint8))
        painted = cv2.inpaint(small, todo.astype(np.uint8), 3, cv2.INPAINT_TELEA)
        part[todo] = painted[todo]


# Puts drawings onto a canvas in the style of its picture, and takes things off.

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
