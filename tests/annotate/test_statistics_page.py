"""The statistics page in a real Chromium: nothing overlaps, and figures equal the JSON output."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from loupe.annotate.answers import Verdict
from loupe.annotate.statistics.overview import Overview, overview
from loupe.annotate.statistics.page import duration, nice_scale, render_page, scale_of, shown_days
from loupe.db.store import Store
from tests.annotate.review_history import (
    CAREFUL,
    START,
    STEADY,
    History,
    captions_queue,
    weeks_of_work,
)

DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}

TEXT_BOXES = """
() => {
  const boxes = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const node = walker.currentNode
    if (!node.textContent.trim() || !node.parentElement.checkVisibility()) continue
    if (node.parentElement.closest('style, svg, th')) continue
    const range = document.createRange()
    range.selectNodeContents(node)
    for (const box of range.getClientRects())
      boxes.push([node.textContent.trim(), box.left, box.top, box.right, box.bottom])
  }
  return boxes
}
"""


@pytest.fixture
def shown(sqlite_store: Store) -> Overview:
    """A queue with weeks of work and one without any."""
    busy, idle = captions_queue(), captions_queue("people")
    return overview(sqlite_store, [busy, idle], weeks_of_work(sqlite_store, busy))


@pytest.mark.browser
def test_the_page_opens_and_nothing_overlaps(
    shown: Overview, browser: Any, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    path = tmp_path / "page.html"
    path.write_text(render_page(shown), encoding="utf-8")
    for size, scheme in product((DESK, PHONE), ("light", "dark")):
        with subtests.test(size=size, scheme=scheme):
            assert_nothing_overlaps(browser, path, size, scheme)


def assert_nothing_overlaps(browser: Any, path: Path, size: Any, scheme: str) -> None:
    page = browser.new_page(viewport=size, color_scheme=scheme)
    console: list[str] = []
    requested: list[str] = []
    page.on("console", lambda message: console.append(message.text))
    page.on("pageerror", lambda error: console.append(str(error)))
    page.on("request", lambda request: requested.append(request.url))
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    assert overlaps(page.evaluate(TEXT_BOXES)) == []
    for summary in page.query_selector_all("summary"):
        if summary.is_visible():
            summary.click()
    assert page.evaluate("[...document.querySelectorAll('details')].every(one => one.open)")
    assert console == []
    assert [url for url in requested if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    assert overlaps(page.evaluate(TEXT_BOXES)) == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background)[:3]))
    assert (brightness < 200) == (scheme == "dark")


def overlaps(boxes: list[Any]) -> list[tuple[str, str]]:
    """Return pairs of texts that share more than an edge."""
    return [
        (one[0], other[0])
        for number, one in enumerate(boxes)
        for other in boxes[number + 1 :]
        if min(one[3], other[3]) - max(one[1], other[1]) > 1
        and min(one[4], other[4]) - max(one[2], other[2]) > 3
    ]


@pytest.mark.browser
def test_the_figures_of_the_tables_equal_those_of_json(
    shown: Overview, browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(render_page(shown), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    figures = page.evaluate(
        "[...document.querySelectorAll('data')].map(one => [one.dataset.figure, one.value])"
    )
    as_json = shown.model_dump(mode="json")
    for place, value in figures:
        expected = value_at(as_json, place)
        assert value == ("" if expected is None else str(expected)), place
    places = {place for place, _ in figures}
    for number, one in enumerate(shown.queues[0].annotators):
        wanted = {"work.answers", "gold.value", "work.lead_time.median_seconds"}
        own = f"queues.0.annotators.{number}"
        assert {f"{own}.{figure}" for figure in wanted} <= places, one.annotator
    assert {
        "queues.0.forecast.answers_needed",
        "queues.0.forecast.earliest",
        "queues.0.agreement.choices.0.krippendorff.value",
        "queues.0.agreement.choices.0.fleiss.low",
        "queues.0.annotators.2.agreement.choices.0.cohen.value",
        "queues.0.annotators.2.work.verdicts.rejected.high",
        "queues.0.returns.0.accuracy",
        "queues.1.items.waiting",
    } <= places


def value_at(document: Any, place: str) -> Any:
    for key in place.split("."):
        document = document[int(key) if isinstance(document, list) else key]
    return document


def test_names_are_on_the_page_only_on_request(sqlite_store: Store) -> None:
    queue = captions_queue()
    now = weeks_of_work(sqlite_store, queue, items=30)
    without = render_page(overview(sqlite_store, [queue], now))
    assert CAREFUL.name not in without
    assert CAREFUL.pseudonym in without
    assert CAREFUL.name in render_page(overview(sqlite_store, [queue], now, names=True))


def test_names_of_queues_are_escaped(sqlite_store: Store) -> None:
    queue = captions_queue("<script>alert(1)</script>")
    page = render_page(overview(sqlite_store, [queue], START))
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_page_without_queues_says_so(sqlite_store: Store) -> None:
    assert "There is nothing to review yet." in render_page(overview(sqlite_store, [], START))


def test_durations_are_rounded_for_reading() -> None:
    found = [duration(seconds) for seconds in (0.4, 59.4, 60, 125, 754, 3600, 4830)]
    assert found == ["0 s", "59 s", "1 min", "2 min 5 s", "13 min", "1 h 0 min", "1 h 20 min"]


def test_a_scale_ends_in_a_round_number(subtests: pytest.Subtests) -> None:
    for largest, scale in (
        (0, (1, 1)),
        (1, (1, 1)),
        (5, (5, 1)),
        (6, (6, 2)),
        (31, (40, 10)),
        (1234, (1500, 500)),
    ):
        with subtests.test(largest=largest):
            assert nice_scale(largest) == scale


@pytest.mark.parametrize(
    ("opinions", "marks"),
    [
        (("accept", "accept"), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (("accept", "reject"), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]),
    ],
)
def test_the_scale_of_agreement_includes_values_below_chance(
    sqlite_store: Store, opinions: tuple[Verdict, Verdict], marks: list[str]
) -> None:
    history = History(sqlite_store, captions_queue())
    history.people(CAREFUL, STEADY)
    for number, item in enumerate(history.items(8)):
        for person, verdict in zip((CAREFUL, STEADY), opinions, strict=True):
            swapped: Verdict = "reject" if verdict == "accept" else "accept"
            history.answer(item, person, verdict if number % 2 else swapped, START)
    history.write()
    (queue,) = overview(sqlite_store, [captions_queue()], START).queues
    scale = scale_of(queue)
    assert [text for _, text in scale.marks] == marks
    assert (scale.marks[0][0], scale.marks[-1][0]) == (0, 100)
    assert scale.place(0) == (0 if opinions[0] == opinions[1] else 50)


def test_charts_show_one_to_six_weeks(shown: Overview) -> None:
    busy, idle = shown.queues
    assert len(shown_days(busy.work.days, busy.at)) == 25
    assert len(shown_days(idle.work.days, idle.at)) == 7
    later = busy.at.replace(year=2027)
    assert len(shown_days(busy.work.days, later)) == 42
