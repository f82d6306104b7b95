"""Draws calculations and figures: by hand or in print, on paper, boards and cards."""

from PIL import Image

from schemas.base import Record
from sources.demonstration.chance import Chance
from sources.rendered.calculations import Calculation, Part
from sources.rendered.figure_images import TINTS, draw_figure_into
from sources.rendered.figures import Figure
from sources.rendered.fonts import FontShelf
from sources.rendered.pen import Pen, Point
from sources.rendered.surfaces import SURFACES, Box, Ink, Surface, lay_ink, paint_surface

_SIZES = ((640, 480), (720, 480), (720, 540), (800, 600), (600, 600), (768, 432))
_HEADINGS = ("Exercise", "Question", "Problem", "Task", "No.")
_ASKING = ("Find the area.", "Area = ?", "A = ?", "What is the area?", "Calculate the area.")


class CalculationLook(Record):
    """How a calculation is drawn; what is None is not there.

    `tail` is what stands after it, `tint` colours a figure, `is_column` sets one number above the
    other.
    """

    size: tuple[int, int]
    surface: Surface
    ink: Ink
    typeface: str
    is_hand: bool
    heading: str | None
    tail: str
    tint: str | None = None
    is_column: bool = False

    @property
    def written(self) -> str:
        """How the writing came about, for a caption."""
        return "written by hand" if self.is_hand else "printed"

    def named(self) -> dict[str, str]:
        """The look as names."""
        return {
            "surface": self.surface.name,
            "ink": self.ink.name,
            "typeface": self.typeface,
            "writing": "handwritten" if self.is_hand else "typeset",
            "layout": "column" if self.is_column else "line",
        }


def draw_look(chance: Chance, shelf: FontShelf, what: Calculation | Figure) -> CalculationLook:
    """A look that fits what is to be drawn."""
    surface = chance.pick(SURFACES)
    is_hand = surface.handwritten
    styles = ("handwritten",) if is_hand else ("serif", "sans-serif")
    heading = f"{chance.pick(_HEADINGS)} {chance.whole(1, 40)}" if chance.happens(0.45) else None
    figure = what if isinstance(what, Figure) else None
    numbers = what if isinstance(what, Calculation) else None
    is_board = surface.name in ("screen", "blackboard", "green blackboard")
    tail = chance.pick(("= ?", "=", "= ___") if numbers else _ASKING)
    if numbers and numbers.kind == "missing number":
        tail = ""
    return CalculationLook(
        size=chance.pick(_SIZES),
        surface=surface,
        ink=chance.pick(surface.inks),
        typeface=chance.pick(shelf.names(*styles)),
        is_hand=is_hand,
        heading=heading,
        tail=tail,
        tint=chance.pick(tuple(TINTS)) if figure and not is_board and chance.happens(0.5) else None,
        is_column=bool(numbers and numbers.column) and chance.happens(0.35),
    )


def draw_picture(
    what: Calculation | Figure, look: CalculationLook, shelf: FontShelf, chance: Chance
) -> Image.Image:
    """The picture of `what` in this look."""
    picture, box = paint_surface(look.surface.name, look.size, chance)
    mask = draw_ink(what, look, shelf, picture, box, chance)
    lay_ink(picture, mask, look.ink, chance)
    return picture


def draw_ink(
    what: Calculation | Figure,
    look: CalculationLook,
    shelf: FontShelf,
    picture: Image.Image,
    box: Box,
    chance: Chance,
) -> Image.Image:
    """Where the ink goes, a mask that is not yet laid over `picture`; a tint is laid at once."""
    pen = Pen(look.size, shelf, look.typeface, chance, 1.0 if look.is_hand else 0.0)
    box = _write_heading(pen, look, box)
    if isinstance(what, Figure):
        draw_figure_into(picture, pen, what, box, look.ink, look.tint, look.tail)
    elif look.is_column and what.column is not None:
        _write_column(pen, what.column, look, box, chance)
    else:
        _write_line(pen, what, look, box, chance)
    return pen.mask()


def _write_heading(pen: Pen, look: CalculationLook, box: Box) -> Box:
    """Writes the heading, if any, and gives the room that is left below it."""
    if look.heading is None:
        return box
    size = look.size[1] * 0.055
    pen.write((box[0], box[1] + size), look.heading, size)
    return box[0], box[1] + round(1.5 * size), box[2], box[3]


def _write_line(
    pen: Pen, what: Calculation, look: CalculationLook, box: Box, chance: Chance
) -> None:
    """Writes the formula and its tail in one line, as large as there is room."""
    parts: tuple[Part, ...] = (*what.formula, f" {look.tail}" if look.tail else "")
    width, height = box[2] - box[0], box[3] - box[1]
    size = min(0.3 * height, look.size[1] * chance.between(0.14, 0.2))
    size = min(size, size * 0.96 * width / _formula_width(pen, parts, size))
    slack = width - _formula_width(pen, parts, size)
    x = box[0] + slack * (chance.between(0.2, 0.8) if pen.is_hand else 0.5)
    y = box[1] + height * (chance.between(0.42, 0.66) if pen.is_hand else 0.56)
    _write_formula(pen, (x, y + 0.2 * size), parts, size, look.ink.stroke)


def _formula_width(pen: Pen, parts: tuple[Part, ...], size: float) -> float:
    return sum(_part_width(pen, part, size) for part in parts)


def _part_width(pen: Pen, part: Part, size: float) -> float:
    if isinstance(part, str):
        return pen.width(part, size)
    return max(pen.width(number, 0.82 * size) for number in part) + 0.36 * size


def _write_formula(
    pen: Pen, at: Point, parts: tuple[Part, ...], size: float, stroke: float
) -> None:
    x, y = at
    for part in parts:
        width = _part_width(pen, part, size)
        if isinstance(part, str):
            text = part.rstrip("_")
            written = pen.write((x, y), text, size)
            if text != part:
                line = [(x + written, y + 0.06 * size), (x + width, y + 0.06 * size)]
                pen.stroke(line, max(stroke, size / 26))
        else:
            middle, bar = x + width / 2, y - 0.32 * size
            pen.write_centred((middle, bar - 0.5 * size), part[0], 0.82 * size)
            reach = width / 2 - 0.08 * size
            pen.stroke([(middle - reach, bar), (middle + reach, bar)], max(stroke, size / 24))
            pen.write_centred((middle, bar + 0.52 * size), part[1], 0.82 * size)
        x += width


def _write_column(
    pen: Pen, column: tuple[str, str, str], look: CalculationLook, box: Box, chance: Chance
) -> None:
    """Writes two numbers one above the other, a sign before the second, and a line below."""
    left, right, sign = column
    rows, height = (3.9 if "?" in look.tail else 2.9), box[3] - box[1]
    places = max(_whole_places(left), _whole_places(right))
    after = max(len(number) - _whole_places(number) for number in (left, right))
    size = min(height / rows, look.size[1] * chance.between(0.15, 0.19))
    digit = min(pen.width("0", size) * 1.25, (box[2] - box[0]) / (places + after + 2))
    shift = chance.between(0.4, 0.6) if pen.is_hand else 0.5
    wide = digit * (places + after + 2)
    start = box[0] + shift * max(0.0, box[2] - box[0] - wide)
    point = start + digit * (places + 1.6)
    top = box[1] + (height - rows * size) / 2 + 0.55 * size
    for row, number in enumerate((left, right)):
        for place, letter in enumerate(number, start=-_whole_places(number)):
            pen.write_centred(
                (point + (place + 0.5) * digit, top + row * 1.25 * size), letter, size
            )
    pen.write_centred((start + 0.5 * digit, top + 1.25 * size), sign, size)
    line = top + 2.05 * size
    pen.stroke([(start, line), (start + wide, line)], max(look.ink.stroke, size / 26))
    if "?" in look.tail:
        pen.write_centred((point - 0.5 * digit, line + 0.75 * size), "?", size)


def _whole_places(number: str) -> int:
    return len(number.partition(".")[0])
