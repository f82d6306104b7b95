"""Report the effect of the validation loop on captions, as data and as a page."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flows.engine.pages import flow_pages, stacked
from flows.recos.validation_loop import (
    CaptionHistory,
    RoundSummary,
    Step,
    TaskSummary,
    summary_by_round,
    summary_by_task,
)
from schemas.evaluation import AcceptedInterval
from schemas.recos import CaptionVerdict, DiscriminabilitySettings

# The results of the validation loop as data: dis(t) by round, shares by task, examples.

BINS = 48
EXAMPLES = 6
"""The number of captions shown at each end."""
VERDICTS = (CaptionVerdict.OVER_DETAILED, CaptionVerdict.PASS, CaptionVerdict.UNDER_DETAILED)


class DisBar(NamedTuple):
    """A bar of a histogram, in percent of the plot.

    `parts` are (verdict, top, height) from the bottom; `title` describes the bar.
    """

    left: float
    width: float
    parts: tuple[tuple[CaptionVerdict, float, float], ...]
    title: str


class RoundHistogram(NamedTuple):
    """The histogram of dis(t) after a round, from 0 to log k, with the same scale in all rounds."""

    summary: RoundSummary
    bars: tuple[DisBar, ...]


class DiscriminabilityReportData(NamedTuple):
    """The figures of a validation.

    Attributes:
        dataset: the dataset of the captions.
        settings: when a caption passes.
        temperature: the temperature of similarities.
        calibrated: whether the temperature was calibrated on these captions.
        embedder: the embedder, as `name@revision`.
        interval: the values of dis(t) that pass.
        rounds: a histogram for each round, starting with the original captions.
        highest: number of captions of the highest bar.
        tasks: shares by task.
        most_detailed: captions whose first text had the lowest dis(t), lowest first.
        most_general: captions whose first text had the highest dis(t), highest first.
        for_people: number of captions left to people.
    """

    dataset: str
    settings: DiscriminabilitySettings
    temperature: float
    calibrated: bool
    embedder: str
    interval: AcceptedInterval
    rounds: tuple[RoundHistogram, ...]
    highest: int
    tasks: tuple[TaskSummary, ...]
    most_detailed: tuple[CaptionHistory, ...]
    most_general: tuple[CaptionHistory, ...]
    for_people: int

    @property
    def captions(self) -> int:
        """Number of captions."""
        return len(self.rounds[0].summary.attempts) if self.rounds else 0

    @property
    def written_anew(self) -> int:
        """Number of rewritten texts."""
        return sum(one.summary.written for one in self.rounds[1:])


def report_on(
    dataset: str,
    histories: Sequence[CaptionHistory],
    settings: DiscriminabilitySettings,
    temperature: float,
    embedder: str,
) -> DiscriminabilityReportData:
    """Return the report on a validation.

    Args:
        dataset: the dataset of the captions.
        histories: everything that was tried.
        settings: when a caption passes; without a temperature if it was calibrated.
        temperature: the temperature of similarities.
        embedder: the embedder, as `name@revision`.
    """
    interval = AcceptedInterval.of(settings.k, settings.eta)
    summaries = summary_by_round(histories)
    counts = [_counts(summary, settings.k) for summary in summaries]
    highest = max((int(count.sum(axis=0).max()) for count in counts), default=0)
    by_dis = sorted(histories, key=lambda one: (one.attempts[0].dis, one.key))
    return DiscriminabilityReportData(
        dataset,
        settings,
        temperature,
        settings.temperature is None,
        embedder,
        interval,
        tuple(
            RoundHistogram(summary, tuple(_bars(count, highest, settings.k)))
            for summary, count in zip(summaries, counts, strict=True)
        ),
        highest,
        tuple(summary_by_task(histories, settings)),
        tuple(by_dis[:EXAMPLES]),
        tuple(by_dis[::-1][:EXAMPLES]),
        sum(one.next_step(settings) is Step.ASK_PEOPLE for one in histories),
    )


def _counts(summary: RoundSummary, k: int) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Return how many captions of each verdict are in each bin, of shape (verdicts, bins)."""
    counts = np.zeros((len(VERDICTS), BINS), dtype=np.int64)
    for attempt in summary.attempts:
        place = min(BINS - 1, int(attempt.dis / np.log(k) * BINS))
        counts[VERDICTS.index(attempt.verdict), place] += 1
    return counts


def _bars(
    counts: "np.ndarray[tuple[int, int], np.dtype[np.int64]]", highest: int, k: int
) -> list[DisBar]:
    bars, width = [], 100 / BINS
    for place in np.flatnonzero(counts.sum(axis=0)).tolist():
        parts = tuple(
            (VERDICTS[one], top, height) for one, top, height in stacked(counts[:, place], highest)
        )
        low, high = (float(edge * np.log(k) / BINS) for edge in (place, place + 1))
        title = f"{int(counts[:, place].sum()):,} from {low:.3f} to {high:.3f}"
        bars.append(DisBar(round(place * width, 3), round(0.92 * width, 3), parts, title))
    return bars


# The report on the validation of captions, as one self-contained HTML page.

Thumbnail = Callable[[str], str | None]
"""Returns an image as a small `data:` URI by its name in the histories, or None if missing."""


def render_report(report: DiscriminabilityReportData, thumbnail: Thumbnail) -> str:
    """Render the report as one HTML page."""
    log_k = math.log(report.settings.k)
    template = flow_pages().get_template("discriminability_report.html.j2")
    return template.render(
        report=report,
        thumbnail=thumbnail,
        verdicts=VERDICTS,
        words={verdict: verdict.value.replace("_", "-") for verdict in VERDICTS},
        log_k=log_k,
        ends=[(round(100 * end / log_k, 3), end) for end in report.interval],
        marks=[(25 * quarter, log_k * quarter / 4) for quarter in range(5)],
    )


def write_report(report: DiscriminabilityReportData, thumbnail: Thumbnail, path: Path) -> None:
    """Write the page, replacing an existing one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_report(report, thumbnail), encoding="utf-8")
