"""Textures: plain and patterned cloth, skin, leather."""

import numpy as np

from sources.demonstration.colours import CLOTH, Rgb
from sources.demonstration.people import Garment, Pattern
from sources.demonstration.strokes import Field, Surface, Texture


def plain(rgb: Rgb, folds: float = 0.0) -> Texture:
    """One colour, with soft folds of the given strength (0 … 0.1)."""
    base = np.array(rgb, np.float32)

    def texture(surface: Surface) -> Field:
        if not folds:
            return np.broadcast_to(base, (*surface.mask.shape, 3))
        return np.asarray(base * (1 + folds * _folds(surface))[..., None], np.float32)

    return texture


def cloth(garment: Garment, folds: float = 0.05) -> Texture:
    """The garment's cloth with its pattern; a print is added by who draws the chest."""
    base = np.array(CLOTH[garment.colour], np.float32)
    if garment.pattern in (Pattern.PLAIN, Pattern.PRINTED) or garment.second_colour is None:
        return plain(CLOTH[garment.colour], folds)
    second = np.array(CLOTH[garment.second_colour], np.float32)
    cover = {Pattern.STRIPED: _stripes, Pattern.PLAID: _plaid, Pattern.DOTTED: _dots}[
        garment.pattern
    ]

    def texture(surface: Surface) -> Field:
        share = cover(surface)[..., None]
        shade = (1 + folds * _folds(surface))[..., None]
        return np.asarray((base * (1 - share) + second * share) * shade, np.float32)

    return texture


def _folds(surface: Surface) -> Field:
    along, across = surface.along, surface.across
    wave = np.sin(19 * along + 31 * across) + np.sin(41 * across - 11 * along)
    return np.asarray(0.6 * wave + 0.4 * np.sin(67 * along + 13 * across), np.float32)


def _stripes(surface: Surface) -> Field:
    return np.asarray((surface.along % 0.075) > 0.047, np.float32)


def _plaid(surface: Surface) -> Field:
    down = (surface.along % 0.085) < 0.030
    right = ((surface.across + 0.015) % 0.085) < 0.030
    return np.asarray(0.42 * down + 0.42 * right, np.float32)


def _dots(surface: Surface) -> Field:
    step = 0.062
    row = np.floor(surface.along / step)
    x = (surface.across + 0.5 * step * (row % 2)) % step - step / 2
    y = surface.along % step - step / 2
    return np.asarray(x * x + y * y < 0.0155**2, np.float32)
