"""Numerical calculation: calculations and plane figures with exact results, as they are drawn."""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from loupe.schemas.base import Record
from loupe.schemas.validation import packaged_toml
from loupe.schemas.wording import joined, with_article
from loupe.sources.chance import Chance
from loupe.sources.rendered.pen import Box, Pen, Point, Written

_TABLES = packaged_toml(__package__, "calculations.toml")
_TERM = re.compile(r"([-+]?[0-9.]*)([a-d]+)")
_FIGURES_SHARE = 0.3


def draw_calculation_task(chance: Chance) -> Written:
    """Draw a calculation, or in three of ten cases the area of a figure."""
    if chance.happens(_FIGURES_SHARE):
        return figure_task(draw_figure(chance), chance)
    return draw_calculation(chance)


def decimal_text(value: Fraction) -> str:
    """Format a number with a finite decimal expansion, with a decimal point."""
    return format(Decimal(value.numerator) / value.denominator, "f")


def _value(form: str, numbers: Mapping[str, Fraction]) -> Fraction:
    """Return the exact value of a sum of products, such as `0.5ac+0.5bc`."""
    total = Fraction(0)
    for factor, letters in _TERM.findall(form):
        share = Fraction(factor if factor.strip("+-") else f"{factor}1")
        total += share * math.prod(numbers[letter] for letter in letters)
    return total


# Calculations.


class _Calculation(Record):
    """A row of `calculations.toml`."""

    kind: str
    name: str
    numbers: tuple[tuple[float, float, float] | Literal["fraction"], ...]
    result: str
    question: str
    answer: str = "{r}"
    facts: tuple[str, str]


_CALCULATIONS = TypeAdapter(tuple[_Calculation, ...]).validate_python(_TABLES["calculations"])
_TAILS = {
    " = ?": "an equals sign and a question mark follow it",
    " =": "an equals sign follows it, and nothing after that",
    " = ___": "a blank line after the equals sign waits for the result",
}


def draw_calculation(chance: Chance) -> Written:
    """Return a random calculation of any kind."""
    row = chance.pick(_CALCULATIONS)
    numbers = {}
    for letter, bounds in zip("abc", row.numbers, strict=False):
        if bounds == "fraction":
            below = chance.whole(2, 12)
            numbers[letter] = Fraction(chance.whole(1, below - 1), below)
        else:
            low, high, step = (Fraction(str(bound)) for bound in bounds)
            numbers[letter] = step * chance.whole(math.ceil(low / step), math.floor(high / step))
    numbers["r"] = _value(row.result, numbers)
    shown = str if row.kind == "fractions" else decimal_text
    texts = {letter: shown(number) for letter, number in numbers.items()}
    question, answer, *facts = (
        form.format(**texts) for form in (row.question, row.answer, *row.facts)
    )
    tail = "" if "=" in question else chance.pick(tuple(_TAILS))

    def draw(pen: Pen, box: Box) -> None:
        pen.write_across(box, question + tail, 0.25 * (box[3] - box[1]))

    return Written(
        name=f"the {row.name} {question}",
        question=question,
        answer=answer,
        truth={"kind": row.kind},
        facts=(f"the result is {answer}", *facts, *([_TAILS[tail]] if tail else [])),
        draw=draw,
        by_hand="written by hand",
    )


# Plane figures with labelled measures.


class _Shape(Record):
    """A shape in the notation of `calculations.toml`."""

    name: str
    measures: dict[str, tuple[int, int]]
    area: str
    outline: str = ""
    arc: tuple[str, float, float] | None = None
    dashed: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    labels: tuple[tuple[str, str, str], ...]


class Figure(NamedTuple):
    """A figure in units of its measures, y downwards.

    Attributes:
        shape: its name: `right triangle`.
        measures: the labelled measures by name, as numbers of `unit`.
        unit: mm, cm or m.
        area: in square units; of a round figure, divided by π.
        is_round: whether `area` has to be multiplied by π.
        outline: the corners; of an arc, points half a degree apart.
        dashed: construction lines, such as a height.
        marks: lines that mark right angles.
        labels: the text of a measure, a point on what it measures, and the direction to the text.
    """

    shape: str
    measures: dict[str, Fraction]
    unit: str
    area: Fraction
    is_round: bool
    outline: list[Point]
    dashed: list[list[Point]]
    marks: list[list[Point]]
    labels: list[tuple[str, Point, Point]]

    @property
    def named(self) -> str:
        """The figure with its measures: `a triangle with base 6 cm and height 4 cm`."""
        said = [f"{name} {decimal_text(size)} {self.unit}" for name, size in self.measures.items()]
        return with_article(f"{self.shape} with {joined(said)}")

    @property
    def answer(self) -> str:
        """The area with its unit: `12 cm²`, `25π cm²`."""
        number = decimal_text(self.area)
        if self.is_round:
            above, bar, below = str(self.area).partition("/")
            number = ("" if above == "1" else above) + "π" + bar + below
        return f"{number} {self.unit}²"


_SHAPES = TypeAdapter(tuple[_Shape, ...]).validate_python(_TABLES["shapes"])
_DIRECTIONS: dict[str, Point] = {"down": (0, 1), "right": (1, 0), "up": (0, -1), "left": (-1, 0)}
_ASKING = ("Find the area.", "Area = ?", "A = ?", "What is the area?", "Calculate the area.")


def draw_figure(chance: Chance) -> Figure:
    """Return a figure of any shape with random measures."""
    shape, unit = chance.pick(_SHAPES), chance.weigh({"cm": 4, "m": 2, "mm": 1})
    (name, (low, high)), *others = shape.measures.items()
    halves = chance.whole(0, 1) if chance.happens(0.2) else 0
    measures = {name: Fraction(2 * chance.whole(low, high) + halves, 2)}
    for other, (least, most) in others:
        measures[other] = Fraction(max(2, measures[name] * chance.whole(least, most) // 100))
    sizes = dict(zip("abcd", measures.values(), strict=False))

    def points(text: str) -> list[Point]:
        pairs = (point.split() for point in text.split(", "))
        return [(float(_value(x, sizes)), float(_value(y, sizes))) for x, y in pairs]

    if shape.arc:
        radius, start, end = float(_value(shape.arc[0], sizes)), *shape.arc[1:]
        angles = 2 * math.pi * np.linspace(start, end, round(720 * (end - start)) + 1)
        outline = [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]
    else:
        outline = points(shape.outline)
    return Figure(
        shape=shape.name,
        measures=measures,
        unit=unit,
        area=_value(shape.area, sizes),
        is_round=shape.arc is not None,
        outline=outline,
        dashed=[points(line) for line in shape.dashed],
        marks=[points(line) for line in shape.marks],
        labels=[
            (f"{decimal_text(sizes[letter])} {unit}", points(at)[0], _DIRECTIONS[side])
            for letter, at, side in shape.labels
        ],
    )


def figure_task(figure: Figure, chance: Chance) -> Written:
    """Return the figure, with the question for its area below it."""
    asking = chance.pick(_ASKING)
    measures = {name: decimal_text(size) for name, size in figure.measures.items()}
    truth: dict[str, Any] = {
        "kind": "area",
        "shape": figure.shape,
        "measures": measures,
        "unit": figure.unit,
        "area": str(figure.area),
        "times_pi": figure.is_round,
    }

    def draw(pen: Pen, box: Box) -> None:
        size = 0.07 * (box[3] - box[1])
        _draw_figure(figure, pen, (*box[:3], round(box[3] - 2 * size)), size)
        pen.write_centred(((box[0] + box[2]) / 2, box[3] - 0.9 * size), asking, 1.1 * size)

    return Written(
        name=figure.named,
        question=f"area of {figure.named}",
        answer=figure.answer,
        truth=truth,
        facts=(
            f"the area of the {figure.shape} is {figure.answer}",
            *(f"the {name} is labelled {size} {figure.unit}" for name, size in measures.items()),
            f"the text below the figure reads {asking.rstrip('.')}",
        ),
        draw=draw,
    )


def _draw_figure(figure: Figure, pen: Pen, box: Box, size: float) -> None:
    """Draw the figure as large as fits into `box`, with labels of letters of `size` pixels."""
    sides = max(pen.width(text, size) for text, _, _ in figure.labels) + 0.8 * size
    room = (box[0] + sides, box[1] + 1.5 * size, box[2] - sides, box[3] - 1.5 * size)
    xs, ys = zip(*figure.outline, strict=True)
    scale = min(
        (room[2] - room[0]) / (max(xs) - min(xs)), (room[3] - room[1]) / (max(ys) - min(ys))
    )
    dx = (room[0] + room[2] - scale * (min(xs) + max(xs))) / 2
    dy = (room[1] + room[3] - scale * (min(ys) + max(ys))) / 2

    def at(point: Point) -> Point:
        return point[0] * scale + dx, point[1] * scale + dy

    for line in chain([[*figure.outline, figure.outline[0]]], figure.marks):
        pen.stroke([at(point) for point in line])
    for line in figure.dashed:
        pen.stroke([at(point) for point in line], dashed=True)
    for text, point, (right, down) in figure.labels:
        reach = pen.width(text, size) / 2 + 0.4 * size
        x, y = at(point)
        pen.write_centred((x + right * reach, y + down * 0.8 * size), text, size)
