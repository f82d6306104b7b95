"""How each kind of thing is drawn: a body in its own colour, with a few details."""

from collections.abc import Callable

from models.builtin.drawing.pen import Pen, darker, lighter
from models.builtin.drawing.vocabulary import Rgb

_WOOD: Rgb = (150, 104, 62)
_GLASS: Rgb = (196, 226, 240)
_STEEL: Rgb = (120, 124, 132)
_PAPER: Rgb = (250, 248, 240)
_LEAF: Rgb = (64, 148, 72)
_DARK: Rgb = (60, 58, 66)


def _ball(pen: Pen, colour: Rgb) -> None:
    pen.ellipse(0, 0, 1, 1, colour)
    pen.arc((-0.45, 0.06, 0.55, 0.94), (-58, 58), 0.05, darker(colour))
    pen.arc((0.45, 0.06, 1.45, 0.94), (122, 238), 0.05, darker(colour))
    pen.line([(0.02, 0.5), (0.98, 0.5)], 0.045, darker(colour))
    pen.ellipse(0.24, 0.14, 0.4, 0.27, lighter(colour, 0.6))


def _box(pen: Pen, colour: Rgb) -> None:
    pen.polygon([(0, 0.28), (0.22, 0), (1, 0), (1, 0.7), (0.78, 1), (0, 1)], colour)
    pen.polygon([(0, 0.28), (0.22, 0), (1, 0), (0.78, 0.28)], lighter(colour))
    pen.polygon([(0.78, 0.28), (1, 0), (1, 0.7), (0.78, 1)], darker(colour))
    pen.box(0.32, 0.28, 0.46, 0.62, lighter(colour, 0.55))


def _car(pen: Pen, colour: Rgb) -> None:
    pen.polygon([(0.2, 0.48), (0.32, 0.06), (0.68, 0.06), (0.82, 0.48)], colour)
    pen.box(0, 0.42, 1, 0.82, colour, 0.12)
    pen.polygon([(0.27, 0.44), (0.35, 0.14), (0.48, 0.14), (0.48, 0.44)], _GLASS)
    pen.polygon([(0.53, 0.44), (0.53, 0.14), (0.65, 0.14), (0.75, 0.44)], _GLASS)
    pen.box(0.93, 0.5, 1, 0.6, (255, 232, 140))
    for x in (0.22, 0.78):
        pen.disc((x, 0.8), 0.2, _DARK)
        pen.disc((x, 0.8), 0.09, (200, 202, 206))


def _boat(pen: Pen, colour: Rgb) -> None:
    pen.polygon([(0.52, 0), (0.56, 0), (0.56, 0.72), (0.52, 0.72)], _WOOD)
    pen.polygon([(0.5, 0.05), (0.5, 0.62), (0.08, 0.62)], colour)
    pen.polygon([(0.6, 0.14), (0.6, 0.62), (0.9, 0.62)], lighter(colour))
    pen.polygon([(0, 0.7), (1, 0.7), (0.82, 1), (0.18, 1)], colour)
    pen.polygon([(0, 0.7), (1, 0.7), (0.965, 0.76), (0.035, 0.76)], darker(colour))


def _tree(pen: Pen, colour: Rgb) -> None:
    pen.polygon([(0.42, 0.55), (0.58, 0.55), (0.64, 1), (0.36, 1)], (122, 82, 50))
    for x, y, r in ((0.3, 0.44, 0.2), (0.7, 0.44, 0.2), (0.5, 0.22, 0.22), (0.5, 0.46, 0.22)):
        pen.disc((x, y), r, colour)
    for x, y in ((0.4, 0.2), (0.66, 0.36), (0.28, 0.44), (0.52, 0.5)):
        pen.disc((x, y), 0.045, darker(colour))


def _house(pen: Pen, colour: Rgb) -> None:
    pen.box(0.7, 0.02, 0.82, 0.3, (150, 84, 70))
    pen.box(0.1, 0.4, 0.9, 1, colour)
    pen.polygon([(0, 0.44), (0.5, 0), (1, 0.44)], (128, 86, 78))
    pen.box(0.42, 0.62, 0.6, 1, _WOOD)
    for x in (0.18, 0.68):
        pen.box(x, 0.54, x + 0.16, 0.72, _GLASS)


def _cup(pen: Pen, colour: Rgb) -> None:
    pen.ring((0.78, 0.48), 0.24, 0.09, colour)
    pen.polygon([(0.04, 0.1), (0.8, 0.1), (0.7, 0.98), (0.14, 0.98)], colour)
    pen.ellipse(0.04, 0, 0.8, 0.22, lighter(colour, 0.5))
    pen.ellipse(0.1, 0.05, 0.74, 0.19, (112, 72, 46))


def _umbrella(pen: Pen, colour: Rgb) -> None:
    pen.line([(0.5, 0.03), (0.5, 0.88)], 0.045, _STEEL)
    pen.arc((0.5, 0.78, 0.7, 0.98), (0, 180), 0.05, _STEEL)
    pen.slice(0, 0.06, 1, 1.0, (180, 360), colour)
    pen.slice(0.3, 0.06, 0.7, 1.0, (180, 360), lighter(colour))
    for x in (0, 1 / 3, 2 / 3):
        pen.slice(x, 0.46, x + 1 / 3, 0.62, (0, 180), colour)


def _kite(pen: Pen, colour: Rgb) -> None:
    pen.line([(0.5, 0.66), (0.4, 0.76), (0.56, 0.86), (0.44, 0.98)], 0.025, _STEEL)
    for x, y in ((0.44, 0.76), (0.52, 0.88)):
        pen.polygon([(x - 0.14, y - 0.03), (x + 0.14, y + 0.03), (x + 0.14, y - 0.03),
                     (x - 0.14, y + 0.03)], lighter(colour))  # fmt: skip
    pen.polygon([(0.5, 0), (1, 0.26), (0.5, 0.7), (0, 0.26)], colour)
    pen.polygon([(0.5, 0), (1, 0.26), (0.5, 0.26)], lighter(colour))
    pen.polygon([(0.5, 0.7), (0, 0.26), (0.5, 0.26)], darker(colour))


def _chair(pen: Pen, colour: Rgb) -> None:
    for x in (0.06, 0.82):
        pen.box(x, 0.5, x + 0.12, 1, darker(colour))
    pen.box(0.02, 0, 0.2, 0.6, colour, 0.03)
    pen.box(0.06, 0.06, 0.96, 0.16, colour)
    pen.box(0.06, 0.26, 0.96, 0.36, colour)
    pen.box(0.8, 0, 0.98, 0.6, colour, 0.03)
    pen.box(0, 0.5, 1, 0.64, colour, 0.03)


def _clock(pen: Pen, colour: Rgb) -> None:
    for x in (0.14, 0.86):
        pen.line([(x, 0.98), (0.5 + (x - 0.5) * 0.6, 0.8)], 0.08, colour)
        pen.disc((x, 0.12), 0.12, colour)
    pen.ellipse(0.04, 0.06, 0.96, 0.98, colour)
    pen.ellipse(0.2, 0.22, 0.8, 0.82, _PAPER)
    pen.line([(0.5, 0.52), (0.5, 0.3)], 0.045, _DARK)
    pen.line([(0.5, 0.52), (0.66, 0.58)], 0.045, _DARK)


def _book(pen: Pen, colour: Rgb) -> None:
    pen.polygon([(0.1, 0.72), (1, 0.72), (1, 0.94), (0.1, 0.94)], _PAPER)
    for y in (0.79, 0.86):
        pen.line([(0.14, y), (0.97, y)], 0.02, (190, 186, 176))
    pen.polygon([(0, 0.8), (0.12, 0.06), (1, 0.06), (0.94, 0.74), (0.12, 0.76)], colour)
    pen.polygon([(0, 0.8), (0.04, 0.72), (0.12, 0.76), (0.14, 0.92), (1, 0.92), (1, 1), (0.08, 1)],
                darker(colour))  # fmt: skip
    pen.polygon([(0.24, 0.18), (0.84, 0.18), (0.82, 0.34), (0.22, 0.34)], lighter(colour, 0.6))
    pen.line([(0.16, 0.1), (0.1, 0.72)], 0.03, darker(colour))


def _dog(pen: Pen, colour: Rgb) -> None:
    pen.line([(0.1, 0.5), (0.02, 0.26)], 0.08, colour)
    for x in (0.16, 0.3, 0.56, 0.68):
        pen.box(x, 0.6, x + 0.09, 1, darker(colour) if x in (0.3, 0.56) else colour, 0.03)
    pen.box(0.08, 0.42, 0.76, 0.76, colour, 0.16)
    pen.polygon([(0.6, 0.5), (0.66, 0.16), (0.86, 0.16), (0.8, 0.6)], colour)
    pen.box(0.64, 0.06, 0.9, 0.4, colour, 0.12)
    pen.box(0.8, 0.2, 1, 0.4, colour, 0.08)
    pen.ellipse(0.93, 0.18, 1, 0.28, _DARK)
    pen.ellipse(0.6, 0.08, 0.71, 0.44, darker(colour))
    pen.disc((0.82, 0.18), 0.03, _DARK)
    pen.box(0.64, 0.44, 0.82, 0.52, (206, 60, 60))


def _cat(pen: Pen, colour: Rgb) -> None:
    pen.line([(0.6, 0.93), (0.84, 0.9), (0.94, 0.74), (0.9, 0.54)], 0.1, colour)
    pen.ellipse(0.12, 0.4, 0.78, 1.04, colour)
    for left, right in ((0.12, 0.34), (0.54, 0.76)):
        pen.polygon([(left, 0.3), ((left + right) / 2 + (0.05 if left > 0.4 else -0.05), 0),
                     (right, 0.2)], colour)  # fmt: skip
    pen.ellipse(0.1, 0.1, 0.78, 0.56, colour)
    for x in (0.3, 0.58):
        pen.ellipse(x - 0.05, 0.24, x + 0.05, 0.36, (196, 224, 120))
        pen.ellipse(x - 0.02, 0.25, x + 0.02, 0.35, _DARK)
    pen.polygon([(0.39, 0.38), (0.49, 0.38), (0.44, 0.44)], (240, 140, 150))
    for side in (-1, 1):
        for y in (0.4, 0.46):
            pen.line([(0.44 + side * 0.1, y), (0.44 + side * 0.28, y - 0.02)], 0.012,
                     darker(colour))  # fmt: skip
    for x in (0.34, 0.54):
        pen.box(x - 0.05, 0.74, x + 0.05, 1, lighter(colour, 0.18), 0.04)


def _bird(pen: Pen, colour: Rgb) -> None:
    pen.polygon([(0, 0.42), (0.26, 0.52), (0.2, 0.7), (0.02, 0.64)], darker(colour))
    pen.ellipse(0.14, 0.36, 0.78, 0.94, colour)
    pen.disc((0.74, 0.4), 0.22, colour)
    pen.polygon([(0.88, 0.32), (1, 0.42), (0.88, 0.5)], (244, 160, 40))
    pen.polygon([(0.3, 0.56), (0.58, 0.52), (0.4, 0), (0.24, 0.06)], darker(colour))
    pen.disc((0.78, 0.34), 0.045, _DARK)
    pen.slice(0.3, 0.56, 0.68, 0.92, (10, 170), lighter(colour))


def _fish(pen: Pen, colour: Rgb) -> None:
    pen.polygon([(0.28, 0.5), (0, 0.08), (0.06, 0.5), (0, 0.92)], darker(colour))
    pen.polygon([(0.4, 0.26), (0.5, 0), (0.74, 0.22)], darker(colour))
    pen.ellipse(0.2, 0.14, 1, 0.9, colour)
    for x in (0.36, 0.5):
        pen.arc((x, 0.28, x + 0.16, 0.76), (-70, 70), 0.05, lighter(colour))
    pen.disc((0.83, 0.42), 0.09, _PAPER)
    pen.disc((0.845, 0.42), 0.05, _DARK)
    pen.arc((0.84, 0.5, 1.0, 0.72), (90, 190), 0.04, darker(colour))


def _apple(pen: Pen, colour: Rgb) -> None:
    pen.line([(0.5, 0.28), (0.54, 0.04)], 0.06, (112, 72, 46))
    pen.ellipse(0, 0.2, 0.62, 0.94, colour)
    pen.ellipse(0.38, 0.2, 1, 0.94, colour)
    pen.ellipse(0.16, 0.36, 0.84, 1, colour)
    pen.ellipse(0.54, 0.02, 0.9, 0.18, _LEAF)
    pen.ellipse(0.16, 0.32, 0.3, 0.5, lighter(colour, 0.55))


def _flower(pen: Pen, colour: Rgb) -> None:
    pen.line([(0.5, 0.4), (0.5, 0.97)], 0.05, _LEAF)
    pen.polygon([(0.5, 0.86), (0.1, 0.62), (0.2, 0.82)], _LEAF)
    pen.polygon([(0.5, 0.82), (0.9, 0.58), (0.8, 0.78)], _LEAF)
    for x, y in ((0.5, 0.12), (0.84, 0.24), (0.72, 0.46), (0.28, 0.46), (0.16, 0.24)):
        pen.disc((x, y), 0.115, colour)
    pen.disc((0.5, 0.3), 0.1, (250, 208, 70) if colour != (246, 212, 60) else (150, 96, 50))


def _lamp(pen: Pen, colour: Rgb) -> None:
    pen.box(0.45, 0.4, 0.55, 0.94, _STEEL)
    pen.box(0.2, 0.9, 0.8, 1, _STEEL, 0.04)
    pen.polygon([(0.26, 0), (0.74, 0), (1, 0.46), (0, 0.46)], colour)
    pen.polygon([(0.34, 0), (0.5, 0), (0.4, 0.46), (0.14, 0.46)], lighter(colour))
    pen.line([(0.74, 0.46), (0.74, 0.64)], 0.025, _STEEL)


def _bicycle(pen: Pen, colour: Rgb) -> None:
    for x in (0.22, 0.78):
        pen.ring((x, 0.66), 0.33, 0.055, _DARK)
        pen.disc((x, 0.66), 0.04, _STEEL)
    pen.line([(0.22, 0.66), (0.36, 0.28), (0.66, 0.28), (0.46, 0.68), (0.22, 0.66)], 0.08, colour)
    pen.line([(0.36, 0.28), (0.46, 0.68)], 0.08, colour)
    pen.line([(0.78, 0.66), (0.66, 0.28), (0.63, 0.12), (0.74, 0.08)], 0.08, colour)
    pen.line([(0.36, 0.28), (0.33, 0.16)], 0.06, colour)
    pen.line([(0.26, 0.14), (0.4, 0.14)], 0.08, _DARK)


PAINTERS: dict[str, Callable[[Pen, Rgb], None]] = {
    "ball": _ball, "box": _box, "car": _car, "boat": _boat, "tree": _tree, "house": _house,
    "cup": _cup, "umbrella": _umbrella, "kite": _kite, "chair": _chair, "clock": _clock,
    "book": _book, "dog": _dog, "cat": _cat, "bird": _bird, "fish": _fish, "apple": _apple,
    "flower": _flower, "lamp": _lamp, "bicycle": _bicycle,
}  # fmt: skip
"""Draws a thing of each kind into the whole box of a pen."""
