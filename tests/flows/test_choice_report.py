from pathlib import Path

import numpy as np
import pytest

from flows.ccd.choice_test import SERIES, choice_plot, render_choice_report, write_choice_report
from flows.ccd.image_choice import calibrate_choice
from schemas.contrast import ChoiceCalibration, ChoiceSettings, ObservedResult


def results(*, judged: bool = True) -> list[ObservedResult]:
    rng = np.random.default_rng(0)
    drawn = [(value, False) for value in rng.normal(0.55, 0.12, 200).clip(-1, 0.99)]
    drawn += [(value, True) for value in rng.normal(0.97, 0.02, 40).clip(-1, 1)]
    return [
        ObservedResult(
            similarity=float(value),
            near_duplicate=again,
            accepted=bool(value > 0.5) if judged and not again and place % 3 == 0 else None,
        )
        for place, (value, again) in enumerate(drawn)
    ]


def calibrated(observed: list[ObservedResult]) -> ChoiceCalibration:
    unrelated = np.linspace(0, 0.5, 400) if observed else np.empty(0)
    return calibrate_choice(observed, 48, unrelated, ChoiceSettings(), "<embedder>@1")


def test_every_result_is_in_a_bar() -> None:
    observed = results()
    plot = choice_plot(calibrated(observed), observed)
    counts = [int(bar.title.split()[0]) for bar in plot.bars]
    assert sum(counts) == len(observed)
    assert max(counts) == plot.highest
    for bar, count in zip(plot.bars, counts, strict=True):
        assert sum(part[2] for part in bar.parts) == pytest.approx(
            100 * count / plot.highest, abs=0.05
        )
    assert {part[0] for bar in plot.bars for part in bar.parts} == set(range(len(SERIES)))
    floor, ceiling = plot.bounds
    assert (floor.value, ceiling.value) == (0.3, 0.97)
    assert 0 <= floor.place < ceiling.place <= 100
    assert [one.name for one in plot.suggested] == ["floor", "ceiling"]


def test_the_page_says_what_was_found_and_escapes_names(tmp_path: Path) -> None:
    observed = results()
    path = tmp_path / "reports" / "choice.html"
    write_choice_report(calibrated(observed), observed, "<b>coco</b>", path)
    page = path.read_text(encoding="utf-8")
    assert "<b>coco</b>" not in page
    assert "&lt;embedder&gt;@1" in page
    assert "<b>240</b> results" in page
    assert "tells near-duplicates from other results but for" in page
    assert "://" not in page


def test_without_results_there_is_a_page_too() -> None:
    page = render_choice_report(calibrated([]), [], "coco")
    assert "There are no results yet." in page
    assert "too little is known" in page
