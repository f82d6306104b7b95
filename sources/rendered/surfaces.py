"""Surfaces to write on, such as paper, boards, notes and cards, and inks."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from schemas.base import Record
from sources.demonstration.people import Chance

Colour = tuple[int, int, int]
Size = tuple[int, int]
Box = tuple[int, int, int, int]


@cache
def looks() -> dict[str, Any]:
    """Return the tables of `looks.toml`."""
    file = resources.files("sources.rendered").joinpath("looks.toml")
    return tomllib.loads(file.read_text("utf-8"))


class Ink(Record):
    """An ink. `grain` is how much of the surface shows through, from 0 to 1."""

    name: str
    colour: Colour
    grain: float = 0.0
    stroke: float = 2.0


class Surface(Record):
    """A surface to write on.

    Attributes:
        phrase: its name in captions.
        inks: suitable inks.
        grounds: its colours.
        lines: distance of ruled lines in pixels, 0 for none; `squared` rules both directions.
        frame: colour of a frame around it.
        handwritten: whether the writing on it is handwritten or printed.
    """

    name: str
    phrase: str
    inks: tuple[Ink, ...]
    grounds: tuple[Colour, ...]
    lines: int = 0
    squared: bool = False
    frame: Colour | None = None
    handwritten: bool = True


_INKS = {name: tuple(map(Ink.model_validate, inks)) for name, inks in looks()["inks"].items()}
SURFACES = tuple(
    Surface.model_validate({**one, "inks": _INKS[one["inks"]]}) for one in looks()["surfaces"]
)


def paint_surface(surface: Surface, size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    """Draw the empty surface; return it and its writable box (left, top, right, bottom)."""
    (width, height), line = size, (188, 204, 222)
    picture = Image.new("RGB", size, chance.pick(surface.grounds))
    draw = ImageDraw.Draw(picture)
    if surface.lines:
        for y in range(surface.lines, height, surface.lines):
            draw.line((0, y, width, y), line, 1)
    if surface.squared:
        for x in range(surface.lines, width, surface.lines):
            draw.line((x, 0, x, height), line, 1)
    if surface.frame:
        draw.rectangle((0, 0, width - 1, height - 1), None, surface.frame, 13)
    shaded(picture, chance, 7, 1.4)
    dx, dy = round(0.09 * width), round(0.09 * height)
    return picture, (dx, dy, width - dx, height - dy)


def lay_ink(picture: Image.Image, mask: Image.Image, ink: Ink, chance: Chance) -> None:
    """Colour `picture` with `ink` at `mask`; a grainy ink leaves gaps."""
    if ink.grain:
        fine = np.clip(chance.noise((mask.height, mask.width)) * 0.5 + 0.35, 0, 1)
        gaps = np.rint(255 * (1 - ink.grain * fine)).astype(np.uint8)
        cover = np.asarray(mask, np.uint16) * gaps // 255
        mask = Image.fromarray(cover.astype(np.uint8))
    picture.paste(ink.colour, (0, 0), mask)


def shaded(picture: Image.Image, chance: Chance, strength: float = 10, grain: float = 1.6) -> None:
    """Add uneven light and fine grain to an image in place."""
    width, height = picture.size
    coarse = np.clip(chance.noise((4, 5)) * 40 + 128, 0, 255).astype(np.uint8)
    light = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    shade = (np.asarray(light, np.float32) - 128) * (strength / 60)
    shade += chance.noise((height, width)) * grain
    pixels = np.asarray(picture, np.int16) + np.rint(shade).astype(np.int16)[..., None]
    picture.paste(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))


def mixed(one: Colour, other: Colour, share: float) -> Colour:
    """Return the colour at `share` of the way from one to the other."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue
