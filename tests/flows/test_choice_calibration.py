"""Similarity bounds of the image choice: suggestions, report, and warnings."""

import numpy as np
import pytest
from numpy.typing import NDArray

from loupe.flows.ccd.choice_calibration import (
    LEAST_KNOWN,
    calibrate_choice,
    similarity_summary,
    uncalibrated_threshold_warning,
)
from loupe.flows.ccd.editing import edit_bounds_warning
from loupe.models.profiles.loader import load_profile
from loupe.schemas.contrast import ChoiceCalibration, ObservedResult, SuggestedBound
from loupe.schemas.profile import ChoiceSettings

SETTINGS = ChoiceSettings(floor=0.3, ceiling=0.97)


def draws(low: float, high: float, count: int) -> NDArray[np.float64]:
    return np.linspace(low, high, count)


def observed(
    values: NDArray[np.float64], *, near_duplicate: bool = False, accepted: bool | None = None
) -> list[ObservedResult]:
    return [
        ObservedResult(similarity=value, near_duplicate=near_duplicate, accepted=accepted)
        for value in values.tolist()
    ]


def calibrate(results: list[ObservedResult]) -> ChoiceCalibration:
    return calibrate_choice(results, 10, SETTINGS, "embedder@1")


def test_the_ceiling_makes_the_fewest_errors() -> None:
    rng = np.random.default_rng(2)
    lower, upper = rng.normal(0.6, 0.1, 200).clip(-1, 1), rng.normal(0.9, 0.05, 60).clip(-1, 1)
    found = calibrate([*observed(lower), *observed(upper, near_duplicate=True)])
    bound = found.ceiling.value
    assert bound is not None

    def errors(at: float) -> int:
        return int((lower > at).sum() + (upper <= at).sum())

    fewest = min(errors(at) for at in np.arange(0, 1, 0.001))
    assert errors(bound) <= fewest + 1  # three digits


def test_the_floor_keeps_candidates_that_annotators_accepted() -> None:
    judged = observed(draws(0.5, 0.9, 41), accepted=True)
    judged += observed(draws(0.1, 0.5, 41), accepted=False)
    found = calibrate(judged)
    assert found.floor.value == pytest.approx(0.52)
    assert found.floor.reason == "95% of the candidates that people accepted are above it"
    assert (found.judged, found.accepted) == (82, 41)


def test_the_ceiling_keeps_candidates_that_annotators_accepted() -> None:
    results = observed(draws(0.2, 0.8, 101)) + observed(draws(0.86, 0.94, 30), accepted=True)
    results += observed(draws(0.9, 1.0, 200), near_duplicate=True)
    found = calibrate(results)
    assert found.ceiling.value == pytest.approx(0.936)
    assert found.ceiling.reason == "95% of the candidates that people accepted are below it"


def test_no_bound_is_suggested_from_too_few_results() -> None:
    few = observed(draws(0.2, 0.8, 60))
    few += observed(draws(0.9, 1, LEAST_KNOWN - 1), near_duplicate=True)
    found = calibrate(few)
    assert found.floor.value is None
    assert found.ceiling.value is None
    assert found.within == found.within_suggested
    nothing = calibrate([])
    assert (nothing.results, nothing.quantiles) == (0, ())


def test_the_summary_names_similarities_and_suggested_bounds() -> None:
    results = observed(draws(0.2, 0.8, 101)) + observed(draws(0.5, 0.9, 41), accepted=True)
    results += observed(draws(0.9, 1.0, 200), near_duplicate=True)
    summary = similarity_summary(calibrate(results))
    assert summary.startswith("342 results, 200 of them near-duplicates; similarity of")
    assert "0% below 0.2" in summary
    assert "(0.3 to 0.97)" in summary
    assert "a floor of 0.52 and a ceiling of 0.895" in summary


# Warnings about bounds that were not measured with the embedder in use.

LITTLE = SuggestedBound(value=None, known=7, reason="too little is known")
ENOUGH = SuggestedBound(value=0.42, known=31, reason="enough is")


def found(floor: SuggestedBound, ceiling: SuggestedBound) -> ChoiceCalibration:
    return ChoiceCalibration(
        embedder="some@1",
        settings=ChoiceSettings(),
        anchors=3,
        results=12,
        near_duplicates=0,
        judged=0,
        accepted=0,
        quantiles=(),
        floor=floor,
        ceiling=ceiling,
        within=12,
        within_suggested=12,
    )


def test_bounds_measured_with_another_embedder_give_a_warning() -> None:
    for name in ("small", "paper", "current"):
        settings = load_profile(name).contrast
        message = uncalibrated_threshold_warning(settings, found(ENOUGH, LITTLE))
        assert message is not None, name
        assert settings.embedder.name in message
        assert "(floor 0.3, ceiling 0.97) were not measured" in message
        assert "results suggest a floor of 0.42 and no ceiling yet (7 of the 20" in message
        edits = edit_bounds_warning(settings)
        assert edits is not None, name
        assert "(shift above -4, doubtful below 0)" in edits
        assert settings.edit_check.least_shift == -4, "an unmeasured bound rejects no edit"


def test_measured_bounds_give_no_warning() -> None:
    settings = load_profile("builtin").contrast
    assert uncalibrated_threshold_warning(settings, found(LITTLE, LITTLE)) is None
    assert edit_bounds_warning(settings) is None
    other = settings.model_copy(update={"bounds_measured_with": "another"})
    assert uncalibrated_threshold_warning(other, found(LITTLE, LITTLE)) is not None
