"""The overview of all review queues, and their statistics, as one HTML page without scripts.

Charts are inline SVG in percent of the available width. Every figure in a table is a `<data>`
element with the key of the same figure in `loupe queue stats --json`.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from annotate.agreement import Estimate
from annotate.overview import Overview
from annotate.statistics import (
    AnnotatorStatistics,
    DayOfWork,
    GoldAccuracy,
    ItemCounts,
    QueueStatistics,
)
from schemas.pages import page_environment

_SHOWN_DAYS = 42
_TEMPLATE = "statistics_page.html.j2"


class Bar(NamedTuple):
    """A stacked bar of a day: its position, and its parts from the bottom, all in percent."""

    left: float
    width: float
    parts: tuple[tuple[str, float, float], ...]
    title: str


class Throughput(NamedTuple):
    """Answers by day: bars, the lines of the scale (percent, answers), and days below them."""

    bars: tuple[Bar, ...]
    lines: tuple[tuple[float, int], ...]
    labels: tuple[tuple[float, str], ...]
    kinds: tuple[str, ...]


class Piece(NamedTuple):
    """A part of a whole: its label, its size, and its start and end in percent."""

    name: str
    number: int
    left: float
    width: float


class Whisker(NamedTuple):
    """A figure with its interval on a scale, in percent."""

    value: float
    low: float
    high: float


class Scale(NamedTuple):
    """A scale of figures up to 1: its beginning and its marks (percent, text)."""

    lowest: float
    marks: tuple[tuple[float, str], ...]

    def place(self, figure: float) -> float:
        """Return the position of a figure, in percent from the left."""
        return round(100 * (max(figure, self.lowest) - self.lowest) / (1 - self.lowest), 2)

    def whisker(self, figure: Estimate) -> Whisker | None:
        """Return the figure with its interval, or None if there is none."""
        if figure.value is None:
            return None
        low = figure.value if figure.low is None else figure.low
        high = figure.value if figure.high is None else figure.high
        return Whisker(*map(self.place, (figure.value, low, high)))


def render_page(overview: Overview) -> str:
    """Return the page, with the queues in the given order."""
    environment = page_environment("annotate")
    environment.filters.update(
        number=lambda value: f"{value:,}",
        percent=percent,
        decimal=decimal,
        duration=duration,
        day=lambda value: f"{value.day} {value:%b %Y}",
        moment=lambda value: f"{value.day} {value:%b %Y, %H:%M} UTC",
        key=lambda path: ".".join(map(str, path)),
    )
    return environment.get_template(_TEMPLATE).render(
        overview=overview,
        queues=overview.queues,
        as_percent=percent,
        as_hundredths=lambda value: f"{100 * value:.0f}",
        as_decimal=decimal,
        kind_names=KIND_NAMES,
        shown_name=shown_name,
        throughput=throughput,
        progress=progress,
        verdict_pieces=verdict_pieces,
        scale_of=scale_of,
        gold_line=gold_line,
        days_of=lambda queue: shown_days(queue.work.days, queue.at),
    )


def percent(value: float) -> str:
    """Return a share as a whole number of percent."""
    return f"{100 * value:.0f} %"


def decimal(value: float) -> str:
    """Return a figure with two decimals."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def shown_name(queue: QueueStatistics, annotator: str) -> str:
    """Return the name of an annotator on the page."""
    names = {one.annotator: one.name for one in queue.annotators}
    return names.get(annotator) or annotator


def duration(seconds: float) -> str:
    """Return a duration for people: 48 s, 2 min 5 s, 1 h 20 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    if whole < 3600:
        return f"{round(whole / 60)} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def shown_days(days: Sequence[DayOfWork], until: datetime) -> list[date]:
    """Return the days to show in charts: from the first day of work, at most `_SHOWN_DAYS`."""
    last = max([until.date(), *(day.day for day in days)])
    first = min([last - timedelta(days=6), *(day.day for day in days)])
    count = min(_SHOWN_DAYS, (last - first).days + 1)
    return [last - timedelta(days=back) for back in range(count - 1, -1, -1)]


def throughput(days: Sequence[DayOfWork], until: datetime) -> Throughput:
    """Return the chart of answers by day, the newest at the right."""
    shown = shown_days(days, until)
    by_day = {day.day: day for day in days}
    counts = [
        {kind: n for kind in KIND_NAMES if (n := getattr(by_day.get(day), kind, 0))}
        for day in shown
    ]
    kinds = tuple(kind for kind in KIND_NAMES if any(kind in day for day in counts))
    top, step = nice_scale(max(sum(day.values()) for day in counts))
    wide = 100 / len(shown)
    bars = tuple(
        _bar(day, counts[position], position * wide, wide, top)
        for position, day in enumerate(shown)
    )
    every = max(1, -(-len(shown) // 7))
    labels = tuple(
        (round((position + 0.5) * wide, 2), f"{day.day} {day:%b}")
        for position, day in enumerate(shown)
        if (len(shown) - 1 - position) % every == 0
    )
    lines = tuple((round(100 * value / top, 2), value) for value in range(0, top + 1, step))
    return Throughput(bars, lines, labels, kinds)


KIND_NAMES = {
    "reviews": "first opinions",
    "gold": "gold items",
    "adjudications": "adjudications",
    "audits": "audit samples",
}


def _bar(day: date, counts: Mapping[str, int], left: float, wide: float, top: int) -> Bar:
    parts = []
    below = 0.0
    for kind, count in counts.items():
        height = 100 * count / top
        parts.append((kind, round(100 - below - height, 2), round(height, 2)))
        below += height
    said = ", ".join(f"{count:,} {KIND_NAMES[kind]}" for kind, count in counts.items())
    title = f"{day:%a} {day.day} {day:%b %Y}: {said or 'nothing'}"
    return Bar(round(left + 0.12 * wide, 3), round(0.76 * wide, 3), tuple(parts), title)


def nice_scale(largest: int) -> tuple[int, int]:
    """Return the end of a scale that includes `largest`, and its step, a round number."""
    for power in range(20):
        for digit in (1, 2, 5):
            step = digit * 10**power
            if largest <= 5 * step:
                return max(1, -(-largest // step)) * step, step
    raise ValueError(f"a count must be below 5e20; got {largest!r}")


def progress(items: ItemCounts) -> list[Piece]:
    """Return the states of the items as parts of a bar."""
    names = ("accepted", "edited", "rejected", "conflicting", "answered", "open", "waiting")
    return _pieces({name: getattr(items, name) for name in names})


def verdict_pieces(one: AnnotatorStatistics) -> list[Piece]:
    """Return an annotator's verdicts as parts of a bar."""
    return _pieces({name: found.count for name, found in one.work.verdicts})


def _pieces(counts: Mapping[str, int]) -> list[Piece]:
    total = sum(counts.values()) or 1
    left = 0.0
    pieces = []
    for name, count in counts.items():
        width = 100 * count / total
        pieces.append(Piece(name, count, round(left, 3), round(width, 3)))
        left += width
    return pieces


def scale_of(queue: QueueStatistics) -> Scale:
    """Return a scale for the kappas of a queue: from 0, or lower if a kappa is negative."""
    figures = [main.kappa for one in queue.annotators if (main := one.agreement.main)]
    if choice := queue.agreement.main:
        figures += [choice.cohen, choice.fleiss, choice.krippendorff]
    ends = [end for figure in figures for end in (figure.value, figure.low) if end is not None]
    lowest, step = _scale_from(min(ends, default=0.0))
    scale = Scale(lowest, ())
    marks = [lowest + number * step for number in range(round((1 - lowest) / step) + 1)]
    return scale._replace(marks=tuple((scale.place(mark), _mark(mark)) for mark in marks))


def _scale_from(figure: float) -> tuple[float, float]:
    """Return where a scale begins that includes a figure, and its step; 0 and 1 are marks."""
    starts = ((0.0, 0.2), (-0.2, 0.2), (-0.5, 0.5))
    return next((start for start in starts if figure >= start[0]), (-1.0, 0.5))


def _mark(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}".replace("-", "−")


def gold_line(gold: GoldAccuracy, days: Sequence[date]) -> list[tuple[float, float]]:
    """Return the recent gold accuracy by day: (x, y) in percent, y from the top."""
    place = {day: 100 * (number + 0.5) / len(days) for number, day in enumerate(days)}
    return [
        (round(place[day.day], 2), round(100 - 100 * day.recent, 2))
        for day in gold.days
        if day.day in place
    ]
