"""Answers of calculations and areas, recomputed from the question and the drawn outlines."""

import ast
import math
import operator
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from loupe.sources.chance import Chance
from loupe.sources.rendered.calculations import Figure, decimal_text, draw_calculation, draw_figure
from loupe.sources.rendered.pen import Written

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


def _recomputed(task: Written) -> Fraction:
    if task.truth["kind"] == "percentage":
        share, _, whole = task.question.partition("% of ")
        return _evaluate(f"{share} / 100 * {whole}".replace(f"{share} / 100", f"{share} ÷ 100"))
    if task.truth["kind"] == "missing number":
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
        kinds.add(task.truth["kind"])
    assert len(kinds) == 7


def test_fractions_are_in_lowest_terms() -> None:
    for number in range(300):
        task = draw_calculation(Chance("lowest", number))
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
    turned = [*corners[1:], corners[0]]
    pairs = zip(corners, turned, strict=True)
    return abs(sum(x * v - u * y for (x, y), (u, v) in pairs)) / 2


def test_areas_match_the_drawn_outlines() -> None:
    shapes = set()
    for number in range(400):
        figure = draw_figure(Chance("figure", number))
        shapes.add(figure.shape)
        area = float(figure.area) * (math.pi if figure.is_round else 1)
        precision = 1e-4 if figure.is_round else 1e-9  # an arc is drawn as a polygon
        assert math.isclose(_shoelace(figure), area, rel_tol=precision), figure.named
        assert ("π" in figure.answer) == figure.is_round
        if not figure.is_round:
            assert figure.answer == f"{decimal_text(figure.area)} {figure.unit}²"
    assert len(shapes) == 10
    assert {"circle", "semicircle"} <= shapes


def test_every_measure_of_a_figure_is_labelled_inside_the_figure() -> None:
    for number in range(200):
        figure = draw_figure(Chance("labels", number))
        labels = {text for text, _, _ in figure.labels}
        measures = {f"{decimal_text(size)} {figure.unit}" for size in figure.measures.values()}
        assert labels == measures
        xs, ys = zip(*figure.outline, strict=True)
        for _, (x, y), _ in figure.labels:
            assert min(xs) <= x <= max(xs)
            assert min(ys) <= y <= max(ys)
