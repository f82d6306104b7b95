"""The report on the validation of captions, as one HTML page that needs nothing else."""

import math
from collections.abc import Callable
from pathlib import Path

from flows.discriminability_report import VERDICTS, DiscriminabilityReportData
from flows.pages import flow_pages
from schemas.recos import CaptionVerdict

_TEMPLATE = "discriminability_report.html.j2"
VERDICT_WORDS = {
    CaptionVerdict.OVER_DETAILED: "over-detailed",
    CaptionVerdict.PASS: "pass",
    CaptionVerdict.UNDER_DETAILED: "under-detailed",
}

Thumbnail = Callable[[str], str | None]
"""An image, by its name in the histories, as a small `data:` URI; None where it is not there."""


def render_report(report: DiscriminabilityReportData, thumbnail: Thumbnail) -> str:
    """The report as one HTML page."""
    log_k = math.log(report.settings.k)
    return (
        flow_pages()
        .get_template(_TEMPLATE)
        .render(
            report=report,
            thumbnail=thumbnail,
            verdicts=VERDICTS,
            words=VERDICT_WORDS,
            log_k=log_k,
            ends=[
                (round(100 * end / log_k, 3), end)
                for end in (report.interval.lower, report.interval.upper)
            ],
            marks=[(25 * quarter, log_k * quarter / 4) for quarter in range(5)],
        )
    )


def write_report(report: DiscriminabilityReportData, thumbnail: Thumbnail, path: Path) -> None:
    """Writes the page; what is there is replaced.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_report(report, thumbnail), encoding="utf-8")
