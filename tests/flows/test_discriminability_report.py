"""The report on caption validation: its figures, and its page in a browser."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from loupe.flows.engine.pages import BINS, shrunk_uri, write_report_page
from loupe.flows.recos.validation_loop import (
    EXAMPLES,
    CaptionHistory,
    Draft,
    ValidationReport,
    render_report,
    run_validation,
)
from loupe.schemas.records import Rejection
from loupe.schemas.recos import CaptionVerdict, DiscriminabilitySettings
from loupe.schemas.taxonomy import RetrievalTask
from tests.chromium import all_pictures_show

SETTINGS = DiscriminabilitySettings(k=10, eta=0.6, rounds=3)
NASTY = "A <b>bold</b> & 'quoted' \"sign\" " + "long" * 30
PASS, OVER, UNDER = CaptionVerdict


class Model:
    """Model whose dis(t) is the number at the end of a text; a revision is nearer to 1.15."""

    def __init__(self) -> None:
        self.random = Random(4)
        self.dis: dict[str, float] = {}

    def measure(self, drafts: Sequence[Draft]) -> list[float]:
        for draft in drafts:
            middle = float(draft.text.rsplit(" ", 1)[1])
            self.dis[draft.text] = min(max(middle, 0.0), math.log(10))
        return [self.dis[draft.text] for draft in drafts]

    def rewrite(self, failing: Sequence[CaptionHistory]) -> list[str | Rejection]:
        return [self.one(history) for history in failing]

    def one(self, history: CaptionHistory) -> str | Rejection:
        if self.random.random() < 0.08:
            detail = "The answer holds no text."
            return Rejection(stage="revise_caption", reason="empty", detail=detail)
        dis = history.current.dis
        nearer = dis + self.random.uniform(0.2, 0.6) * (1.15 - dis)
        return f"{history.key}, regenerated {nearer:.4f}"


def validated_histories(images: int = 120) -> tuple[CaptionHistory, ...]:
    random, tasks = Random(7), list(RetrievalTask)
    drafts = [
        Draft(
            f"{image}-{place}",
            f"image {image}",
            tasks[image % 12],
            f"{NASTY if not (image or place) else f'Caption {image}-{place}'} "
            f"{-1.0 if not (image or place) else random.gauss(1.3, 0.7):.4f}",
        )
        for image in range(images)
        for place in range(5)
    ]
    model = Model()
    return run_validation(drafts, model.measure, model.rewrite, SETTINGS, 0.012)


@pytest.fixture(scope="module")
def report() -> ValidationReport:
    return ValidationReport("made-up <stills>", validated_histories(), SETTINGS, 0.012, "words@1")


def thumbnail(name: str) -> str | None:
    """Return a picture of an image, or None for every eleventh."""
    number = int(name.split()[1])
    if number % 11 == 10:
        return None
    file = io.BytesIO()
    Image.new("RGB", (320, 240), (number * 2 % 256, 90, 160)).save(file, "PNG")
    return shrunk_uri(file.getvalue(), 150)


def test_every_caption_is_counted_in_the_histogram_of_every_round(
    report: ValidationReport,
) -> None:
    assert len(report.rounds) == 4
    histograms, _ = report.bars
    for one, bars in zip(report.rounds, histograms, strict=True):
        counted = sum(int(bar.title.split()[0]) for bar in bars)
        assert counted == len(one.attempts) == 600
        assert 0 < len(bars) <= BINS
        for bar in bars:
            assert sum(height for _, _, height in bar.parts) <= 100.1
            assert min(top for _, top, _ in bar.parts) >= -0.1
    tops = [min(top for _, top, _ in bar.parts) for bars in histograms for bar in bars]
    assert min(tops) == pytest.approx(0, abs=0.05)


def test_a_report_without_captions_is_rendered() -> None:
    empty = ValidationReport("nothing", [], SETTINGS, 1.0, "words@1")
    assert "<b>0</b> captions" in render_report(empty, thumbnail)


def test_the_page_marks_images_that_are_not_stored(report: ValidationReport) -> None:
    page = render_report(report, lambda name: None)
    assert "<img" not in page
    assert page.count("not stored") == 2 * EXAMPLES
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>bold</b>" not in page
    assert "made-up &lt;stills&gt;" in page
    firsts = [one.attempts[0].dis for one in report.by_first_dis]
    assert firsts == sorted(firsts)
    lowest, highest = report.by_first_dis[0], report.by_first_dis[-1]
    detailed, general = page.index("The most detailed"), page.index("The most general")
    assert "regenerated" in page
    assert detailed < page.index(lowest.attempts[-1].text) < general
    assert general < page.index(highest.attempts[-1].text)
    rewritten = sum(one.written for one in report.rounds[1:])
    assert f"<b>{rewritten}</b> texts rewritten" in page


@pytest.mark.browser
def test_the_page_shows_all_rounds_and_examples_in_a_browser(
    report: ValidationReport, browser: Any, tmp_path: Path
) -> None:
    path = write_report_page(tmp_path, "captions.html", render_report(report, thumbnail))
    page = browser.new_page(viewport={"width": 1360, "height": 900})
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(path.as_uri())
    assert page.locator("figure.round").count() == len(report.rounds)
    assert page.locator("article.example").count() == 2 * EXAMPLES
    assert page.locator("article.example img").count() >= EXAMPLES
    for width in (1360, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert all_pictures_show(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        first = page.locator(".plot").first
        plot = first.bounding_box()
        ends = [line.bounding_box() for line in first.locator("line.end").all()]
        assert len(ends) == 2
        for end, value in zip(ends, report.interval, strict=True):
            place = (end["x"] + end["width"] / 2 - plot["x"]) / plot["width"]
            assert place == pytest.approx(value / math.log(10), abs=0.01), width
    assert messages == []
    assert [url for url in requested if not url.startswith("data:")] == [path.as_uri()]
    page.close()
