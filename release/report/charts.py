"""Histograms and thumbnails of a report.

A histogram shows its numbers on hover and focus, and repeats them in a table.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loupe.schemas.decoders import decode_limited, small_jpeg
from loupe.schemas.limited import LimitExceededError

WIDTH, HEIGHT = 420, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 16, 24, 34
_TICKS = 4
_LABELS = 8
_ROUND = (4, 8, 12, 16, 20, 24, 32)


class Column(NamedTuple):
    """A column of a histogram, in the units of the drawing; `title` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    title: str
    range: str
    text: str


class Tick(NamedTuple):
    """A label of an axis."""

    at: float
    text: str


class Histogram(NamedTuple):
    """A histogram of words per caption, drawn on `WIDTH` × `HEIGHT`."""

    title: str
    note: str
    columns: tuple[Column, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    left: float
    right: float
    floor: float


def histogram(
    title: str,
    counts: Sequence[tuple[int, int]],
    step: int,
    *,
    end: int = 0,
    note: str = "",
    size: tuple[float, float, float] = (WIDTH, HEIGHT, _TOP),
) -> Histogram:
    """A histogram of (first value of the bin, count); the axis reaches at least `end`.

    `size` is the width, the height and the space above the columns.
    """
    wide, high, room = size
    last = max([start for start, _ in counts] + [0])
    longest = max(last + step, end)
    top = rounded_up(max([count for _, count in counts] + [1]))
    floor = high - _BOTTOM
    across = (wide - _LEFT - _RIGHT) / longest
    up = (floor - room) / top
    columns = []
    for start, count in counts:
        height = count * up
        value = f"{start:,}–{start + step - 1:,}"
        columns.append(
            Column(
                round(_LEFT + start * across + 0.75, 2),
                round(floor - height, 2),
                round(max(step * across - 1.5, 0.5), 2),
                round(height, 2),
                f"{value} words: {count:,} captions",
                value,
                f"{count:,}",
            )
        )
    every = step * max(1, -(-longest // (_LABELS * step)))
    starts = range(0, longest + 1, every)
    heights = [top * tick // _TICKS for tick in range(_TICKS + 1)]
    return Histogram(
        title,
        note,
        tuple(columns),
        tuple(Tick(round(_LEFT + at * across, 2), f"{at:,}") for at in starts),
        tuple(Tick(round(floor - at * up, 2), f"{at:,}") for at in heights),
        _LEFT,
        wide - _RIGHT,
        floor,
    )


def rounded_up(count: int) -> int:
    """Round `count` up to an end of the axis that four ticks divide evenly."""
    unit = 1
    while True:
        for steps in _ROUND:
            if steps * unit >= count:
                return steps * unit
        unit *= 10


_THUMBNAIL_PX = 200


def thumbnail_path(number: int) -> str:
    """The path of the thumbnail of a row, relative to the report."""
    return f"thumbs/{number}.jpg"


def write_thumbnail(folder: Path, number: int, data: bytes) -> bool:
    """Write the thumbnail of a row; returns False if its image cannot be decoded."""
    try:
        small = decode_limited(small_jpeg, data, _THUMBNAIL_PX)
    except LimitExceededError:
        small = None
    if small is None:
        return False
    path = folder / thumbnail_path(number)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(small)
    return True
