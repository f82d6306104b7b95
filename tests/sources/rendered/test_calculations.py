"""Answers of calculations and areas, recomputed from the question and the drawn outlines."""

import ast
import math
import operator
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from sources.demonstration.people import Chance
from sources.rendered.calculations import (
    Calculation,
    Figure,
    bounds,
    decimal_text,
    draw_calculation,
    draw_figure,
)

_SIGNS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _value(node: ast.expr) -> Fraction:
    """Evaluate the syntax tree of an arithmetic expression exactly."""
    if isinstance(node, ast.BinOp):
        value = _SIGNS[type(node.op)](_value(node.left), _value(node.right))
        assert isinstance(value, Fraction)
        return value
    assert isinstance(node, ast.Constant)
    return Fraction(str(node.value))


def _evaluate(text: str) -> Fraction:
    spaced = " ".join(f"({word})" if "/" in word else word for word in text.split())
    plain = spaced.replace("×", "*").replace("÷", "/").replace("−", "-")
    return _value(ast.parse(plain, mode="eval").body)


def _recomputed(task: Calculation) -> Fraction:
    if task.kind == "percentage":
        share, _, whole = task.question.partition("% of ")
        return _evaluate(f"{share} / 100 * {whole}".replace(f"{share} / 100", f"{share} ÷ 100"))
    if task.kind == "missing number":
        left, _, right = task.question.partition(" = ")
        tried = [n for n in range(1000) if _evaluate(left.replace("?", str(n))) == _evaluate(right)]
        assert len(tried) == 1, task.question
        return Fraction(tried[0])
    return _evaluate(task.question)


def test_answers_of_calculations_equal_the_recomputed_values() -> None:
    kinds = set()
    for number in range(120):
        task = draw_calculation(Chance("calculation", number))
        assert Fraction(task.answer) == _recomputed(task), task.question
        kinds.add(task.kind)
    assert len(kinds) == 7


def test_fractions_are_in_lowest_terms_and_formulas_match_the_question() -> None:
    for number in range(300):
        task = draw_calculation(Chance("lowest", number))
        written = "".join(
            part if isinstance(part, str) else "/".join(part) for part in task.formula
        )
        assert written == task.question
        if "/" in task.answer:
            above, below = map(int, task.answer.split("/"))
            assert math.gcd(above, below) == 1


@given(st.integers(0, 10**9), st.integers(0, 6))
def test_decimals_are_written_exactly(digits: int, places: int) -> None:
    value = Fraction(digits, 10**places)
    assert Fraction(decimal_text(value)) == value
    assert not decimal_text(value).endswith(".")


def _shoelace(figure: Figure) -> float:
    corners = figure.outline
    turned = (*corners[1:], corners[0])
    pairs = zip(corners, turned, strict=True)
    return abs(sum(x * v - u * y for (x, y), (u, v) in pairs)) / 2


def _round_area(figure: Figure) -> float:
    """Area of the drawn circle or semicircle, as a sum of thin slices."""
    (circle,) = figure.circles
    slices = 20_000
    step = 2 * circle.radius / slices
    heights = (
        math.sqrt(circle.radius**2 - (-circle.radius + (n + 0.5) * step) ** 2)
        for n in range(slices)
    )
    return 2 * step * sum(heights) * (circle.turns[1] - circle.turns[0])


def test_areas_match_the_drawn_outlines() -> None:
    shapes = set()
    for number in range(400):
        figure = draw_figure(Chance("figure", number))
        shapes.add(figure.shape)
        if not figure.is_round:
            assert math.isclose(_shoelace(figure), figure.area), figure.question
            assert figure.answer == f"{decimal_text(figure.area)} {figure.unit}²"
    assert len(shapes) == 10


def test_round_areas_match_the_drawn_arcs() -> None:
    figures = [draw_figure(Chance("round", number)) for number in range(60)]
    checked = [figure for figure in figures if figure.is_round][:6]
    assert {figure.shape for figure in checked} == {"circle", "semicircle"}
    for figure in checked:
        area = math.pi * float(figure.area)
        assert math.isclose(_round_area(figure), area, rel_tol=1e-4), figure.question
        assert "π" in figure.answer


def test_every_measure_of_a_figure_is_labelled_inside_the_figure() -> None:
    for number in range(200):
        figure = draw_figure(Chance("labels", number))
        labels = {label.text for label in figure.labels}
        measures = {f"{decimal_text(size)} {figure.unit}" for size in figure.measures.values()}
        assert labels == measures
        left, top, right, bottom = bounds(figure)
        for label in figure.labels:
            assert left <= label.at[0] <= right
            assert top <= label.at[1] <= bottom
