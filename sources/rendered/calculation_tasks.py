"""Images of calculations and their tasks (ReCoS, section 3.1)."""

from typing import Any, NamedTuple

from PIL import Image, ImageDraw

from schemas.taxonomy import RetrievalTask
from sources.demonstration.people import Chance
from sources.rendered.calculations import (
    Calculation,
    Figure,
    Part,
    Point,
    bounds,
    decimal_text,
    draw_calculation,
    draw_figure,
)
from sources.rendered.pen import (
    BY_NAME,
    SURFACES,
    Box,
    Colour,
    Draft,
    FontShelf,
    Ink,
    Pen,
    RenderedImage,
    Surface,
    lay_ink,
    paint_surface,
    rendered,
    with_article,
)

# Draws a plane figure to scale, with its measures next to its lines.

_TINTS: dict[str, Colour] = {
    "yellow": (250, 206, 84),
    "blue": (122, 180, 236),
    "green": (150, 208, 118),
    "red": (240, 136, 130),
    "purple": (186, 156, 226),
}


def _draw_figure_into(
    picture: Image.Image, pen: Pen, figure: Figure, box: Box, look: "CalculationLook"
) -> None:
    """Draw `figure` inside `box`, tinted or empty, and write the question below it."""
    size = (picture.height + 200) * 0.042
    sides = max(pen.width(label.text, size) for label in figure.labels) + 0.8 * size
    room = (box[0] + sides, box[1] + 1.5 * size, box[2] - sides, box[3] - 3.4 * size)
    left, top, right, bottom = bounds(figure)
    scale = min((room[2] - room[0]) / (right - left), (room[3] - room[1]) / (bottom - top))
    dx = (room[0] + room[2] - scale * (left + right)) / 2
    dy = (room[1] + room[3] - scale * (top + bottom)) / 2

    def at(point: Point) -> Point:
        return point[0] * scale + dx, point[1] * scale + dy

    corners, width = [at(point) for point in figure.outline], look.ink.stroke + 0.4
    if look.tint:
        mask = Image.new("L", picture.size)
        draw = ImageDraw.Draw(mask)
        if corners:
            draw.polygon(corners, 120)
        for circle in figure.circles:
            (x, y), r = at(circle.centre), circle.radius * scale
            start, end = (360 * turn for turn in circle.turns)
            draw.pieslice((x - r, y - r, x + r, y + r), start, end, 120)
        picture.paste(_TINTS[look.tint], (0, 0), mask)
    if corners:
        pen.stroke([*corners, corners[0]], width)
    for circle in figure.circles:
        pen.arc(at(circle.centre), circle.radius * scale, width, circle.turns)
    for line in figure.dashed:
        pen.stroke([at(point) for point in line], max(1.4, width * 0.7), dashed=True)
    for line in figure.solid:
        pen.stroke([at(point) for point in line], width)
    for corner, one, other in figure.square_corners:
        _mark_corner(pen, at(corner), one, other, 0.5 * size)
    for label in figure.labels:
        x, y = at(label.at)
        reach = pen.width(label.text, size) / 2 + 0.4 * size
        middle = (x + label.away[0] * reach, y + label.away[1] * 0.8 * size)
        pen.write_centred(middle, label.text, size)
    pen.write_centred(((box[0] + box[2]) / 2, box[3] - 0.9 * size), look.tail, 1.1 * size)


def _mark_corner(pen: Pen, at: Point, one: Point, other: Point, side: float) -> None:
    first = (at[0] + one[0] * side, at[1] + one[1] * side)
    second = (at[0] + other[0] * side, at[1] + other[1] * side)
    both = (first[0] + other[0] * side, first[1] + other[1] * side)
    pen.stroke([first, both, second], 1.4)


# Draws calculations and figures, handwritten or printed, on paper, boards and cards.

_SIZES = ((640, 480), (720, 480), (720, 540), (800, 600), (600, 600), (768, 432))
_HEADINGS = ("Exercise", "Question", "Problem", "Task", "No.")
_ASKING = ("Find the area.", "Area = ?", "A = ?", "What is the area?", "Calculate the area.")


class CalculationLook(NamedTuple):
    """The look of a calculation; parts that are None are not drawn.

    `tail` is the text after it, `tint` colours a figure, `is_column` places one number above the
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
        """How the text was written, for a caption."""
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
    """Return a random look that fits the content."""
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
        tint=chance.pick(tuple(_TINTS))
        if figure and not is_board and chance.happens(0.5)
        else None,
        is_column=bool(numbers and numbers.column) and chance.happens(0.35),
    )


def draw_ink(
    what: Calculation | Figure,
    look: CalculationLook,
    shelf: FontShelf,
    picture: Image.Image,
    box: Box,
    chance: Chance,
) -> Image.Image:
    """Return the mask of the ink; only a tint is already applied to `picture`."""
    pen = Pen(look.size, shelf, look.typeface, chance, 1.0 if look.is_hand else 0.0)
    box = _write_heading(pen, look, box)
    if isinstance(what, Figure):
        _draw_figure_into(picture, pen, what, box, look)
    elif look.is_column and what.column is not None:
        _write_column(pen, what.column, look, box, chance)
    else:
        _write_line(pen, what, look, box, chance)
    return pen.mask()


def _write_heading(pen: Pen, look: CalculationLook, box: Box) -> Box:
    """Write the heading, if any, and return the remaining box."""
    if look.heading is None:
        return box
    size = look.size[1] * 0.055
    pen.write((box[0], box[1] + size), look.heading, size)
    return box[0], box[1] + round(1.5 * size), box[2], box[3]


def _write_line(
    pen: Pen, what: Calculation, look: CalculationLook, box: Box, chance: Chance
) -> None:
    """Write the formula and its tail in one line, as large as possible."""
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
    """Write two numbers one above the other, with a sign before the second and a line below."""
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


# Numerical calculation: the content, its look, and facts about the image.

_TAILS = {
    "= ?": "an equals sign and a question mark follow it",
    "=": "an equals sign follows it, and nothing after that",
    "= ___": "a blank line after the equals sign waits for the result",
}
_FIGURES_SHARE = 0.3


def draw_calculation_task(chance: Chance, shelf: FontShelf) -> Draft:
    """Draw a calculation, or in three of ten cases the area of a figure."""
    is_figure = chance.happens(_FIGURES_SHARE)
    what = draw_figure(chance) if is_figure else draw_calculation(chance)

    def render(chance: Chance, seed: int) -> RenderedImage:
        look = draw_look(chance, shelf, what)
        picture, box = paint_surface(look.surface, look.size, chance)
        lay_ink(picture, draw_ink(what, look, shelf, picture, box, chance), look.ink, chance)
        return rendered(
            RetrievalTask.CALCULATION,
            seed,
            picture,
            question=what.question,
            answer=what.answer,
            look=look.named(),
            truth=_truth(what),
            facts=_facts(what, look),
        )

    return Draft(what.question, what.answer, render)


def _truth(what: Calculation | Figure) -> dict[str, Any]:
    if isinstance(what, Calculation):
        return {"kind": what.kind}
    return {
        "kind": "area",
        "shape": what.shape,
        "measures": {name: decimal_text(size) for name, size in what.measures.items()},
        "unit": what.unit,
        "area": str(what.area),
        "times_pi": what.is_round,
    }


def _facts(what: Calculation | Figure, look: CalculationLook) -> tuple[str, ...]:
    facts = _figure_facts(what, look) if isinstance(what, Figure) else _number_facts(what, look)
    if look.heading:
        facts.append(f"the heading reads {look.heading}")
    if look.is_hand:
        facts.append("the writing is a little uneven, as by hand")
    else:
        style = "with serifs" if BY_NAME[look.typeface].style == "serif" else "without serifs"
        facts.append(f"the text is printed in letters {style}")
    return tuple(facts)


def _number_facts(what: Calculation, look: CalculationLook) -> list[str]:
    facts = [
        f"{what.name} is {look.written} in {look.ink.name} on {look.surface.phrase}",
        f"the result is {what.answer}",
        *what.facts,
    ]
    if look.is_column:
        facts.append("the two numbers stand one above the other over a line")
    elif look.tail:
        facts.append(_TAILS[look.tail])
    return facts


def _figure_facts(what: Figure, look: CalculationLook) -> list[str]:
    figure = with_article(f"{what.shape} with {what.said_measures}")
    drawn = "drawn by hand" if look.is_hand else "printed"
    facts = [
        f"{figure} is {drawn} in {look.ink.name} on {look.surface.phrase}",
        f"the area of the {what.shape} is {what.answer}",
    ]
    for name, size in what.measures.items():
        facts.append(f"the {name} is labelled {decimal_text(size)} {what.unit}")
    facts.append(f"the text below the figure reads {look.tail.rstrip('.')}")
    facts.append(f"the figure is filled in light {look.tint}" if look.tint else "it is not filled")
    return facts
