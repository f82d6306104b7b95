"""Draws the background on where something was: with what is beside it, row by row."""

from typing import NamedTuple

import cv2
import numpy as np

from models.builtin.drawing.vocabulary import Style
from models.builtin.stills.preparing import Mask, Pixels

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
