"""Draws scenes from tables of simple shapes, in three styles, with their strip of code."""

import random
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from models.builtin.stills.scene import (
    COLOURS,
    PERSON,
    SIGN,
    STRIP_BOX,
    WIDTH_PX,
    Rgb,
    Scene,
    Thing,
    strip_of,
)

# How each kind of thing is drawn: shapes of a shade, their points in shares of the thing's box.
# A line begins with its width in shares of the box's height.

Shape = tuple[str, str, tuple[float, ...]]

INK: Rgb = (24, 22, 28)
_FINE = 3  # a still is drawn so many times larger
_INK_PX = 1.6
_SHADES: dict[str, Rgb] = {
    "wood": (150, 104, 62), "glass": (196, 226, 240), "steel": (120, 124, 132),
    "paper": (250, 248, 240), "dark": (60, 58, 66), "beak": (244, 160, 40), "roof": (128, 86, 78),
    "skin": (226, 180, 146), "hair": (110, 72, 44), "shoe": (92, 66, 54),
}  # fmt: skip
_WHEELS: tuple[Shape, ...] = tuple(
    ("oval", shade, (x - 0.1 * r, 0.8 - 0.19 * r, x + 0.1 * r, 0.8 + 0.19 * r))
    for x in (0.22, 0.78)
    for shade, r in (("dark", 1.0), ("steel", 0.5))
)
_SHAPES: dict[str, tuple[Shape, ...]] = {
    "ball": (
        ("oval", "main", (0, 0, 1, 1)), ("oval", "light", (0.3, 0, 0.7, 1)),
    ),
    "box": (
        ("area", "main", (0, 0.28, 0.78, 0.28, 0.78, 1, 0, 1)),
        ("area", "light", (0, 0.28, 0.22, 0, 1, 0, 0.78, 0.28)),
        ("area", "deep", (0.78, 0.28, 1, 0, 1, 0.7, 0.78, 1)),
    ),
    "car": (
        ("area", "main", (0, 0.45, 0.2, 0.42, 0.32, 0.04, 0.68, 0.04, 0.82, 0.42, 1, 0.5, 1, 0.82,
                          0, 0.82)),
        ("area", "glass", (0.27, 0.42, 0.36, 0.14, 0.48, 0.14, 0.48, 0.42)),
        ("area", "glass", (0.53, 0.42, 0.53, 0.14, 0.65, 0.14, 0.75, 0.42)),
        *_WHEELS,
    ),
    "boat": (
        ("line", "wood", (0.04, 0.54, 0.02, 0.54, 0.7)),
        ("area", "main", (0.5, 0.05, 0.5, 0.62, 0.08, 0.62)),
        ("area", "light", (0.6, 0.14, 0.6, 0.62, 0.9, 0.62)),
        ("area", "main", (0, 0.7, 1, 0.7, 0.82, 1, 0.18, 1)),
    ),
    "house": (
        ("area", "main", (0.1, 0.4, 0.9, 0.4, 0.9, 1, 0.1, 1)),
        ("area", "roof", (0, 0.44, 0.5, 0, 1, 0.44)),
        ("area", "wood", (0.42, 0.62, 0.6, 0.62, 0.6, 1, 0.42, 1)),
        ("area", "glass", (0.18, 0.56, 0.34, 0.56, 0.34, 0.74, 0.18, 0.74)),
        ("area", "glass", (0.68, 0.56, 0.84, 0.56, 0.84, 0.74, 0.68, 0.74)),
    ),
    "cup": (
        ("line", "main", (0.1, 0.76, 0.24, 0.94, 0.3, 0.92, 0.6, 0.7, 0.72)),
        ("area", "main", (0.04, 0.1, 0.8, 0.1, 0.7, 0.98, 0.14, 0.98)),
        ("oval", "light", (0.04, 0, 0.8, 0.22)), ("oval", "wood", (0.12, 0.06, 0.72, 0.18)),
    ),
    "umbrella": (
        ("line", "steel", (0.04, 0.5, 0.05, 0.5, 0.92, 0.6, 0.96, 0.68, 0.9)),
        ("dome", "main", (0, 0.04, 1, 1)), ("dome", "light", (0.3, 0.04, 0.7, 1)),
    ),
    "kite": (
        ("line", "steel", (0.02, 0.5, 0.66, 0.4, 0.76, 0.56, 0.86, 0.44, 0.97)),
        ("area", "main", (0.5, 0, 1, 0.26, 0.5, 0.7, 0, 0.26)),
        ("area", "light", (0.5, 0, 1, 0.26, 0.5, 0.26)),
        ("area", "deep", (0.5, 0.7, 0, 0.26, 0.5, 0.26)),
    ),
    "chair": (
        ("area", "deep", (0.06, 0.6, 0.18, 0.6, 0.18, 1, 0.06, 1)),
        ("area", "deep", (0.82, 0.6, 0.94, 0.6, 0.94, 1, 0.82, 1)),
        ("area", "main", (0.02, 0, 0.2, 0, 0.2, 0.6, 0.02, 0.6)),
        ("area", "main", (0.8, 0, 0.98, 0, 0.98, 0.6, 0.8, 0.6)),
        ("area", "main", (0.2, 0.06, 0.8, 0.06, 0.8, 0.3, 0.2, 0.3)),
        ("area", "light", (0, 0.5, 1, 0.5, 1, 0.64, 0, 0.64)),
    ),
    "dog": (
        ("line", "main", (0.09, 0.12, 0.52, 0.04, 0.26)),
        ("line", "deep", (0.1, 0.32, 0.7, 0.32, 0.94)),
        ("line", "deep", (0.1, 0.6, 0.7, 0.6, 0.94)),
        ("line", "main", (0.1, 0.2, 0.7, 0.2, 0.94)), ("line", "main", (0.1, 0.7, 0.7, 0.7, 0.94)),
        ("oval", "main", (0.08, 0.38, 0.8, 0.8)), ("oval", "main", (0.6, 0.04, 0.94, 0.5)),
        ("oval", "light", (0.8, 0.2, 1, 0.42)), ("oval", "dark", (0.93, 0.2, 1, 0.3)),
        ("oval", "deep", (0.56, 0.08, 0.7, 0.46)), ("oval", "dark", (0.8, 0.12, 0.86, 0.2)),
    ),
    "cat": (
        ("line", "main", (0.1, 0.6, 0.93, 0.84, 0.9, 0.94, 0.74, 0.9, 0.54)),
        ("oval", "main", (0.12, 0.4, 0.78, 1)),
        ("area", "main", (0.12, 0.3, 0.18, 0, 0.36, 0.2)),
        ("area", "main", (0.54, 0.2, 0.7, 0, 0.78, 0.3)),
        ("oval", "main", (0.1, 0.12, 0.78, 0.58)), ("oval", "light", (0.32, 0.62, 0.58, 0.98)),
        ("oval", "dark", (0.26, 0.26, 0.34, 0.36)), ("oval", "dark", (0.54, 0.26, 0.62, 0.36)),
        ("area", "beak", (0.39, 0.4, 0.49, 0.4, 0.44, 0.46)),
    ),
    "bird": (
        ("area", "deep", (0, 0.42, 0.26, 0.52, 0.2, 0.7, 0.02, 0.64)),
        ("oval", "main", (0.14, 0.36, 0.78, 0.98)), ("oval", "main", (0.56, 0.14, 0.92, 0.64)),
        ("area", "beak", (0.88, 0.3, 1, 0.4, 0.88, 0.5)),
        ("area", "light", (0.3, 0.6, 0.58, 0.56, 0.4, 0, 0.24, 0.06)),
        ("oval", "dark", (0.74, 0.28, 0.82, 0.4)),
    ),
    SIGN: (
        ("area", "wood", (0.18, 0.5, 0.25, 0.5, 0.25, 1, 0.18, 1)),
        ("area", "wood", (0.75, 0.5, 0.82, 0.5, 0.82, 1, 0.75, 1)),
        ("area", "wood", (0, 0, 1, 0, 1, 0.6, 0, 0.6)),
        ("area", "paper", (0.04, 0.06, 0.96, 0.06, 0.96, 0.54, 0.04, 0.54)),
    ),
}  # fmt: skip


class _Posture(NamedTuple):
    """Joints of a person: head, neck and hip; arms by way of the elbow, legs of the knee."""

    body: tuple[float, ...]
    arms: tuple[tuple[float, ...], tuple[float, ...]]
    legs: tuple[tuple[float, ...], tuple[float, ...]]


_POSTURES: dict[str, _Posture] = {
    "standing": _Posture(
        (0.5, 0.12, 0.5, 0.27, 0.5, 0.55),
        ((0.4, 0.28, 0.32, 0.42, 0.28, 0.56), (0.6, 0.28, 0.68, 0.42, 0.72, 0.56)),
        ((0.44, 0.56, 0.42, 0.76, 0.4, 0.94), (0.56, 0.56, 0.58, 0.76, 0.6, 0.94)),
    ),
    "waving": _Posture(
        (0.46, 0.14, 0.46, 0.29, 0.46, 0.56),
        ((0.36, 0.3, 0.26, 0.43, 0.2, 0.56), (0.56, 0.29, 0.8, 0.27, 0.88, 0.05)),
        ((0.4, 0.57, 0.38, 0.76, 0.36, 0.94), (0.52, 0.57, 0.54, 0.76, 0.58, 0.94)),
    ),
    "running": _Posture(
        (0.64, 0.12, 0.6, 0.27, 0.46, 0.54),
        ((0.56, 0.29, 0.36, 0.36, 0.28, 0.52), (0.62, 0.29, 0.78, 0.44, 0.94, 0.34)),
        ((0.46, 0.55, 0.36, 0.76, 0.06, 0.8), (0.48, 0.55, 0.74, 0.64, 0.68, 0.94)),
    ),
    "jumping": _Posture(
        (0.5, 0.17, 0.5, 0.32, 0.5, 0.58),
        ((0.42, 0.33, 0.24, 0.24, 0.1, 0.04), (0.58, 0.33, 0.76, 0.24, 0.9, 0.04)),
        ((0.44, 0.59, 0.22, 0.68, 0.1, 0.9), (0.56, 0.59, 0.78, 0.68, 0.9, 0.9)),
    ),
    "sitting": _Posture(
        (0.36, 0.2, 0.34, 0.35, 0.34, 0.66),
        ((0.32, 0.37, 0.4, 0.52, 0.56, 0.58), (0.36, 0.37, 0.48, 0.5, 0.64, 0.56)),
        ((0.34, 0.67, 0.68, 0.66, 0.68, 0.94), (0.34, 0.67, 0.74, 0.68, 0.78, 0.94)),
    ),
}
_BENCH: tuple[Shape, ...] = (
    ("line", "wood", (0.06, 0.1, 0.78, 0.1, 0.97)), ("line", "wood", (0.06, 0.5, 0.78, 0.5, 0.97)),
    ("line", "wood", (0.06, 0.04, 0.77, 0.6, 0.77)),
)  # fmt: skip


def _person(thing: Thing) -> list[Shape]:
    posture = _POSTURES[thing.action or "standing"]
    x, y, neck_x, neck_y, hip_x, hip_y = posture.body
    head = (x - 0.13, y - 0.09, x + 0.13, y + 0.09)
    shapes: list[Shape] = [*_BENCH] if thing.action == "sitting" else []
    for arm in posture.arms:
        shapes += [("line", "skin", (0.05, *arm[2:])), ("line", "shirt", (0.07, *arm[:4]))]
    for leg in posture.legs:
        foot = (leg[4], leg[5] + 0.02, leg[4] + 0.06, leg[5] + 0.02)
        shapes += [("line", "shoe", (0.05, *foot)), ("line", "trousers", (0.08, *leg))]
    shapes += [
        ("line", "shirt", (0.17, neck_x, neck_y + 0.06, hip_x, hip_y - 0.05)),
        ("oval", "skin", head),
        ("dome", "hair", head),
    ]
    if "hat" in dict(thing.clothes):
        shapes += [("dome", "hat", (x - 0.15, y - 0.13, x + 0.15, y + 0.07)),
                   ("line", "hat", (0.03, x - 0.2, y - 0.03, x + 0.2, y - 0.03))]  # fmt: skip
    return shapes


# What is behind everything.


class _Scattered(NamedTuple):
    """Shapes scattered over a place; `bottom` is below the horizon (or above, negative)."""

    shape: str
    colours: tuple[Rgb, ...]
    number: int
    width: tuple[int, int]
    height: tuple[int, int]
    bottom: tuple[int, int]


class _Ground(NamedTuple):
    """The colours of sky and ground, each from above to below, and what is scattered."""

    sky: tuple[Rgb, Rgb]
    ground: tuple[Rgb, Rgb]
    scattered: tuple[_Scattered, ...]


_WHOLE = (WIDTH_PX * 2, WIDTH_PX * 2)
_CLOUDS = _Scattered("oval", ((247, 250, 252),), 5, (30, 66), (10, 18), (-76, -30))
_GROUNDS: dict[str, _Ground] = {
    "beach": _Ground(((128, 196, 240), (206, 234, 248)), ((246, 226, 172), (234, 206, 146)), (
        _CLOUDS, _Scattered("oval", ((255, 236, 150),), 1, (30, 36), (32, 36), (-50, -40)),
        _Scattered("area", ((84, 166, 212),), 1, _WHOLE, (24, 30), (24, 30)),
        _Scattered("oval", ((222, 192, 134),), 40, (3, 8), (2, 2), (36, 116)),
    )),
    "park": _Ground(((158, 208, 246), (222, 240, 250)), ((150, 208, 116), (112, 182, 88)), (
        _CLOUDS, _Scattered("oval", ((134, 190, 120), (122, 178, 110)), 7, (90, 160), (50, 80),
                            (24, 40)),
        _Scattered("area", ((146, 204, 112),), 1, _WHOLE, (40, 40), (44, 44)),
        _Scattered("oval", ((94, 166, 78), (232, 214, 96)), 70, (2, 6), (2, 3), (8, 118)),
    )),
    "street": _Ground(((190, 212, 228), (226, 234, 238)), ((160, 162, 168), (138, 140, 148)), (
        _Scattered("area", ((214, 180, 152), (200, 164, 150), (222, 204, 172), (186, 190, 196)), 18,
                   (36, 64), (40, 88), (0, 1)),
        _Scattered("area", ((156, 182, 200),), 40, (7, 8), (9, 11), (-36, -6)),
        _Scattered("area", ((206, 202, 194),), 1, _WHOLE, (14, 14), (14, 14)),
        _Scattered("area", ((226, 226, 220),), 6, (28, 34), (5, 5), (84, 86)),
    )),
    "kitchen": _Ground(((248, 236, 210), (244, 228, 196)), ((196, 148, 108), (180, 132, 92)), (
        _Scattered("area", ((150, 190, 180),), 1, _WHOLE, (26, 34), (-74, -66)),
        _Scattered("area", ((232, 218, 190), (252, 242, 222)), 40, (20, 24), (14, 16), (-44, -8)),
        _Scattered("area", ((216, 172, 130),), 1, _WHOLE, (7, 7), (6, 6)),
        _Scattered("area", ((172, 124, 86),), 12, (50, 120), (2, 2), (20, 118)),
    )),
    "desert": _Ground(((250, 190, 120), (254, 226, 172)), ((236, 176, 104), (220, 150, 82)), (
        _Scattered("oval", ((255, 244, 190),), 1, (40, 46), (42, 46), (-40, -26)),
        _Scattered("oval", ((226, 158, 92), (216, 146, 84)), 6, (120, 220), (40, 80), (24, 40)),
        _Scattered("area", ((236, 176, 104),), 1, _WHOLE, (40, 40), (42, 42)),
        _Scattered("oval", ((210, 142, 78),), 16, (40, 110), (3, 4), (16, 116)),
    )),
}  # fmt: skip


def _place(scene: Scene, height: int) -> Image.Image:
    """The empty place, `_FINE` times finer than a still."""
    chance = random.Random(f"{scene.place} {scene.seed}")  # noqa: S311
    ground = _GROUNDS[scene.place]
    horizon = round(height * chance.uniform(0.4, 0.48))
    rows = [
        np.linspace(first, last, rows)
        for (first, last), rows in ((ground.sky, horizon), (ground.ground, height - horizon))
    ]
    column = Image.fromarray(np.concatenate(rows)[:, None].round().astype(np.uint8))
    picture = column.resize((WIDTH_PX * _FINE, height * _FINE), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(picture)
    for shape, colours, number, wide, high, low in ground.scattered:
        for _ in range(number):
            x, width = chance.uniform(0, WIDTH_PX), chance.uniform(*wide)
            bottom = horizon + chance.uniform(*low)
            edges = (x - width / 2, bottom - chance.uniform(*high), x + width / 2, bottom)
            put = draw.ellipse if shape == "oval" else draw.rectangle
            put([_FINE * edge for edge in edges], fill=chance.choice(colours))
    return picture


# A whole still.


def draw_still(scene: Scene) -> Image.Image:
    """The scene as a picture (RGB, 320 × 240): its place, its things, its style, and its strip.

    Equal scenes give equal pixels, and equal things in two scenes look alike.
    """
    height = int(STRIP_BOX[1])
    picture = _place(scene, height)
    draw = ImageDraw.Draw(picture)
    for thing in sorted(scene.things, key=lambda thing: thing.bottom):
        _draw_thing(draw, thing)
    drawn = np.asarray(in_style(picture.reduce(_FINE), scene.style))
    strip = np.repeat(strip_of(scene)[..., None], 3, axis=2)
    return Image.fromarray(np.concatenate([drawn, strip]))


def _draw_thing(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    main = COLOURS[thing.colour or "black"]
    shades = {
        **_SHADES,
        **{garment: COLOURS[colour] for garment, colour in thing.clothes},
        "main": main,
        "light": _mixed(main, (255, 255, 255), 0.35),
        "deep": _mixed(main, (255, 255, 255) if thing.colour == "black" else (0, 0, 0), 0.2),
    }
    left, top, right, bottom = (_FINE * edge for edge in thing.box)
    width, height = right - left, bottom - top
    for shape, shade, numbers in _person(thing) if thing.kind == PERSON else _SHAPES[thing.kind]:
        shares = numbers[1:] if shape == "line" else numbers
        turned = thing.turned and thing.kind != SIGN
        xs = [right - width * x if turned else left + width * x for x in shares[::2]]
        points = list(zip(xs, [top + height * y for y in shares[1::2]], strict=True))
        ink = round(_FINE * _INK_PX)
        fill = shades[shade]
        if shape == "area":
            draw.polygon(points, fill, INK, ink)
        elif shape == "line":
            thick = round(numbers[0] * height)
            _draw_line(draw, points, thick + 2 * ink, INK)
            _draw_line(draw, points, thick, fill)
        else:
            box = [(min(xs), points[0][1]), (max(xs), points[1][1])]
            if shape == "oval":
                draw.ellipse(box, fill, INK, ink)
            else:
                draw.pieslice(box, 180, 360, fill, INK, ink)
    if thing.word:
        font = ImageFont.load_default(min(0.34, 1.36 / len(thing.word)) * width)
        middle = (left + width / 2, top + 0.3 * height)
        draw.text(middle, thing.word, (44, 58, 128), font, anchor="mm")


def _draw_line(
    draw: ImageDraw.ImageDraw, points: list[tuple[float, float]], thick: int, fill: Rgb
) -> None:
    """A line with round joints and ends."""
    for ends in pairwise(points):
        draw.line(ends, fill, thick)
    for x, y in points:
        draw.ellipse((x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill)


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue


# Styles, of stills and of photographs.

MOSAIC, BLACK_AND_WHITE = "mosaic", "black-and-white picture"
"""Styles of photographs only."""

_LEVELS = 5
_GROUT = np.array((208, 204, 196), np.float32)


def in_style(picture: Image.Image, style: str) -> Image.Image:
    """An RGB picture in a style; `flat drawing` leaves it as it is."""
    pixels = np.asarray(picture, np.float32)
    if style == "pencil sketch":
        pixels = _sketched(picture)
    elif style == "poster":
        step = 255 / (_LEVELS - 1)
        grey = pixels.mean(axis=2, keepdims=True)
        pixels = np.round(np.clip(grey + 1.3 * (pixels - grey), 0, 255) / step) * step
    elif style == MOSAIC:
        pixels = _in_stones(picture)
    elif style == BLACK_AND_WHITE:
        return picture.convert("L").convert("RGB")
    return Image.fromarray(np.clip(pixels.round(), 0, 255).astype(np.uint8))


def _sketched(picture: Image.Image) -> NDArray[np.float32]:
    """Lines where light changes (a colour dodge with the blurred picture), and pale colours."""
    grey = picture.convert("L")
    light = np.asarray(grey, np.float32)
    blurred = np.asarray(grey.filter(ImageFilter.GaussianBlur(max(2, picture.height / 90))))
    lines = np.clip(light / np.maximum(blurred.astype(np.float32), 12), 0, 1)[..., None]
    return np.asarray(250 * lines * (0.5 + 0.5 * np.asarray(picture, np.float32) / 255))


def _in_stones(picture: Image.Image) -> NDArray[np.float32]:
    """Square stones of one colour each, with grout between them."""
    side = max(4, round(min(picture.size) / 56))
    size = (-(-picture.width // side), -(-picture.height // side))
    stones = picture.resize(size, Image.Resampling.BOX)
    pixels = np.asarray(stones.resize((size[0] * side, size[1] * side), 0), np.float32).copy()
    for seam in (pixels[side - 1 :: side], pixels[:, side - 1 :: side]):
        seam[:] = (seam + _GROUT) / 2
    return pixels[: picture.height, : picture.width]
