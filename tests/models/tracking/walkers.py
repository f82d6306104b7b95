"""A drawn street of flat figures, with ground-truth boxes."""

from typing import NamedTuple

import cv2
import numpy as np

from loupe.models.tracking.appearance import Boxes
from loupe.models.tracking.detector import Frame, Pixels

Colour = tuple[int, int, int]
SKIN: Colour = (205, 160, 135)


class Walker(NamedTuple):
    """A person at `left`, `top` in frame 0 who moves `pace` pixels to the right per frame."""

    left: float
    top: float
    height: float = 90
    pace: float = 3
    shirt: Colour = (190, 30, 30)
    trousers: Colour = (30, 35, 90)

    def box(self, number: int) -> Boxes:
        left = self.left + self.pace * number
        return np.array(
            [left, self.top, left + 0.36 * self.height, self.top + self.height], np.float32
        )


def place(width: int = 480, height: int = 270) -> Pixels:
    """Draw a street without people: soft grey patches and some noise."""
    random = np.random.default_rng(3)
    coarse = random.integers(120, 180, (height // 30, width // 30, 1), dtype=np.uint8)
    coarse = coarse + random.integers(0, 12, (*coarse.shape[:2], 3), dtype=np.uint8)
    soft = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.int16)
    noise = random.integers(-6, 7, soft.shape)
    street: Pixels = np.clip(soft + noise, 0, 255).astype(np.uint8)
    return street


def paint(pixels: Pixels, walker: Walker, number: int) -> None:
    left, top, right, bottom = walker.box(number)
    wide, high = right - left, bottom - top
    stride = 0.28 * wide * np.sin(number * 0.7)
    middle = (left + right) / 2

    def line(a: tuple[float, float], b: tuple[float, float], thick: float, colour: Colour) -> None:
        first, second = ((round(float(x)), round(float(y))) for x, y in (a, b))
        cv2.line(pixels, first, second, colour, max(1, round(float(thick))), cv2.LINE_AA)

    hip, neck = top + 0.52 * high, top + 0.2 * high
    for side in (-1, 1):
        foot = (middle + side * (0.14 * wide + stride), bottom - 0.06 * high)
        line((middle + side * 0.13 * wide, hip), foot, 0.1 * high, walker.trousers)
        hand = (middle + side * 0.38 * wide, hip)
        line((middle + side * 0.3 * wide, neck + 0.07 * high), hand, 0.07 * high, walker.shirt)
    line((middle, neck + 0.1 * high), (middle, hip - 0.05 * high), 0.22 * high, walker.shirt)
    head = (round(float(middle)), round(float(top + 0.1 * high)))
    cv2.circle(pixels, head, round(float(0.085 * high)), SKIN, -1, cv2.LINE_AA)


def frame_of(
    walkers: list[Walker],
    number: int,
    *,
    light: float = 1.0,
) -> Frame:
    """Draw frame `number` of a video of `walkers` at ten frames per second."""
    pixels = place()
    for walker in walkers:
        paint(pixels, walker, number)
    lit = np.clip(pixels * light, 0, 255).astype(np.uint8)
    return Frame(number, number / 10, lit)
