"""Textures: plain and patterned cloth, skin, hair."""

import numpy as np

from sources.demonstration.colours import CLOTH, Rgb
from sources.demonstration.people import Garment, Pattern
from sources.demonstration.strokes import Field, Surface, Texture


def plain(rgb: Rgb, folds: float = 0.0, brightness: float = 1.0) -> Texture:
    """One colour, with soft folds of the given strength (0 … 0.1)."""
    base = np.array(rgb, np.float32) * brightness

    def texture(surface: Surface) -> Field:
        if not folds:
            return np.broadcast_to(base, (surface.turn.size, 3))
        return np.asarray(base * (1 + folds * _folds(surface))[:, None], np.float32)

    return texture


def cloth(garment: Garment, brightness: float = 1.0) -> Texture:
    """The garment's cloth with its pattern; a print is painted by who draws the chest."""
    colour = plain(CLOTH[garment.colour], _FOLDS.get(garment.kind, 0.05), brightness)
    if garment.pattern in (Pattern.PLAIN, Pattern.PRINTED) or garment.second_colour is None:
        return colour
    second = np.array(CLOTH[garment.second_colour], np.float32) * brightness
    marks = {Pattern.STRIPED: _stripes, Pattern.PLAID: _plaid, Pattern.DOTTED: _dots}
    cover = marks[garment.pattern]

    def texture(surface: Surface) -> Field:
        share = cover(surface)[:, None]
        return np.asarray(colour(surface) * (1 - share) + second * share, np.float32)

    return texture


def strands(rgb: Rgb, style: str) -> Texture:
    """Hair: fine strands, bent in waves where the style is wavy, and a soft shine."""
    base = np.array(rgb, np.float32)

    def texture(surface: Surface) -> Field:
        bend = 0.012 * np.sin(48 * surface.along) if style == "wavy" else 0.0
        lines = np.sin(330 * (surface.across + bend)) + np.sin(171 * (surface.across - bend) + 1)
        shine = np.exp(-(((surface.along - 0.07) / 0.035) ** 2)) * (1 - surface.turn**2)
        colour = base * (1 + 0.045 * lines)[:, None] + 26 * shine[:, None]
        return np.asarray(colour, np.float32)

    return texture


_FOLDS = {"jeans": 0.06, "leggings": 0.02, "t-shirt": 0.04, "sweater": 0.03, "skirt": 0.05}


def _folds(surface: Surface) -> Field:
    along, across = surface.along, surface.across
    wave = np.sin(19 * along + 31 * across) + np.sin(41 * across - 11 * along)
    return np.asarray(0.6 * wave + 0.4 * np.sin(67 * along + 13 * across), np.float32)


def _stripes(surface: Surface) -> Field:
    return np.asarray((surface.along % 0.078) > 0.046, np.float32)


def _plaid(surface: Surface) -> Field:
    down = (surface.along % 0.085) < 0.026
    right = ((surface.across + 0.013) % 0.085) < 0.026
    return np.asarray(0.5 * down + 0.5 * right, np.float32)


def _dots(surface: Surface) -> Field:
    step = 0.062
    row = np.floor(surface.along / step)
    x = (surface.across + 0.5 * step * (row % 2)) % step - step / 2
    y = surface.along % step - step / 2
    return np.asarray(x * x + y * y < 0.0165**2, np.float32)
