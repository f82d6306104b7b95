"""Colours as numbers that tell how much they look like each colour that has a name."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from models.builtin.describer.colour_names import COLOURS, NAMES, Lab, lab_of

_BLUR = 11.0  # the distance in L*a*b* over which a likeness to a name fades

LIKENESSES = len(NAMES)
Likeness = NDArray[np.float64]
"""Of shape (LIKENESSES,): how much a colour is like each name; colours of no bias sum up to 0."""

_WORDS = {"grey": "gray", "silver": "light gray", "transparent": "light gray"}
_SHADES = {
    ("gray", "dark"): "dark gray",
    ("gray", "light"): "light gray",
    ("red", "dark"): "maroon",
    ("blue", "light"): "light blue",
    ("blue", "dark"): "navy",
    ("green", "dark"): "dark green",
    ("brown", "dark"): "dark brown",
    ("brown", "light"): "khaki",
}
_BLOND = (214, 176, 104)
_LIGHTNESS = {"dark": 0.65, "light": 1.2}


def likeness_of(colours: Lab) -> Likeness:
    """The mean likeness of `colours`, of shape (n, 3), to each name, less that of any colour."""
    likeness: Likeness = _soft_names(colours).mean(axis=0) - _ordinary()
    return likeness


@cache
def likeness_of_word(colour: str, shade: str = "") -> Likeness:
    """The likeness of the colour that a word of the lexicon means, alone or «dark», «light»."""
    name = _WORDS.get(colour, colour)
    name = _SHADES.get((name, shade), name)
    if name == "multicoloured":
        return np.zeros(LIKENESSES)
    rgb = COLOURS.get(name, _BLOND)
    lab = lab_of(np.array([[rgb]], np.uint8)).reshape(1, 3)
    if name == _WORDS.get(colour, colour):  # no name of its own for the shade
        lab[:, 0] *= _LIGHTNESS.get(shade, 1.0)
    return likeness_of(lab)


def _soft_names(colours: Lab) -> Likeness:
    """Of shape (n, LIKENESSES): rows of likenesses that sum up to 1."""
    anchors = _anchors()
    # |a - b|² without the |a|² that all names share: it goes out of the softmax.
    nearness = (colours @ anchors.T - (anchors**2).sum(axis=1) / 2) / _BLUR**2
    weights = np.exp(nearness - nearness.max(axis=1, keepdims=True))
    soft: Likeness = weights / weights.sum(axis=1, keepdims=True)
    return soft


@cache
def _anchors() -> Lab:
    return lab_of(np.array([list(COLOURS.values())], np.uint8)).reshape(-1, 3)


@cache
def _ordinary() -> Likeness:
    mean: Likeness = _soft_names(_anchors()).mean(axis=0)
    return mean
