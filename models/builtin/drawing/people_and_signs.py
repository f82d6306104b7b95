"""How people and signs are drawn."""

from typing import NamedTuple

from PIL import ImageDraw, ImageFont

from models.builtin.drawing.pen import Pen, Point, darker
from models.builtin.drawing.vocabulary import COLOURS, HAIR, SKIN, Action, Rgb
from schemas.base import Record

# How a person is drawn while doing something: a simple figure with round limbs.

_SHOES: Rgb = (92, 66, 54)
_BENCH: Rgb = (176, 128, 84)


class Figure(Record):
    """A person: what they do and wear. `hat` is its colour, None for a bare head."""

    action: Action
    shirt: str
    trousers: str
    hat: str | None = None
    hair: str = "brown hair"
    skin: str = "fair"


class Posture(NamedTuple):
    """Joints in units of the figure's height, as (x, y), and what they are drawn with.

    `aspect` is width over height of the box; `unit` how much of the box's height a standing person
    of the same size would take. Arms and legs go from shoulder or hip by way of elbow or knee.
    """

    aspect: float
    unit: float
    head: Point
    neck: Point
    hip: Point
    arms: tuple[tuple[Point, ...], tuple[Point, ...]]
    legs: tuple[tuple[Point, ...], tuple[Point, ...]]
    bench: bool = False


POSTURES: dict[Action, Posture] = {
    Action.STANDING: Posture(
        0.42, 1.0, (0.5, 0.11), (0.5, 0.25), (0.5, 0.55),
        (((0.34, 0.27), (0.22, 0.42), (0.18, 0.56)), ((0.66, 0.27), (0.78, 0.42), (0.82, 0.56))),
        (((0.4, 0.56), (0.38, 0.76), (0.36, 0.94)), ((0.6, 0.56), (0.62, 0.76), (0.64, 0.94))),
    ),
    Action.WAVING: Posture(
        0.56, 1.0, (0.46, 0.13), (0.46, 0.27), (0.46, 0.56),
        (((0.34, 0.29), (0.22, 0.42), (0.14, 0.55)), ((0.58, 0.28), (0.82, 0.26), (0.9, 0.06))),
        (((0.38, 0.57), (0.36, 0.76), (0.34, 0.94)), ((0.54, 0.57), (0.56, 0.76), (0.6, 0.94))),
    ),
    Action.RUNNING: Posture(
        0.86, 1.0, (0.64, 0.12), (0.6, 0.26), (0.46, 0.54),
        (((0.58, 0.28), (0.38, 0.36), (0.3, 0.52)), ((0.62, 0.28), (0.78, 0.44), (0.94, 0.34))),
        (((0.46, 0.55), (0.36, 0.76), (0.08, 0.78)), ((0.48, 0.55), (0.72, 0.64), (0.68, 0.93))),
    ),
    Action.JUMPING: Posture(
        0.9, 1.0, (0.5, 0.2), (0.5, 0.34), (0.5, 0.6),
        (((0.42, 0.36), (0.24, 0.26), (0.1, 0.06)), ((0.58, 0.36), (0.76, 0.26), (0.9, 0.06))),
        (((0.44, 0.61), (0.24, 0.7), (0.1, 0.9)), ((0.56, 0.61), (0.76, 0.7), (0.9, 0.9))),
    ),
    Action.SITTING: Posture(
        0.72, 1.22, (0.32, 0.14), (0.3, 0.31), (0.3, 0.66),
        (((0.28, 0.34), (0.36, 0.5), (0.54, 0.56)), ((0.32, 0.34), (0.44, 0.48), (0.64, 0.54))),
        (((0.3, 0.67), (0.68, 0.66), (0.7, 0.94)), ((0.3, 0.67), (0.76, 0.68), (0.82, 0.94))),
        bench=True,
    ),
    Action.LYING: Posture(
        2.5, 2.5, (0.1, 0.56), (0.21, 0.62), (0.5, 0.66),
        (((0.24, 0.62), (0.36, 0.36), (0.46, 0.62)), ((0.24, 0.7), (0.36, 0.84), (0.48, 0.84))),
        (((0.5, 0.66), (0.72, 0.7), (0.94, 0.8)), ((0.5, 0.66), (0.68, 0.34), (0.8, 0.78))),
    ),
}  # fmt: skip


def paint_figure(pen: Pen, figure: Figure) -> None:
    """The person, over the whole box of the pen."""
    posture = POSTURES[figure.action]
    unit, skin = posture.unit, SKIN[figure.skin]
    shirt, trousers = COLOURS[figure.shirt], COLOURS[figure.trousers]
    if posture.bench:
        pen.box(0.02, 0.74, 0.62, 0.8, _BENCH)
        for x in (0.06, 0.5):
            pen.box(x, 0.78, x + 0.07, 1, darker(_BENCH))
    _limb(pen, posture.arms[0], unit, darker(shirt), skin)
    for leg, colour in zip(posture.legs, (darker(trousers), trousers), strict=True):
        _leg(pen, leg, unit, colour)
    pen.disc(posture.hip, 0.085 * unit, trousers)
    pen.line([posture.neck, _towards(posture.hip, posture.neck, 0.16)], 0.18 * unit, shirt)
    _limb(pen, posture.arms[1], unit, darker(shirt, 0.9), skin)
    _head(pen, figure, posture)


def _towards(start: Point, end: Point, share: float) -> Point:
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def _limb(pen: Pen, joints: tuple[Point, ...], unit: float, sleeve: Rgb, skin: Rgb) -> None:
    pen.line(joints[1:], 0.055 * unit, skin)
    pen.line(joints[:2], 0.075 * unit, sleeve)
    pen.disc(joints[-1], 0.035 * unit, skin)


def _leg(pen: Pen, joints: tuple[Point, ...], unit: float, colour: Rgb) -> None:
    pen.line(joints, 0.085 * unit, colour)
    x, y = joints[-1]
    toe = 0.05 * unit * pen.sheet.height / pen.sheet.width
    pen.line([(x, y + 0.02), (min(0.97, x + toe), y + 0.02)], 0.06 * unit, _SHOES)


def _head(pen: Pen, figure: Figure, posture: Posture) -> None:
    unit, aspect = posture.unit, posture.aspect
    x, y = posture.head
    hair = HAIR[figure.hair]
    reach = 0.1 * unit
    if figure.action is Action.LYING:
        pen.disc((x, y), reach, SKIN[figure.skin])
        pen.slice(x - reach / aspect, y - reach, x + reach / aspect, y + reach, (90, 270), hair)
        if figure.hat:
            pen.slice(x - 1.15 * reach / aspect, y - 1.1 * reach, x + 1.15 * reach / aspect,
                      y + 1.1 * reach, (110, 290), COLOURS[figure.hat])  # fmt: skip
        return
    pen.disc((x, y), reach, SKIN[figure.skin])
    pen.slice(x - reach / aspect, y - reach, x + reach / aspect, y + reach, (170, 370), hair)
    pen.disc((x + 0.04 * unit / aspect, y + 0.015), 0.013 * unit, (60, 50, 50))
    pen.disc((x - 0.03 * unit / aspect, y + 0.015), 0.013 * unit, (60, 50, 50))
    if figure.hat:
        colour = COLOURS[figure.hat]
        wide, brim = reach / aspect, y - 0.24 * reach
        top, bottom = y - 1.12 * reach, y + 0.7 * reach
        pen.slice(x - 1.1 * wide, top, x + 1.1 * wide, bottom, (180, 360), colour)
        pen.line([(x - 1.25 * wide, brim), (x + 1.35 * wide, brim)], 0.035 * unit, darker(colour))


# How a sign is drawn: a board on two posts, with a word on it.

BOARD: Rgb = (252, 246, 226)
FRAME: Rgb = (178, 124, 78)
LETTERS: Rgb = (44, 58, 128)


def paint_sign(pen: Pen, word: str) -> None:
    """The sign, over the whole box of the pen."""
    for x in (0.18, 0.76):
        pen.box(x, 0.5, x + 0.06, 1, FRAME)
    pen.box(0, 0, 1, 0.6, FRAME, 0.05)
    pen.box(0.03, 0.05, 0.97, 0.55, BOARD, 0.03)
    width, height = pen.sheet.size
    font = ImageFont.load_default(size=round(0.44 * height))
    draw = ImageDraw.Draw(pen.sheet)
    draw.text((width / 2, 0.3 * height), word, font=font, fill=LETTERS, anchor="mm")
