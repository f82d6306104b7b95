"""Calculations and plane figures with exact results, and their layout."""

import math
import operator
import re
import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from importlib.resources import files
from typing import NamedTuple, TypeVar

from schemas.base import Record
from sources.demonstration.people import Chance

Part = str | tuple[str, str]
"""A piece of a formula: text, or a fraction's numerator and denominator."""

Point = tuple[float, float]
NumberT = TypeVar("NumberT", float, Fraction)

_SIGNS: dict[str, tuple[str, str, Callable[[Fraction, Fraction], Fraction]]] = {
    "+": ("sum", "{0} and {1} are added", operator.add),
    "−": ("difference", "{1} is subtracted from {0}", operator.sub),
    "×": ("product", "{0} and {1} are multiplied", operator.mul),
    "÷": ("quotient", "{0} is divided by {1}", operator.truediv),
}


class Calculation(Record):
    """A calculation, its exact result, and facts about it.

    Attributes:
        kind: its kind.
        question: the text as it is read: `3/4 + 1/8`, `8 + ? = 15`.
        name: its name in captions: `the sum 17 + 25`.
        answer: the result: `42`, `7/8`, `3.75`.
        formula: pieces to write.
        column: two numbers and the sign, if they may be written one above the other.
        facts: statements other than its name and result.
    """

    kind: str
    question: str
    name: str
    answer: str
    formula: tuple[Part, ...]
    column: tuple[str, str, str] | None = None
    facts: tuple[str, ...]


class _Row(NamedTuple):
    """A calculation of whole numbers: their lowest, highest and step, and their result `r`.

    Texts have placeholders for the numbers in order, and for `r`.
    """

    kind: str
    noun: str
    numbers: tuple[tuple[int, int, int], ...]
    question: str
    result: Callable[..., int]
    answer: str
    facts: tuple[str, str]


_ROWS = (
    _Row(
        "three numbers", "calculation", ((2, 30, 1),) * 3, "{0} + {1} + {2}",
        lambda a, b, c: a + b + c, "{r}", ("three numbers are combined", "the last number is {2}"),
    ),
    _Row(
        "three numbers", "calculation", ((2, 30, 1), (2, 30, 1), (2, 12, 1)), "{0} + {1} × {2}",
        lambda a, b, c: a + b * c, "{r}",
        ("{1} is multiplied by {2} before {0} is added", "no brackets are used"),
    ),
    _Row(
        "brackets", "calculation", ((3, 40, 1), (2, 30, 1), (2, 12, 1)), "({0} + {1}) × {2}",
        lambda a, b, c: (a + b) * c, "{r}",
        ("the bracket ({0} + {1}) is multiplied by {2}", "a pair of brackets is used"),
    ),
    _Row(
        "missing number", "equation", ((2, 60, 1), (2, 60, 1)), "{0} + ? = {r}",
        lambda a, b: a + b, "{1}",
        ("a question mark stands for the missing number", "the right side is {r}"),
    ),
    _Row(
        "missing number", "equation", ((2, 15, 1), (2, 19, 1)), "{0} × ? = {r}",
        lambda a, b: a * b, "{1}",
        ("a question mark stands for the missing number", "the right side is {r}"),
    ),
    _Row(
        "percentage", "task", ((5, 95, 5), (100, 1200, 100)), "{0}% of {1}",
        lambda share, whole: share * whole // 100, "{r}",
        ("a percentage of {1} is asked for", "the percentage is {0}%"),
    ),
)  # fmt: skip


def draw_calculation(chance: Chance) -> Calculation:
    """Return a random calculation of any kind."""
    return chance.weigh({_whole: 5, _fractions: 4, _decimals: 2, _of_row: 7})(chance)


def decimal_text(value: Fraction) -> str:
    """Format a number with a finite decimal expansion, with a decimal point."""
    return format(Decimal(value.numerator) / value.denominator, "f")


def _of_row(chance: Chance) -> Calculation:
    row = chance.pick(_ROWS)
    numbers = [step * chance.whole(low // step, high // step) for low, high, step in row.numbers]
    result = row.result(*numbers)
    question = row.question.format(*numbers, r=result)
    return Calculation(
        kind=row.kind,
        question=question,
        name=f"the {row.noun} {question}",
        answer=row.answer.format(*numbers, r=result),
        formula=(question,),
        facts=tuple(fact.format(*numbers, r=result) for fact in row.facts),
    )


def _whole(chance: Chance) -> Calculation:
    sign = chance.pick("+−×÷")
    if sign == "÷":
        right = chance.whole(2, 19)
        left = right * chance.whole(2, 48)
    else:
        digits = chance.weigh({(2, 99): 2, (100, 999): 1}) if sign != "×" else (2, 39)
        left, right = chance.whole(*digits), chance.whole(*digits)
        if sign == "−":
            left, right = max(left, right), min(left, right)
    return _two("whole numbers", sign, (Fraction(left), Fraction(right)))


def _decimals(chance: Chance) -> Calculation:
    sign, per_one = chance.pick("+−"), chance.pick((10, 100))
    numbers = [
        Fraction(10 * chance.whole(1, 6 * per_one) + chance.whole(1, 9), per_one) for _ in range(2)
    ]
    return _two("decimal numbers", sign, (max(numbers), min(numbers)), decimal_text)


def _fractions(chance: Chance) -> Calculation:
    sign, numbers = chance.pick("+−×÷"), list[Fraction]()
    while len(numbers) < 2:
        below = chance.whole(2, 12)
        above = chance.whole(1, below - 1)
        if math.gcd(above, below) == 1:
            numbers.append(Fraction(above, below))
    if sign == "−":
        numbers.sort(reverse=True)
    return _two("fractions", sign, (numbers[0], numbers[1]))


def _two(
    kind: str,
    sign: str,
    numbers: tuple[Fraction, Fraction],
    text: Callable[[Fraction], str] = str,  # whole, or a fraction in lowest terms
) -> Calculation:
    (name, fact, calculate), (left, right) = _SIGNS[sign], map(text, numbers)
    question = f"{left} {sign} {right}"
    return Calculation(
        kind=kind,
        question=question,
        name=f"the {name} {question}",
        answer=text(calculate(*numbers)),
        formula=(_part(left), f" {sign} ", _part(right)),
        column=(left, right, sign) if kind != "fractions" and sign != "÷" else None,
        facts=(fact.format(left, right), f"the first number is {left}"),
    )


def _part(number: str) -> Part:
    above, bar, below = number.partition("/")
    return (above, below) if bar else number


# Plane figures with labelled measures.


class Label(Record):
    """A measure next to a line: `at` is the line's middle, `away` points to the label."""

    text: str
    at: Point
    away: Point


class Circle(Record):
    """A circle, or an arc between `turns`, counted from the right, clockwise on the image."""

    centre: Point
    radius: float
    turns: tuple[float, float] = (0.0, 1.0)


class Figure(Record):
    """A figure in units of its measures, y downwards.

    Attributes:
        shape: its name: `right triangle`.
        measures: the labelled measures by name, as numbers of `unit`.
        unit: mm, cm or m.
        area: of a polygon in square units; of a sector, in square units divided by π.
        is_round: whether `area` has to be multiplied by π.
        outline: the corners; empty for a whole circle.
        circles: round parts of the outline.
        dashed: construction lines, such as a height.
        solid: other lines, such as a radius.
        square_corners: corners marked as right angles, each with the directions of its two legs.
        labels: labels to write.
    """

    shape: str
    measures: dict[str, Fraction]
    unit: str
    area: Fraction
    is_round: bool = False
    outline: tuple[Point, ...] = ()
    circles: tuple[Circle, ...] = ()
    dashed: tuple[tuple[Point, Point], ...] = ()
    solid: tuple[tuple[Point, Point], ...] = ()
    square_corners: tuple[tuple[Point, Point, Point], ...] = ()
    labels: tuple[Label, ...] = ()

    @property
    def said_measures(self) -> str:
        """The measures in words: `base 6 cm and height 4 cm`."""
        said = [f"{name} {decimal_text(size)} {self.unit}" for name, size in self.measures.items()]
        return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 2 else said)

    @property
    def question(self) -> str:
        """The question: `area of a triangle with base 6 cm and height 4 cm`."""
        article = "an" if self.shape[0] == "L" else "a"
        return f"area of {article} {self.shape} with {self.said_measures}"

    @property
    def answer(self) -> str:
        """The area with its unit: `12 cm²`, `25π cm²`."""
        number = str(self.area) if self.is_round else decimal_text(self.area)
        if self.is_round:
            above, bar, below = number.partition("/")
            number = ("" if above == "1" else above) + "π" + bar + below
        return f"{number} {self.unit}²"


class _Round(Record):
    """A circle around the origin, or an arc of it."""

    radius: str
    turns: tuple[float, float]


class _Shape(Record):
    """A shape in the notation of `shapes.toml`."""

    name: str
    measures: dict[str, tuple[int, int]]
    outline: str = ""
    circle: _Round | None = None
    dashed: tuple[str, ...] = ()
    solid: tuple[str, ...] = ()
    square_corners: tuple[tuple[str, str, str], ...] = ()
    labels: tuple[tuple[str, str, str], ...]


_DIRECTIONS = {"down": (0, 1), "right": (1, 0), "up": (0, -1), "left": (-1, 0)}
_TERM = re.compile(r"([-+]?[0-9.]*)([a-d])")
_SHAPES = tuple(
    map(
        _Shape.model_validate,
        tomllib.loads(files(__package__).joinpath("shapes.toml").read_text("utf-8"))["shapes"],
    )
)


def draw_figure(chance: Chance) -> Figure:
    """Return a figure of any shape with random measures."""
    shape, unit = chance.pick(_SHAPES), chance.weigh({"cm": 4, "m": 2, "mm": 1})
    (name, (low, high)), *others = shape.measures.items()
    halves = chance.whole(0, 1) if chance.happens(0.2) else 0
    measures = {name: Fraction(2 * chance.whole(low, high) + halves, 2)}
    for other, (least, most) in others:
        measures[other] = Fraction(max(2, measures[name] * chance.whole(least, most) // 100))
    sizes = dict(zip("abcd", measures.values(), strict=False))
    floats = {letter: float(size) for letter, size in sizes.items()}

    def points(text: str) -> list[Point]:
        pairs = (point.split() for point in text.split(", "))
        return [(_length(x, floats, float), _length(y, floats, float)) for x, y in pairs]

    labels = []
    for letter, line, side in shape.labels:
        (x, y), (u, v) = points(line)
        text = f"{decimal_text(sizes[letter])} {unit}"
        labels.append(Label(text=text, at=((x + u) / 2, (y + v) / 2), away=_DIRECTIONS[side]))
    circles = []
    if shape.circle:
        radius = _length(shape.circle.radius, floats, float)
        circles.append(Circle(centre=(0, 0), radius=radius, turns=shape.circle.turns))
    return Figure.model_validate(
        {
            "shape": shape.name,
            "measures": measures,
            "unit": unit,
            "area": _area(shape, sizes),
            "is_round": bool(circles),
            "outline": points(shape.outline) if shape.outline else (),
            "circles": circles,
            "dashed": [points(line) for line in shape.dashed],
            "solid": [points(line) for line in shape.solid],
            "square_corners": [
                (*points(at), _DIRECTIONS[one], _DIRECTIONS[other])
                for at, one, other in shape.square_corners
            ],
            "labels": labels,
        }
    )


def _length(form: str, sizes: Mapping[str, NumberT], number: Callable[[str], NumberT]) -> NumberT:
    """Return the value of a form such as `0.5a-0.5b`."""
    terms = ((sign + "1" if sign in ("", "+", "-") else sign, letter)
             for sign, letter in _TERM.findall(form))  # fmt: skip
    return sum((number(factor) * sizes[letter] for factor, letter in terms), number("0"))


def _area(shape: _Shape, sizes: Mapping[str, Fraction]) -> Fraction:
    """Return the exact area, by the shoelace formula; of a round shape, divided by π."""
    if shape.circle:
        start, end = map(Fraction, shape.circle.turns)
        return _length(shape.circle.radius, sizes, Fraction) ** 2 * (end - start)
    corners = [
        [_length(form, sizes, Fraction) for form in point.split()]
        for point in shape.outline.split(", ")
    ]
    pairs = zip(corners, [*corners[1:], corners[0]], strict=True)
    return abs(sum((x * v - u * y for (x, y), (u, v) in pairs), Fraction(0))) / 2


def bounds(figure: Figure) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the whole drawing, in the figure's units."""
    points = list(figure.outline)
    for circle in figure.circles:
        (x, y), r = circle.centre, circle.radius
        bottom = y if math.isclose(circle.turns[0], 0.5) else y + r
        points += [(x - r, y - r), (x + r, bottom)]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs), min(ys), max(xs), max(ys)
