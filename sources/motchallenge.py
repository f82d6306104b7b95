"""MOTChallenge text files: boxes of people by frame, as detections, ground truth or results.

A line is `frame, id, left, top, width, height, conf` and further fields (which are ignored),
separated by commas, spaces or both. Frames count from 1 and may come in any order. An id of -1
means no known person. A `conf` that is missing or -1 is unknown, and taken as 1; in ground truth it
is a flag: 1, or 0 for boxes to be ignored. Detectors with scores of their own (DPM and ACF, as in
MOTChallenge's public detections, or percent) write them as `conf`: they are kept as they are.
"""

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.schemas.errors import FormatError, UsageError
from loupe.schemas.text_files import open_text
from loupe.sources.records import shown

_SEPARATOR = re.compile(r"[\s,]+")
_COLUMNS = ("frame", "id", "left", "top", "width", "height", "conf")
_LEAST_COLUMNS = 6
_MOST_FRAMES = 2**53  # larger integers are not distinct as floats
_MOST_PX = 1e6
_NOT_KNOWN = -1.0
_GREATEST_ROUNDED = 1.01  # of shares of which the greatest are rounded up


class BadLine(NamedTuple):
    """A line that was left out, and the reason as a sentence."""

    number: int
    detail: str


class Boxes(NamedTuple):
    """Boxes in the order of their frames, and within a frame in that of the file.

    Attributes:
        frames: (n,) int64, from 1.
        numbers: (n,) int64, the id column.
        boxes_tlwh: (n, 4) float64: left, top, width, height.
        scores: (n,) float64: in [0, 1], or on a scale of the detector's own.
    """

    frames: NDArray[np.int64]
    numbers: NDArray[np.int64]
    boxes_tlwh: NDArray[np.float64]
    scores: NDArray[np.float64]

    @property
    def are_shares(self) -> bool:
        """Whether all scores are in [0, 1]."""
        return bool(((self.scores >= 0) & (self.scores <= 1)).all())

    def by_frame(self) -> Iterator[tuple[int, "Boxes"]]:
        """Yield each frame with boxes, in increasing order, and its boxes."""
        frames, starts = np.unique(self.frames, return_index=True)
        ends = pairwise([*starts.tolist(), len(self.frames)])
        for frame, (start, end) in zip(frames.tolist(), ends, strict=True):
            yield frame, Boxes._make(column[start:end] for column in self)


class Result(NamedTuple):
    """A person in a frame, as it is written."""

    frame: int
    number: int
    box_xyxy: NDArray[np.float64]
    score: float


def read_boxes(path: Path) -> tuple[Boxes, list[BadLine]]:
    """Return the boxes of a MOTChallenge file, and the lines that were left out.

    A line that repeats an earlier one (frame, id, box) is left out. An empty file has no boxes.

    Raises:
        FormatError: the file cannot be read, none of its lines is of this format, or its boxes are
            shares of the image instead of pixels.
    """
    rows: list[tuple[float, ...]] = []
    bad: list[BadLine] = []
    first_said: dict[tuple[float, ...], int] = {}
    for number, text in _lines(path):
        try:
            row = _parsed(text)
            if (first := first_said.setdefault(row[:_LEAST_COLUMNS], number)) != number:
                raise _BadTextError(f"it repeats line {first:,}")  # noqa: TRY301
        except _BadTextError as fault:
            bad.append(BadLine(number, f"{path.name}, line {number:,}: {fault}"))
        else:
            rows.append(row)
    if bad and not rows:
        raise FormatError(f"{path} is not a MOTChallenge file; {bad[0].detail}")
    boxes = _boxes(rows)
    if rows and (boxes.boxes_tlwh <= 1).all():
        raise FormatError(
            f"the boxes of {path} are shares of the image (no side is above 1); they must be "
            f"pixels: multiply left and width by the width of the frames, top and height by theirs"
        )
    return boxes, bad


def write_results(path: Path, results: Iterable[Result]) -> None:
    """Write tracked people as a MOTChallenge result file, atomically.

    Raises:
        UsageError: the file cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("w", encoding="ascii", newline="\n") as file:
            file.writelines(map(_line, results))
        unfinished.replace(path)
    except OSError as fault:
        raise UsageError(f"{path} cannot be written: {fault.strerror}") from fault
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _line(result: Result) -> str:
    left, top, right, bottom = result.box_xyxy.tolist()
    box = f"{left:.3f},{top:.3f},{right - left:.3f},{bottom - top:.3f}"
    return f"{result.frame},{result.number},{box},{result.score:.4f},-1,-1,-1\n"


class _BadTextError(Exception):
    """A line cannot be used; becomes a `BadLine`."""


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the non-blank lines, with their numbers from 1."""
    with open_text(path, "a MOTChallenge file", may_be_empty=True) as file:
        for number, data in enumerate(file, start=1):
            if stripped := data.decode("utf-8", "surrogateescape").strip():
                yield number, stripped


def _parsed(text: str) -> tuple[float, ...]:
    """Return frame, id, left, top, width, height and score of a line."""
    fields = _SEPARATOR.split(text.rstrip(","))[: len(_COLUMNS)]
    if len(fields) < _LEAST_COLUMNS:
        raise _BadTextError(f"wanted at least {_LEAST_COLUMNS} columns, got {shown(text)}")
    values = [_number(name, field) for name, field in zip(_COLUMNS, fields, strict=False)]
    frame, number, left, top, width, height = values[:_LEAST_COLUMNS]
    _want(frame.is_integer() and 1 <= frame < _MOST_FRAMES, "frame", frame, "a number from 1")
    _want(number.is_integer() and abs(number) < _MOST_FRAMES, "id", number, "a whole number")
    for name, value in (("left", left), ("top", top)):
        _want(abs(value) <= _MOST_PX, name, value, f"pixels, {_MOST_PX:,.0f} at most")
    for name, value in (("width", width), ("height", height)):
        _want(0 < value <= _MOST_PX, name, value, f"pixels above 0, {_MOST_PX:,.0f} at most")
    score = values[_LEAST_COLUMNS] if len(values) > _LEAST_COLUMNS else _NOT_KNOWN
    return (frame, number, left, top, width, height, score)


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _BadTextError(f"{name} must be a number, got {shown(text)}") from None
    if not math.isfinite(value):
        raise _BadTextError(f"{name} must be a finite number, got {shown(text)}")
    return value


def _want(holds: bool, name: str, value: float, wanted: str) -> None:
    if not holds:
        raise _BadTextError(f"{name} must be {wanted}, got {value:g}")


def _boxes(rows: list[tuple[float, ...]]) -> Boxes:
    table: NDArray[Any] = np.array(rows, np.float64).reshape(-1, len(_COLUMNS))
    table = table[np.argsort(table[:, 0], kind="stable")]
    whole = table[:, :2].astype(np.int64)
    return Boxes(whole[:, 0], whole[:, 1], table[:, 2:6], _known(table[:, 6]))


def _known(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores with the best one, at least 1, where -1 says that none is known.

    Among other scores below 0, -1 is one of them. Shares a little above 1 are rounded.
    """
    if scores.max(initial=0) <= _GREATEST_ROUNDED:
        scores = np.minimum(scores, 1)
    unknown = scores == _NOT_KNOWN
    if (scores[~unknown] < 0).any():
        return scores
    return np.where(unknown, scores.max(initial=1), scores)
