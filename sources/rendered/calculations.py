"""Sums, differences, products, quotients and the like, with their exact results."""

from collections.abc import Callable
from fractions import Fraction

from schemas.base import Record
from sources.demonstration.people import Chance

Part = str | tuple[str, str]
"""A piece of a formula: text, or a fraction's numerator and denominator."""

_NAMES = {"+": "sum", "−": "difference", "×": "product", "÷": "quotient"}
_DOINGS = {
    "+": "{0} and {1} are added",
    "−": "{1} is subtracted from {0}",
    "×": "{0} and {1} are multiplied",
    "÷": "{0} is divided by {1}",
}


class Calculation(Record):
    """A calculation, its exact result, and what can be said of it.

    Attributes:
        kind: which sort it is.
        question: as it is read: `3/4 + 1/8`, `8 + ? = 15`.
        name: what a caption calls it: `the sum 17 + 25`.
        answer: the result: `42`, `7/8`, `3.75`.
        formula: the pieces that are written.
        column: its two numbers and its sign, where they may stand one above the other.
        facts: statements besides what it is and its result.
    """

    kind: str
    question: str
    name: str
    answer: str
    formula: tuple[Part, ...]
    column: tuple[str, str, str] | None = None
    facts: tuple[str, ...]


def draw_calculation(chance: Chance) -> Calculation:
    """A calculation of any kind, drawn from `chance`."""
    return chance.weigh(_KINDS)(chance)


def number_text(value: Fraction) -> str:
    """A number as it is written: whole, as a finite decimal, or as a fraction in lowest terms."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{value.numerator}/{value.denominator}"


def decimal_text(value: Fraction) -> str:
    """A number with a finite decimal expansion, written with a point."""
    places = next(n for n in range(30) if (value * 10**n).denominator == 1)
    if places == 0:
        return str(value.numerator)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return ("-" if value < 0 else "") + digits[:-places] + "." + digits[-places:]


def apply(sign: str, left: Fraction, right: Fraction) -> Fraction:
    """What `left` and `right` give under one of + − × ÷."""
    if sign == "+":
        return left + right
    if sign == "−":
        return left - right
    return left * right if sign == "×" else left / right


def _whole(chance: Chance) -> Calculation:
    sign = chance.pick("+−×÷")
    if sign == "÷":
        right, answer = chance.whole(2, 19), chance.whole(2, 48)
        left = right * answer
    else:
        digits = chance.weigh({(2, 99): 2, (100, 999): 1}) if sign != "×" else (2, 39)
        left, right = chance.whole(*digits), chance.whole(*digits)
        if sign == "−":
            left, right = max(left, right), min(left, right)
    return _two("whole numbers", sign, (Fraction(left), Fraction(right)), number_text)


def _decimals(chance: Chance) -> Calculation:
    sign = chance.pick("+−")
    per_one = chance.pick((10, 100))
    numbers = [
        Fraction(10 * chance.whole(1, 6 * per_one) + chance.whole(1, 9), per_one) for _ in range(2)
    ]
    left, right = max(numbers), min(numbers)
    return _two("decimal numbers", sign, (left, right), decimal_text)


def _fractions(chance: Chance) -> Calculation:
    sign = chance.pick("+−×÷")
    numbers = [_proper(chance), _proper(chance)]
    if sign == "−":
        numbers.sort(reverse=True)
    return _two("fractions", sign, (numbers[0], numbers[1]), number_text)


def _proper(chance: Chance) -> Fraction:
    """A fraction between 0 and 1 that is in its lowest terms as it stands."""
    while True:
        below = chance.whole(2, 12)
        above = chance.whole(1, below - 1)
        if Fraction(above, below).denominator == below:
            return Fraction(above, below)


def _two(
    kind: str, sign: str, numbers: tuple[Fraction, Fraction], text: Callable[[Fraction], str]
) -> Calculation:
    left, right = (text(number) for number in numbers)
    question = f"{left} {sign} {right}"
    answer = text(apply(sign, *numbers))
    is_column = kind != "fractions" and sign != "÷"
    return Calculation(
        kind=kind,
        question=question,
        name=f"the {_NAMES[sign]} {question}",
        answer=answer,
        formula=(_part(left), f" {sign} ", _part(right)),
        column=(left, right, sign) if is_column else None,
        facts=(_DOINGS[sign].format(left, right), f"the first number is {left}"),
    )


def _part(number: str) -> Part:
    above, bar, below = number.partition("/")
    return (above, below) if bar else number


def _three(chance: Chance) -> Calculation:
    first, second, third = (chance.whole(2, 30) for _ in range(3))
    if chance.happens(0.4):
        sign = chance.pick("+−") if first + second > third else "+"
        question = f"{first} + {second} {sign} {third}"
        value = apply(sign, Fraction(first + second), Fraction(third))
        facts = ("three numbers are combined", f"the last number is {third}")
    else:
        third = chance.whole(2, 12)
        question = f"{first} + {second} × {third}"
        value = Fraction(first + second * third)
        facts = (
            f"{second} is multiplied by {third} before {first} is added",
            "no brackets are used",
        )
    return _chain("three numbers", question, value, facts)


def _brackets(chance: Chance) -> Calculation:
    first, second, factor = chance.whole(3, 40), chance.whole(2, 30), chance.whole(2, 12)
    sign = "−" if first > second and chance.happens(0.5) else "+"
    inner = apply(sign, Fraction(first), Fraction(second))
    question = f"({first} {sign} {second}) × {factor}"
    facts = (
        f"the bracket ({first} {sign} {second}) is multiplied by {factor}",
        "a pair of brackets is used",
    )
    return _chain("brackets", question, inner * factor, facts)


def _chain(kind: str, question: str, value: Fraction, facts: tuple[str, ...]) -> Calculation:
    return Calculation(
        kind=kind,
        question=question,
        name=f"the calculation {question}",
        answer=number_text(value),
        formula=(question,),
        facts=facts,
    )


def _missing(chance: Chance) -> Calculation:
    answer, known = chance.whole(2, 60), chance.whole(2, 60)
    sign = chance.pick("+×−")
    if sign == "×":
        answer, known = chance.whole(2, 19), chance.whole(2, 15)
    result = number_text(apply(sign, Fraction(max(answer, known)), Fraction(min(answer, known))))
    if sign == "−":
        answer, known = min(answer, known), max(answer, known)
    question = f"{known} {sign} ? = {result}"
    return Calculation(
        kind="missing number",
        question=question,
        name=f"the equation {question}",
        answer=str(answer),
        formula=(question,),
        facts=("a question mark stands for the missing number", f"the right side is {result}"),
    )


def _percentage(chance: Chance) -> Calculation:
    share, whole = 5 * chance.whole(1, 19), 20 * chance.whole(2, 60)
    question = f"{share}% of {whole}"
    return Calculation(
        kind="percentage",
        question=question,
        name=f"the task {question}",
        answer=decimal_text(Fraction(share * whole, 100)),
        formula=(question,),
        facts=(f"a percentage of {whole} is asked for", f"the percentage is {share}%"),
    )


_KINDS: dict[Callable[[Chance], Calculation], float] = {
    _whole: 5,
    _fractions: 4,
    _decimals: 2,
    _three: 2,
    _brackets: 2,
    _missing: 2,
    _percentage: 1,
}
