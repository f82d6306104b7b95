"""`loupe filter sheet`: the crops and figures on its page, and the page in a real Chromium."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.db.entities import find
from loupe.db.store import Store
from loupe.flows.engine.pages import histogram
from loupe.flows.ufine6926.filter_explanation import (
    SHOWN_FAR,
    SHOWN_NEAR,
    Sheet,
    collect,
    sheet_document,
)
from loupe.flows.ufine6926.noise_filter import Thresholds
from loupe.schemas.errors import UsageError
from loupe.schemas.tracking import FilterSettings
from loupe.schemas.video import FilterReport
from tests.chromium import all_pictures_show
from tests.flows.command_line import Loupe
from tests.flows.filter_world import DATASET, blobs_of, store_tracks, with_crops
from tests.flows.steps.tracklets.samples import observation, track, walk

SETTINGS = FilterSettings(least_relative_sharpness=0)
THRESHOLDS = Thresholds(SETTINGS, "a test")


@pytest.fixture
def filled(home: Path, home_store: Store) -> Store:
    """Eight tracks with increasing sharpness, and one with a switch and a near-duplicate."""
    blobs = blobs_of(home)
    tracks = [
        track(
            with_crops(
                [
                    observation(100 * number + frame, sharpness=10 + 16.0 * number + frame)
                    for frame in range(16)
                ],
                blobs,
            ),
            number + 1,
        )
        for number in range(8)
    ]
    twin = observation(902, perceptual_hash=walk([0], begin=900)[0].measures.perceptual_hash)
    mixed = [*walk([0], begin=900), twin, *walk([0] * 4, begin=905), *walk([1] * 4, begin=930)]
    tracks.append(track(with_crops(mixed, blobs), 9, video="<b>&amp;'\".mp4"))
    store_tracks(home_store, tracks, SETTINGS)
    return home_store


@pytest.fixture
def sheet(filled: Store) -> Sheet:
    return collect(filled, DATASET, THRESHOLDS)


def rule(sheet: Sheet, setting: str) -> Any:
    (found,) = (one for one in sheet.rules if one.rule.setting == setting)
    return found


def test_crops_near_the_threshold_and_some_others_are_shown_in_order(sheet: Sheet) -> None:
    blurred = rule(sheet, "least_sharpness")
    values = sorted(10 + 16.0 * number + frame for number in range(8) for frame in range(16))
    bad = [value for value in values if value < 60]
    good = [value for value in values if value >= 60] + [400.0] * 10
    assert blurred.counts == {"dropped": 50, "suspected": 12, "passed": len(good) - 12}
    assert [tile.value for tile in blurred.dropped][-SHOWN_NEAR:] == bad[-SHOWN_NEAR:]
    assert len(blurred.dropped) == len(blurred.left) == SHOWN_NEAR + SHOWN_FAR
    assert blurred.dropped[0].value == bad[0]
    assert [tile.value for tile in blurred.left][:SHOWN_NEAR] == good[:SHOWN_NEAR]
    assert blurred.left[-1].value == 400
    for tiles in (blurred.dropped, blurred.left):
        shown = [tile.value for tile in tiles]
        assert shown == sorted(shown)
    assert {tile.outcome for tile in blurred.dropped} == {"dropped"}
    assert blurred.only_here == 50


def test_a_crop_is_shown_beside_the_crop_it_was_compared_with(sheet: Sheet) -> None:
    (tile,) = rule(sheet, "duplicate_bits").dropped
    assert (tile.seen.frame, tile.beside.frame, tile.value, tile.alone) == (902, 900, 0, True)
    switch = rule(sheet, "switch_distance").left
    assert [one.seen.frame for one in switch if one.outcome == "suspected"] == [930]
    assert switch[0].beside.frame == 920


def test_counts_agree_with_the_filter_reports(sheet: Sheet, filled: Store) -> None:
    reports = [one.record(FilterReport) for one in find(filled, DATASET, "filter_report")]
    document = sheet_document(sheet)
    assert (document["tracks"], document["crops"]) == (9, 138)
    assert document["tracks_left"] == sum(bool(one.parts) for one in reports) > 0
    assert (
        document["parts"] == sum(len(one.parts) for one in reports) == document["tracks_left"] + 1
    )
    assert document["crops_left"] == sum(len(part) for one in reports for part in one.parts)
    for one in document["rules"]:
        assert one["measured"] == one["dropped"] + one["suspected"] + one["passed"]
        assert one["only_here"] <= one["dropped"]
        findings = [found for report in reports for found in report.findings]
        if one["rule"] == "near_duplicate":
            assert one["dropped"] == sum(found.rule == "near_duplicate" for found in findings)


def test_the_command_writes_the_page_and_prints_the_figures(
    loupe: Loupe, filled: Store, tmp_path: Path
) -> None:
    page = tmp_path / "sheet.html"
    done = loupe("filter", "sheet", DATASET, "--out", page)
    assert done.exit_code == 0
    assert re.search(r"blurred +│ least_sharpness +│ ≥ 60 +│ +138 │ +50 │ +12 ", done.out)
    one = loupe("filter", "sheet", DATASET, "--rule", "blurred", "--out", page, "--json").json
    assert [row["setting"] for row in one["rules"]] == [
        "least_sharpness",
        "least_relative_sharpness",
    ]
    assert one["thresholds_from"].startswith("report ")
    what_if = loupe(
        "filter", "sheet", DATASET, "--profile", "builtin", "--out", page, "--json"
    ).json
    assert what_if["thresholds_from"] == "profile 'builtin'"


def test_unknown_rules_and_datasets_are_refused(
    loupe: Loupe, filled: Store, tmp_path: Path
) -> None:
    page = tmp_path / "sheet.html"
    wrong = loupe("filter", "sheet", DATASET, "--rule", "ugly", "--out", page)
    assert (wrong.exit_code, page.exists()) == (2, False)
    assert "there is no rule 'ugly'; there is too_small, bad_aspect" in wrong.err
    with pytest.raises(UsageError, match="'nowhere' has no tracks"):
        collect(filled, "nowhere", THRESHOLDS)


@pytest.mark.browser
def test_the_page_shows_every_crop_in_a_browser(
    loupe: Loupe, filled: Store, browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "sheet.html"
    document = loupe("filter", "sheet", DATASET, "--out", path, "--json").json
    assert "<b>" not in re.sub(r"</?b>(?=[−\d])|(?<=\d)</b>", "", path.read_text(encoding="utf-8"))
    page = browser.new_page(viewport={"width": 1360, "height": 900})
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(path.as_uri())
    assert all_pictures_show(page)
    assert page.locator("section.rule").count() == len(document["rules"])
    titles = page.evaluate("[...document.querySelectorAll('figure')].map(one => one.title)")
    assert any(
        "<b>&amp;'\".mp4, track 9, frame 902, dropped by this rule only" in t for t in titles
    )
    for width in (1360, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert all_pictures_show(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        line = page.locator("#least_sharpness line.threshold").bounding_box()
        plot = page.locator("#least_sharpness .plot").bounding_box()
        assert line is not None
        assert plot is not None
        assert plot["x"] < line["x"] < plot["x"] + plot["width"], width
    assert messages == []
    assert [url for url in requested if not url.startswith("data:")] == [path.as_uri()]
    page.close()


finite = st.floats(-1e4, 1e4, allow_nan=False).map(lambda value: round(value, 3))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.one_of(finite, st.integers(0, 64)), st.integers(0, 2)), min_size=1),
    finite,
)
def test_a_histogram_counts_every_value_once_and_contains_its_threshold(
    measured: list[tuple[float, int]], threshold: float
) -> None:
    values = np.array([value for value, _ in measured], float)
    series = np.array([one for _, one in measured], np.int8)
    drawn = histogram(values, series, 3, threshold)
    heights = dict.fromkeys(range(3), 0.0)
    for bar in drawn.bars:
        assert 0 <= bar.left <= 100
        for one, top, height in bar.parts:
            assert top >= -0.01
            assert top + height <= 100.02
            heights[one] += height * drawn.highest / 100
    for one, height in heights.items():
        assert height == pytest.approx((series == one).sum(), abs=0.02 * len(drawn.bars) + 0.02)
    assert 0 <= drawn.threshold <= 100
    assert all(-0.01 <= place <= 100.01 for place, _ in drawn.marks)
    json.dumps(drawn.marks)
