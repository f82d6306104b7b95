"""What is written on: paper, boards, notes and cards, and what is written with."""

from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from sources.demonstration.people import Chance

Colour = tuple[int, int, int]
Size = tuple[int, int]
Box = tuple[int, int, int, int]


class Ink(NamedTuple):
    """What is written with. `grain` is how much of the ground shows through, from 0 to 1."""

    name: str
    colour: Colour
    grain: float = 0.0
    stroke: float = 2.0


class Surface(NamedTuple):
    """What is written on.

    Attributes:
        phrase: what a caption calls it.
        inks: that fit it.
        grounds: colours that it comes in.
        lines: the distance of ruled lines in pixels, 0 for none; `squared` rules it both ways.
        frame: the colour of a frame around it.
        handwritten: whether it is written on by hand, or printed.
    """

    name: str
    phrase: str
    inks: tuple[Ink, ...]
    grounds: tuple[Colour, ...]
    lines: int = 0
    squared: bool = False
    frame: Colour | None = None
    handwritten: bool = True


_PENS = (
    Ink("blue ballpoint", (32, 52, 148), grain=0.12),
    Ink("black ballpoint", (34, 34, 40), grain=0.12),
    Ink("pencil", (74, 74, 78), grain=0.42),
    Ink("red felt pen", (190, 32, 40), stroke=2.8),
)
_CHALKS = (
    Ink("white chalk", (238, 240, 236), grain=0.55, stroke=3.4),
    Ink("yellow chalk", (246, 226, 128), grain=0.55, stroke=3.4),
    Ink("light blue chalk", (168, 212, 242), grain=0.55, stroke=3.4),
)
_MARKERS = (
    Ink("black marker", (30, 30, 34), stroke=3.6),
    Ink("blue marker", (24, 74, 172), stroke=3.6),
    Ink("red marker", (204, 38, 44), stroke=3.6),
)
_PRINT = (Ink("black print", (24, 24, 26)), Ink("dark blue print", (24, 42, 96)))
_WHITE_PRINT = (Ink("white print", (250, 250, 250)),)
_WOOD, _METAL, _BLUE_RIM = (126, 88, 52), (168, 172, 178), (38, 92, 156)

SURFACES = (
    Surface("white paper", "white paper", _PENS, ((252, 252, 250),)),
    Surface("cream paper", "cream paper", _PENS, ((247, 238, 214),)),
    Surface("lined paper", "lined paper", _PENS, ((252, 251, 246),), lines=38),
    Surface("squared paper", "squared paper", _PENS, ((252, 252, 249),), lines=26, squared=True),
    Surface("green blackboard", "a green blackboard", _CHALKS, ((44, 84, 66),), frame=_WOOD),
    Surface("blackboard", "a blackboard", _CHALKS, ((42, 46, 50),), frame=_WOOD),
    Surface("whiteboard", "a whiteboard", _MARKERS, ((246, 248, 249),), frame=_METAL),
    Surface("book page", "a page of a textbook", _PRINT, ((253, 252, 248), (248, 243, 230)),
            handwritten=False),
    Surface("flash card", "a flash card with a rim", _PRINT, ((254, 253, 250),),
            frame=_BLUE_RIM, handwritten=False),
    Surface("screen", "a slide with a coloured ground", _WHITE_PRINT,
            ((28, 58, 110), (18, 92, 96), (92, 40, 98), (44, 48, 58)), handwritten=False),
)  # fmt: skip


def paint_surface(surface: Surface, size: Size, chance: Chance) -> tuple[Image.Image, Box]:
    """The empty surface, and the box (left, top, right, bottom) that may be written on."""
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
    """Colours `picture` with `ink` where `mask` is; a grainy ink leaves gaps."""
    if ink.grain:
        fine = np.clip(chance.noise((mask.height, mask.width)) * 0.5 + 0.35, 0, 1)
        gaps = np.rint(255 * (1 - ink.grain * fine)).astype(np.uint8)
        cover = np.asarray(mask, np.uint16) * gaps // 255
        mask = Image.fromarray(cover.astype(np.uint8))
    picture.paste(ink.colour, (0, 0), mask)


def shaded(picture: Image.Image, chance: Chance, strength: float = 10, grain: float = 1.6) -> None:
    """Lays uneven light and a fine grain over a picture, in place."""
    width, height = picture.size
    coarse = np.clip(chance.noise((4, 5)) * 40 + 128, 0, 255).astype(np.uint8)
    light = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    shade = (np.asarray(light, np.float32) - 128) * (strength / 60)
    shade += chance.noise((height, width)) * grain
    pixels = np.asarray(picture, np.int16) + np.rint(shade).astype(np.int16)[..., None]
    picture.paste(Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)))


def mixed(one: Colour, other: Colour, share: float) -> Colour:
    """The colour `share` of the way from one to the other."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue
