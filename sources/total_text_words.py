"""The words of one ground-truth file of Total-Text: numpy's arrays as Python prints them."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sources.fields import Field, FieldError, checked_caption
from sources.records import ReadOptions, shown

ILLEGIBLE = "#"
"""Stands for writing that cannot be read, or that nobody cares for."""

_START = re.compile(r"^[ \t]*x:", re.MULTILINE)
_NUMBERS = r"(?:array\()?\[\[?(?P<{0}>[-+\d.,eE\s]*)\]?\](?:,?\s*dtype=\w+)?\)?"
_LITERAL = r"""[uU]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_RECORD = re.compile(
    rf"x:\s*{_NUMBERS.format('x')}\s*,\s*y:\s*{_NUMBERS.format('y')}\s*,"
    rf"\s*ornt:\s*\[\s*(?:{_LITERAL})?\s*\]\s*,"
    rf"\s*transcriptions:\s*\[\s*(?P<text>{_LITERAL})?\s*\]",
    re.DOTALL,
)


class Word(NamedTuple):
    """A word as it is written on a picture, and the area of the polygon around it in pixels²."""

    text: str
    area_px: float


def has_records(text: str) -> bool:
    """Whether a text holds the beginning of a record at all."""
    return _START.search(text) is not None


def words_of(text: str, options: ReadOptions) -> Iterator[Word | FieldError]:
    """What each record of a file's text says, in order; what is illegible gives nothing.

    A record begins with `x:` at the start of a line; numpy breaks long arrays, so that it may go on
    for lines.
    """
    starts = [found.start() for found in _START.finditer(text)]
    ends = [*starts, len(text)]
    if text[: ends[0]].strip():
        yield FieldError("", "malformed_record", f"it begins with no record: got {shown(text)}")
    for place, (start, end) in enumerate(pairwise(ends)):
        try:
            word = _word(f"words[{place}]", text[start:end].strip(), options)
        except FieldError as fault:
            yield fault
        else:
            if word is not None:
                yield word


def _word(at: str, record: str, options: ReadOptions) -> Word | None:
    found = _RECORD.fullmatch(record)
    if found is None:
        detail = f"{at} is no record: got {shown(record)}, wanted x, y, ornt and transcriptions"
        raise FieldError(at, "malformed_record", detail)
    text = _literal(at, found["text"]) if found["text"] else ILLEGIBLE
    if text.strip("#") == "" or not any(map(str.isalnum, text)):
        return None
    area = _area(at, _numbers(at, found["x"]), _numbers(at, found["y"]))
    return Word(checked_caption(Field(at, text), options), area)


def _literal(at: str, literal: str) -> str:
    try:
        value = ast.literal_eval(literal)
    except (ValueError, SyntaxError) as fault:
        detail = f"{at} has a transcription that is no Python text: got {shown(literal)}"
        raise FieldError(at, "malformed_record", detail) from fault
    return str(value)


def _numbers(at: str, text: str) -> list[float]:
    try:
        return [float(number) for number in text.replace(",", " ").split()]
    except ValueError as fault:
        detail = f"{at} has a coordinate that is no number: {fault}"
        raise FieldError(at, "malformed_record", detail) from fault


def _area(at: str, xs: list[float], ys: list[float]) -> float:
    """The area of a polygon, by the shoelace formula."""
    if len(xs) != len(ys):
        detail = f"{at} has {len(xs)} x and {len(ys)} y coordinates, wanted as many of both"
        raise FieldError(at, "malformed_record", detail)
    corners = list(zip(xs, ys, strict=True))
    turned = corners[1:] + corners[:1]
    return abs(sum(x * v - u * y for (x, y), (u, v) in zip(corners, turned, strict=True))) / 2
