"""Draw scenes from the shapes of `stills.toml`, in three styles, with their strip of code."""

import random
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from pydantic import TypeAdapter

from loupe.demo.stills.scene import (
    COLOURS,
    KINDS,
    PERSON,
    SIGN,
    STRIP_BOX,
    TABLES,
    WIDTH_PX,
    Rgb,
    Scene,
    Shape,
    Thing,
    strip_of,
)

_INK: Rgb = (24, 22, 28)
_WHITE: Rgb = (255, 255, 255)
_BLACK: Rgb = (0, 0, 0)
_FINE = 3  # supersampling factor of stills
_INK_PX = 1.6
_SHADES = TypeAdapter(dict[str, Rgb]).validate_python(TABLES["shades"])


class _Posture(NamedTuple):
    """Joints of a person: head, neck and hip; arms via the elbow, legs via the knee."""

    body: tuple[float, ...]
    arms: tuple[tuple[float, ...], ...]
    legs: tuple[tuple[float, ...], ...]
    things: tuple[Shape, ...] = ()


_POSTURES = TypeAdapter(dict[str, _Posture]).validate_python(TABLES["actions"])


def _person(thing: Thing) -> list[Shape]:
    posture = _POSTURES[thing.action or "standing"]
    x, y, neck_x, neck_y, hip_x, hip_y = posture.body
    head = (x - 0.13, y - 0.09, x + 0.13, y + 0.09)
    shapes: list[Shape] = [*posture.things]
    for arm in posture.arms:
        shapes += [("line", "skin", 0.05, *arm[2:]), ("line", "shirt", 0.07, *arm[:4])]
    for leg in posture.legs:
        foot = (leg[4], leg[5] + 0.02, leg[4] + 0.06, leg[5] + 0.02)
        shapes += [("line", "shoe", 0.05, *foot), ("line", "trousers", 0.08, *leg)]
    shapes += [
        ("line", "shirt", 0.17, neck_x, neck_y + 0.06, hip_x, hip_y - 0.05),
        ("oval", "skin", *head),
        ("dome", "hair", *head),
    ]
    if "hat" in dict(thing.clothes):
        shapes += [
            ("dome", "hat", x - 0.15, y - 0.13, x + 0.15, y + 0.07),
            ("line", "hat", 0.03, x - 0.2, y - 0.03, x + 0.2, y - 0.03),
        ]
    return shapes


# The background.


class _Scattered(NamedTuple):
    """Shapes scattered over a place; `bottom` is below the horizon (or above, negative)."""

    shape: str
    number: int
    colours: tuple[Rgb, ...]
    width: tuple[int, int]
    height: tuple[int, int]
    bottom: tuple[int, int]


class _Ground(NamedTuple):
    """The colours of sky and ground, each from top to bottom, and the scattered shapes."""

    sky: tuple[Rgb, Rgb]
    ground: tuple[Rgb, Rgb]
    scattered: tuple[_Scattered, ...]


_GROUNDS = TypeAdapter(dict[str, _Ground]).validate_python(TABLES["places"])


def _place(scene: Scene, height: int) -> Image.Image:
    """Return the empty place, `_FINE` times finer than a still."""
    chance = random.Random(f"{scene.place} {scene.seed}")  # noqa: S311
    ground = _GROUNDS[scene.place]
    horizon = round(height * chance.uniform(0.4, 0.48))
    sky = np.linspace(*ground.sky, horizon)
    floor = np.linspace(*ground.ground, height - horizon)
    colours = np.concatenate([sky, floor]).round().astype(np.uint8)
    column = Image.fromarray(colours[:, None])
    picture = column.resize((WIDTH_PX * _FINE, height * _FINE), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(picture)
    for shape, number, fills, wide, high, low in ground.scattered:
        for _ in range(number):
            x = chance.uniform(0, WIDTH_PX)
            width = chance.uniform(*wide)
            bottom = horizon + chance.uniform(*low)
            edges = (x - width / 2, bottom - chance.uniform(*high), x + width / 2, bottom)
            put = draw.ellipse if shape == "oval" else draw.rectangle
            put([_FINE * edge for edge in edges], fill=chance.choice(fills))
    return picture


# A whole still.


def draw_still(scene: Scene) -> Image.Image:
    """Draw the scene (RGB, 320 × 240): its place, its things, its style, and its strip.

    Equal scenes have equal pixels, and equal things in two scenes look alike.
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
    shadow = _WHITE if thing.colour == "black" else _BLACK
    shades = dict(_SHADES)
    shades |= {garment: COLOURS[colour] for garment, colour in thing.clothes}
    shades["main"] = main
    shades["light"] = _mixed(main, _WHITE, 0.35)
    shades["deep"] = _mixed(main, shadow, 0.2)
    shapes = _person(thing) if thing.kind == PERSON else KINDS[thing.kind].shapes
    for shape in shapes:
        _draw_shape(draw, thing, shape, shades)
    if thing.word:
        left, top, right, bottom = (_FINE * edge for edge in thing.box)
        width = right - left
        font = ImageFont.load_default(min(0.34, 1.36 / len(thing.word)) * width)
        middle = (left + width / 2, top + 0.3 * (bottom - top))
        draw.text(middle, thing.word, (44, 58, 128), font, anchor="mm")


def _draw_shape(
    draw: ImageDraw.ImageDraw, thing: Thing, shape: Shape, shades: dict[str, Rgb]
) -> None:
    """Draw a shape in the box of its thing, which may be turned."""
    kind, shade, *numbers = shape
    left, top, right, bottom = (_FINE * edge for edge in thing.box)
    width = right - left
    height = bottom - top
    shares = [float(number) for number in numbers[kind == "line" :]]
    xs = [left + width * x for x in shares[::2]]
    if thing.turned and thing.kind != SIGN:
        xs = [right - width * x for x in shares[::2]]
    ys = [top + height * y for y in shares[1::2]]
    points = list(zip(xs, ys, strict=True))
    ink = round(_FINE * _INK_PX)
    fill = shades[str(shade)]
    if kind == "area":
        draw.polygon(points, fill, _INK, ink)
        return
    if kind == "line":
        thick = round(float(numbers[0]) * height)
        _draw_line(draw, points, thick + 2 * ink, _INK)
        _draw_line(draw, points, thick, fill)
        return
    box = [(min(xs), ys[0]), (max(xs), ys[1])]
    if kind == "oval":
        draw.ellipse(box, fill, _INK, ink)
    else:
        draw.pieslice(box, 180, 360, fill, _INK, ink)


def _draw_line(
    draw: ImageDraw.ImageDraw, points: list[tuple[float, float]], thick: int, fill: Rgb
) -> None:
    """Draw a line with round joints and ends."""
    for ends in pairwise(points):
        draw.line(ends, fill, thick)
    radius = thick / 2
    for x, y in points:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill)


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue


# Styles, of stills and of photographs.

BLACK_AND_WHITE = "black-and-white picture"
"""A style of photographs only."""

_LEVELS = 5


def in_style(picture: Image.Image, style: str) -> Image.Image:
    """Return an RGB image in a style; `flat drawing` does not change it."""
    pixels = np.asarray(picture, np.float32)
    if style == "pencil sketch":
        pixels = _sketched(picture)
    elif style == "poster":
        step = 255 / (_LEVELS - 1)
        grey = pixels.mean(axis=2, keepdims=True)
        vivid = np.clip(grey + 1.3 * (pixels - grey), 0, 255)
        pixels = np.round(vivid / step) * step
    elif style == BLACK_AND_WHITE:
        return picture.convert("L").convert("RGB")
    return Image.fromarray(np.clip(pixels.round(), 0, 255).astype(np.uint8))


def _sketched(picture: Image.Image) -> NDArray[np.float32]:
    """Draw lines where lightness changes (a colour dodge with the blurred image), pale."""
    grey = picture.convert("L")
    light = np.asarray(grey, np.float32)
    blur = ImageFilter.GaussianBlur(max(2, picture.height / 90))
    blurred = np.asarray(grey.filter(blur)).astype(np.float32)
    lines = np.clip(light / np.maximum(blurred, 12), 0, 1)[..., None]
    pale = 0.5 + 0.5 * np.asarray(picture, np.float32) / 255
    return np.asarray(250 * lines * pale)
