"""Plane figures with labelled measures, their outlines, and their areas by formula."""

import math
from collections.abc import Callable
from fractions import Fraction

from schemas.base import Record
from sources.demonstration.people import Chance
from sources.rendered.calculations import decimal_text, number_text

Point = tuple[float, float]


class Label(Record):
    """A measure beside a line; `at` is the line's middle, `away` points to the label's side."""

    text: str
    at: Point
    away: Point


class Circle(Record):
    """A circle, or the part of it between `turns`, counted from the right, clockwise as seen."""

    centre: Point
    radius: float
    turns: tuple[float, float] = (0.0, 1.0)


class Figure(Record):
    """A figure in units of its measures, y downwards.

    Attributes:
        shape: what it is called: `right triangle`.
        measures: the labelled measures by name, as numbers of `unit`.
        unit: mm, cm or m.
        area: of the polygon in square units; of a circle's part, in square units over π.
        is_round: whether `area` is to be multiplied by π.
        outline: the corners, none for a whole circle.
        circles: round parts of the outline.
        dashed: construction lines, such as a height.
        solid: other lines, such as a radius.
        square_corners: corners marked as right angles, each with the directions of its two legs.
        labels: what is written.
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
        """What is asked: `area of a triangle with base 6 cm and height 4 cm`."""
        article = "an" if self.shape[0] == "L" else "a"
        return f"area of {article} {self.shape} with {self.said_measures}"

    @property
    def answer(self) -> str:
        """The area with its unit: `12 cm²`, `25π cm²`."""
        number = number_text(self.area) if self.is_round else decimal_text(self.area)
        if self.is_round:
            above, bar, below = number.partition("/")
            number = ("" if above == "1" else above) + "π" + bar + below
        return f"{number} {self.unit}²"


def draw_figure(chance: Chance) -> Figure:
    """A figure of any shape, with measures drawn from `chance`."""
    return _Drawing(chance).figure()


class _Drawing:
    """One draw: a unit, a way to draw lengths, and the labels so far."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._unit = chance.weigh({"cm": 4, "m": 2, "mm": 1})
        self._halves = chance.happens(0.2)

    def figure(self) -> Figure:
        shapes: tuple[Callable[[], Figure], ...] = (
            self._rectangle,
            self._square,
            self._right_triangle,
            self._triangle,
            self._parallelogram,
            self._trapezium,
            self._circle,
            self._semicircle,
            self._rhombus,
            self._l_shape,
        )
        return self._chance.pick(shapes)()

    def _length(self, low: int, high: int) -> Fraction:
        extra = self._chance.whole(0, 1) if self._halves else 0
        return Fraction(2 * self._chance.whole(low, high) + extra, 2)

    def _share(self, length: Fraction, low: int, high: int, least: int) -> Fraction:
        """A whole number between `low` and `high` percent of `length`, but not under `least`."""
        return Fraction(max(least, length * self._chance.whole(low, high) // 100))

    def _label(self, size: Fraction, one: Point, other: Point, away: Point) -> Label:
        middle = ((one[0] + other[0]) / 2, (one[1] + other[1]) / 2)
        return Label(text=f"{decimal_text(size)} {self._unit}", at=middle, away=away)

    def _rectangle(self) -> Figure:
        width = self._length(5, 20)
        height = self._share(width, 35, 80, 2)
        w, h = float(width), float(height)
        return Figure(
            shape="rectangle",
            measures={"width": width, "height": height},
            unit=self._unit,
            area=width * height,
            outline=((0, 0), (w, 0), (w, h), (0, h)),
            square_corners=_corners(w, h),
            labels=(
                self._label(width, (0, h), (w, h), (0, 1)),
                self._label(height, (w, 0), (w, h), (1, 0)),
            ),
        )

    def _square(self) -> Figure:
        side = self._length(2, 25)
        s = float(side)
        return Figure(
            shape="square",
            measures={"side": side},
            unit=self._unit,
            area=side * side,
            outline=((0, 0), (s, 0), (s, s), (0, s)),
            square_corners=_corners(s, s),
            labels=(
                self._label(side, (0, s), (s, s), (0, 1)),
                self._label(side, (s, 0), (s, s), (1, 0)),
            ),
        )

    def _right_triangle(self) -> Figure:
        base, height = self._base_and_height()
        b, h = float(base), float(height)
        return Figure(
            shape="right triangle",
            measures={"base": base, "height": height},
            unit=self._unit,
            area=base * height / 2,
            outline=((0, 0), (0, h), (b, h)),
            square_corners=(((0, h), (1, 0), (0, -1)),),
            labels=(
                self._label(base, (0, h), (b, h), (0, 1)),
                self._label(height, (0, 0), (0, h), (-1, 0)),
            ),
        )

    def _triangle(self) -> Figure:
        base, height = self._base_and_height()
        b, h = float(base), float(height)
        foot = b * self._chance.pick((0.3, 0.4, 0.6, 0.7))
        side = 1 if foot < b / 2 else -1
        return Figure(
            shape="triangle",
            measures={"base": base, "height": height},
            unit=self._unit,
            area=base * height / 2,
            outline=((0, h), (b, h), (foot, 0)),
            dashed=(((foot, 0), (foot, h)),),
            square_corners=(((foot, h), (side, 0), (0, -1)),),
            labels=(
                self._label(base, (0, h), (b, h), (0, 1)),
                self._label(height, (foot, h * 0.3), (foot, h), (side, 0)),
            ),
        )

    def _base_and_height(self) -> tuple[Fraction, Fraction]:
        base = self._length(5, 20)
        return base, self._share(base, 50, 90, 3)

    def _parallelogram(self) -> Figure:
        base = self._length(6, 20)
        height = self._share(base, 40, 60, 3)
        b, h = float(base), float(height)
        skew = b * 0.28
        return Figure(
            shape="parallelogram",
            measures={"base": base, "height": height},
            unit=self._unit,
            area=base * height,
            outline=((skew, 0), (b + skew, 0), (b, h), (0, h)),
            dashed=(((skew, 0), (skew, h)),),
            square_corners=(((skew, h), (1, 0), (0, -1)),),
            labels=(
                self._label(base, (0, h), (b, h), (0, 1)),
                self._label(height, (skew, 0), (skew, h), (1, 0)),
            ),
        )

    def _trapezium(self) -> Figure:
        long = self._length(7, 20)
        short = self._share(long, 45, 70, 3)
        height = self._share(long, 35, 55, 2)
        a, b, h = float(short), float(long), float(height)
        left = (b - a) * self._chance.pick((0.3, 0.5, 0.7))
        return Figure(
            shape="trapezium",
            measures={"long side": long, "short side": short, "height": height},
            unit=self._unit,
            area=(long + short) * height / 2,
            outline=((left, 0), (left + a, 0), (b, h), (0, h)),
            dashed=(((left, 0), (left, h)),),
            square_corners=(((left, h), (1, 0), (0, -1)),),
            labels=(
                self._label(long, (0, h), (b, h), (0, 1)),
                self._label(short, (left, 0), (left + a, 0), (0, -1)),
                self._label(height, (left, 0), (left, h), (1, 0)),
            ),
        )

    def _circle(self) -> Figure:
        radius = self._length(2, 20)
        r, by_diameter = float(radius), self._chance.happens(0.4)
        name, size = ("diameter", 2 * radius) if by_diameter else ("radius", radius)
        start = (-r, 0.0) if by_diameter else (0.0, 0.0)
        return Figure(
            shape="circle",
            measures={name: size},
            unit=self._unit,
            area=radius * radius,
            is_round=True,
            circles=(Circle(centre=(0, 0), radius=r),),
            solid=((start, (r, 0)),),
            labels=(self._label(size, start, (r, 0), (0, -1)),),
        )

    def _semicircle(self) -> Figure:
        radius = self._length(2, 16)
        r = float(radius)
        return Figure(
            shape="semicircle",
            measures={"diameter": 2 * radius},
            unit=self._unit,
            area=radius * radius / 2,
            is_round=True,
            circles=(Circle(centre=(0, 0), radius=r, turns=(0.5, 1.0)),),
            solid=(((-r, 0), (r, 0)),),
            labels=(self._label(2 * radius, (-r, 0), (r, 0), (0, 1)),),
        )

    def _rhombus(self) -> Figure:
        wide = self._length(5, 20)
        high = self._share(wide, 50, 80, 3)
        w, h = float(wide), float(high)
        return Figure(
            shape="rhombus",
            measures={"horizontal diagonal": wide, "vertical diagonal": high},
            unit=self._unit,
            area=wide * high / 2,
            outline=((w / 2, 0), (w, h / 2), (w / 2, h), (0, h / 2)),
            dashed=(((0, h / 2), (w, h / 2)), ((w / 2, 0), (w / 2, h))),
            labels=(
                self._label(wide, (w / 2, h / 2), (w * 0.9, h / 2), (0, -1)),
                self._label(high, (w / 2, h / 2), (w / 2, h), (-1, 0)),
            ),
        )

    def _l_shape(self) -> Figure:
        wide, high = self._length(8, 18), self._length(7, 14)
        arm = self._share(wide, 35, 50, 2)
        foot = self._share(high, 35, 50, 2)
        w, h, a, f = float(wide), float(high), float(arm), float(foot)
        return Figure(
            shape="L-shaped figure",
            measures={"width": wide, "height": high, "upper width": arm, "right height": foot},
            unit=self._unit,
            area=wide * foot + arm * (high - foot),
            outline=((0, 0), (a, 0), (a, h - f), (w, h - f), (w, h), (0, h)),
            square_corners=(((0, h), (1, 0), (0, -1)),),
            labels=(
                self._label(wide, (0, h), (w, h), (0, 1)),
                self._label(high, (0, 0), (0, h), (-1, 0)),
                self._label(arm, (0, 0), (a, 0), (0, -1)),
                self._label(foot, (w, h - f), (w, h), (1, 0)),
            ),
        )


def _corners(width: float, height: float) -> tuple[tuple[Point, Point, Point], ...]:
    """The four right angles of a rectangle."""
    return (
        ((0, 0), (1, 0), (0, 1)),
        ((width, 0), (-1, 0), (0, 1)),
        ((width, height), (-1, 0), (0, -1)),
        ((0, height), (1, 0), (0, -1)),
    )


def bounds(figure: Figure) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of all that is drawn, in the figure's units."""
    points = list(figure.outline)
    for circle in figure.circles:
        (x, y), r = circle.centre, circle.radius
        bottom = y if math.isclose(circle.turns[0], 0.5) else y + r
        points += [(x - r, y - r), (x + r, bottom)]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return min(xs), min(ys), max(xs), max(ys)
