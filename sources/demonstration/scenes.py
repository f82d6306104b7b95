"""Houses and ground behind people, and the effects of a camera on a drawn image."""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from sources.demonstration.figure import shaded
from sources.demonstration.people import Chance, Rgb

_WALLS: tuple[Rgb, ...] = (
    (186, 176, 160),
    (196, 184, 158),
    (204, 202, 196),
    (168, 150, 136),
    (150, 156, 164),
)
_AWNINGS: tuple[Rgb, ...] = ((132, 78, 70), (84, 108, 100), (96, 104, 126), (140, 124, 96))
_GLASS: tuple[Rgb, ...] = ((126, 138, 150), (140, 150, 158), (104, 116, 130))
_PAVEMENTS: tuple[Rgb, ...] = ((176, 172, 166), (146, 144, 144), (184, 178, 166))
_LEAVES: tuple[Rgb, ...] = ((98, 132, 74), (120, 150, 90), (74, 104, 60))


def draw_houses(chance: Chance, size: tuple[int, int], foot: float, unit: float) -> Image.Image:
    """Draw fronts of houses, each with rows of windows above a shop, on a pavement.

    They stand on the row `foot`; `unit` is pixels per metre there. No part is so upright that it
    could be detected as a person.
    """
    width = size[0]
    picture = Image.new("RGB", size, chance.pick(_PAVEMENTS))
    draw = ImageDraw.Draw(picture)

    def box(left: float, top: float, right: float, bottom: float, colour: Rgb) -> None:
        draw.rectangle((left, top, max(left, right), max(top, bottom)), fill=colour)

    left = -chance.between(0, 6) * unit
    while left < width:
        right, wall = left + chance.between(6, 10) * unit, chance.pick(_WALLS)
        box(left, 0, right, foot, wall)
        box(right - 0.12 * unit, 0, right, foot, shaded(wall, 0.8))
        pane, cloth = foot - 2.7 * unit, chance.pick(_AWNINGS)
        box(left + 0.5 * unit, pane, right - 0.5 * unit, foot - 0.5 * unit, chance.pick(_GLASS))
        for x in np.arange(left + 0.3 * unit, right - 0.6 * unit, 0.6 * unit):
            box(x, pane - 0.2 * unit, x + 0.3 * unit, pane + 0.42 * unit, cloth)
            box(x + 0.3 * unit, pane - 0.2 * unit, x + 0.6 * unit, pane + 0.42 * unit, _WALLS[2])
        for top in np.arange(foot - 6.2 * unit, -2 * unit, -3.6 * unit):
            for x in np.arange(left + 0.8 * unit, right - 1.9 * unit, 2.7 * unit):
                box(x - 3, top - 3, x + 1.6 * unit + 3, top + 1.7 * unit + 3, shaded(wall, 1.12))
                box(x, top, x + 1.6 * unit, top + 1.7 * unit, chance.pick(_GLASS))
        left = right
    box(0, foot - 0.18 * unit, width, foot, (120, 116, 112))
    return picture


def draw_scene(chance: Chance, size: tuple[int, int], ground_y: float) -> Image.Image:
    """Draw a street of the given size in pixels; `ground_y` is where a person in front stands."""
    foot = ground_y * chance.between(0.60, 0.80)
    unit = ground_y * chance.between(0.10, 0.2)
    picture = draw_houses(chance, size, foot, unit)
    draw = ImageDraw.Draw(picture)
    for _ in range(chance.whole(0, 3)):  # trees
        x, y = chance.between(0, size[0]), foot - chance.between(1.5, 3) * unit
        draw.rectangle((x - 0.1 * unit, y, x + 0.1 * unit, foot), fill=(92, 76, 62))
        for _ in range(20):
            across, up = chance.between(-1.2, 1.2) * unit, chance.between(-0.5, 1.8) * unit
            radius = chance.between(0.25, 0.6) * unit
            box = (x + across - radius, y - up - radius, x + across + radius, y - up + radius)
            draw.ellipse(box, fill=chance.pick(_LEAVES))
    return picture.filter(ImageFilter.GaussianBlur(0.006 * ground_y + 0.4))


def finish(picture: Image.Image, chance: Chance) -> Image.Image:
    """Return the image as from a camera: with a tint and slight noise."""
    bright = chance.between(0.92, 1.06)
    across = np.linspace(-1, 1, picture.width, dtype=np.float32)[None, :, None]
    light = bright * (1 + chance.between(-0.05, 0.05) * across)
    noise = 2.2 * chance.noise((picture.height, picture.width, 1))
    pixels = np.asarray(picture, np.float32) * light + noise
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
