"""Names of colours, in the words of the lexicon, and how far apart colours look."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Lab = NDArray[np.float32]
"""Colours of shape (…, 3) in CIE L*a*b*: lightness 0 to 100, then green-red and blue-yellow."""

COLOURS: dict[str, tuple[int, int, int]] = {
    "black": (32, 31, 34),
    "dark gray": (84, 86, 91),
    "gray": (140, 142, 146),
    "light gray": (196, 198, 200),
    "white": (240, 240, 236),
    "red": (200, 40, 44),
    "maroon": (118, 26, 38),
    "pink": (240, 150, 178),
    "orange": (234, 124, 38),
    "yellow": (240, 204, 58),
    "green": (48, 142, 76),
    "dark green": (28, 76, 48),
    "olive": (104, 106, 44),
    "blue": (44, 94, 190),
    "light blue": (134, 184, 228),
    "navy": (32, 44, 98),
    "turquoise": (52, 168, 172),
    "purple": (120, 68, 156),
    "brown": (112, 70, 42),
    "dark brown": (64, 44, 32),
    "beige": (218, 196, 156),
    "khaki": (164, 148, 98),
}
"""Each name with an sRGB colour that most people would call so."""

NAMES = tuple(COLOURS)


def lab_of(pixels: NDArray[np.uint8]) -> Lab:
    """The sRGB `pixels`, of shape (height, width, 3), in CIE L*a*b*."""
    import cv2

    return np.asarray(cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)


def nearest_names(colours: Lab) -> NDArray[np.intp]:
    """For each of `colours`, of shape (n, 3), the index in `NAMES` of the one that is nearest."""
    distances = np.linalg.norm(colours[:, None] - _anchors(), axis=2)
    return np.asarray(distances.argmin(axis=1), np.intp)


@cache
def _anchors() -> Lab:
    anchors: Lab = lab_of(np.array([list(COLOURS.values())], np.uint8)).reshape(-1, 3)
    return anchors
