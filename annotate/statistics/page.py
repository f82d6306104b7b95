"""The overview of all review queues, and their statistics, as one HTML page without scripts.

Charts are drawn with CSS and inline SVG, in percent of the available width. Every figure in a table
is a `<data>` element with the key of the same figure in `loupe queue stats --json`.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import count
from typing import Any, NamedTuple

from loupe.annotate.statistics.overview import Overview
from loupe.annotate.statistics.queue import DayOfWork, QueueStatistics
from loupe.schemas.pages import page_environment

_SHOWN_DAYS = 42
_TEMPLATE = "statistics_page.html.j2"


class Throughput(NamedTuple):
    """Answers by day, with the end and the step of their scale."""

    days: tuple[DayOfWork, ...]
    top: int
    step: int


class Scale(NamedTuple):
    """A scale of figures up to 1: its beginning and its step."""

    lowest: float
    step: float

    def place(self, figure: float) -> float:
        """Return the position of a figure, in percent from the left."""
        return round(100 * (max(figure, self.lowest) - self.lowest) / (1 - self.lowest), 2)

    @property
    def marks(self) -> list[tuple[float, str]]:
        """The position of each mark, in percent, and its text."""
        last = round((1 - self.lowest) / self.step)
        marks = [self.lowest + number * self.step for number in range(last + 1)]
        return [(self.place(mark), decimal(mark, 1)) for mark in marks]


def render_page(overview: Overview) -> str:
    """Return the page, with the queues in the given order."""
    template = page_templates().get_template(_TEMPLATE)
    return str(template.render(overview=overview, queues=overview.queues, live=None))


def page_templates() -> Any:
    """Return the templates with what pages of statistics use."""
    environment = page_environment("loupe.annotate")
    environment.filters.update(
        number=lambda value: f"{value:,}",
        percent=percent,
        decimal=decimal,
        duration=duration,
        day=lambda value: f"{value.day} {value:%b %Y}",
        moment=lambda value: f"{value.day} {value:%b %Y, %H:%M} UTC",
        key=lambda path: ".".join(map(str, path)),
    )
    environment.globals.update(
        as_percent=percent,
        as_hundredths=lambda value: f"{100 * value:.0f}",
        as_decimal=decimal,
        kind_names=KIND_NAMES,
        shown_name=shown_name,
        throughput=throughput,
        scale_of=scale_of,
        days_of=lambda queue: shown_days(queue.work.days, queue.at),
    )
    return environment


def percent(value: float) -> str:
    """Return a share as a whole number of percent."""
    return f"{100 * value:.0f} %"


def decimal(value: float, places: int = 2) -> str:
    """Return a figure with so many decimals."""
    return f"{round(value, places) + 0.0:.{places}f}".replace("-", "−")


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
    length = min(_SHOWN_DAYS, (last - first).days + 1)
    return [last - timedelta(days=back) for back in range(length - 1, -1, -1)]


def throughput(days: Sequence[DayOfWork], until: datetime) -> Throughput:
    """Return the chart of answers by day, the newest last."""
    by_day = {day.day: day for day in days}
    shown = tuple(by_day.get(day) or DayOfWork(day=day) for day in shown_days(days, until))
    return Throughput(shown, *nice_scale(max(day.answers for day in shown)))


KIND_NAMES = {
    "reviews": "first opinions",
    "gold": "gold items",
    "adjudications": "adjudications",
    "audits": "audit samples",
}


def nice_scale(largest: int) -> tuple[int, int]:
    """Return the end of a scale that includes `largest`, and its step, a round number."""
    steps = (digit * 10**power for power in count() for digit in (1, 2, 5))
    step = next(step for step in steps if largest <= 5 * step)
    return max(1, -(-largest // step)) * step, step


def scale_of(queue: QueueStatistics) -> Scale:
    """Return a scale for the kappas of a queue: from 0, or lower if a kappa is negative."""
    figures = [main.cohen for one in queue.annotators if (main := one.agreement.main)]
    if choice := queue.agreement.main:
        figures += [choice.cohen, choice.fleiss, choice.krippendorff]
    ends = [end for figure in figures for end in (figure.value, figure.low) if end is not None]
    starts = ((0.0, 0.2), (-0.2, 0.2), (-0.5, 0.5))  # so that 0 and 1 are marks
    least = min(ends, default=0.0)
    return Scale(*next((start for start in starts if least >= start[0]), (-1.0, 0.5)))
