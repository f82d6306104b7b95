import numpy as np
import pytest
from numpy.typing import NDArray

from flows.ccd.image_choice import (
    LEAST_KNOWN,
    calibrate_choice,
    unrelated_similarities,
)
from schemas.contrast import ChoiceCalibration, ChoiceSettings, ObservedResult

SETTINGS = ChoiceSettings(floor=0.3, ceiling=0.97)
NONE = np.empty(0)


def draws(low: float, high: float, count: int) -> NDArray[np.float64]:
    return np.linspace(low, high, count)


def observed(
    values: NDArray[np.float64], *, near_duplicate: bool = False, accepted: bool | None = None
) -> list[ObservedResult]:
    return [
        ObservedResult(similarity=value, near_duplicate=near_duplicate, accepted=accepted)
        for value in values.tolist()
    ]


def calibrate(
    results: list[ObservedResult], unrelated: NDArray[np.float64] = NONE
) -> ChoiceCalibration:
    return calibrate_choice(results, 10, unrelated, SETTINGS, "embedder@1")


def test_near_duplicates_and_others_are_separated_by_the_ceiling() -> None:
    results = observed(draws(0.2, 0.8, 101))
    results += observed(draws(0.9, 1.0, 40), near_duplicate=True)
    found = calibrate(results)
    assert found.ceiling.value == pytest.approx(0.85)
    assert found.ceiling.reason == "tells near-duplicates from other results but for 0 of 141"
    assert (found.near_duplicates, found.results, found.anchors) == (40, 141, 10)
    assert found.within == sum(0.3 <= one.similarity <= 0.97 for one in results[:101])
    assert found.quantiles[0] == (0.0, 0.2)
    assert found.quantiles[3] == (0.5, 0.5)


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


def test_unrelated_pictures_make_the_floor_until_people_have_spoken() -> None:
    unrelated = draws(0.0, 0.4, 401)
    found = calibrate(observed(draws(0.2, 0.8, 50)), unrelated)
    assert found.floor.value == pytest.approx(0.38)
    assert found.floor.reason == "95% of unrelated pairs of pictures are below it"
    judged = observed(draws(0.5, 0.9, 41), accepted=True)
    judged += observed(draws(0.1, 0.5, 41), accepted=False)
    found = calibrate(judged, unrelated)
    assert found.floor.value == pytest.approx(0.52)
    assert found.floor.reason == "95% of the candidates that people accepted are above it"
    assert (found.judged, found.accepted) == (82, 41)


def test_the_ceiling_spares_what_people_accepted() -> None:
    results = observed(draws(0.2, 0.8, 101)) + observed(draws(0.86, 0.94, 30), accepted=True)
    results += observed(draws(0.9, 1.0, 200), near_duplicate=True)
    found = calibrate(results)
    assert found.ceiling.value == pytest.approx(0.936)
    assert found.ceiling.reason == "95% of the candidates that people accepted are below it"


def test_of_too_little_nothing_is_suggested() -> None:
    few = observed(draws(0.2, 0.8, 60))
    few += observed(draws(0.9, 1, LEAST_KNOWN - 1), near_duplicate=True)
    found = calibrate(few, draws(0, 1, LEAST_KNOWN - 1))
    assert found.floor.value is None
    assert found.ceiling.value is None
    assert found.within == found.within_suggested
    nothing = calibrate([])
    assert (nothing.results, nothing.quantiles, nothing.unrelated) == (0, (), ())


def test_unrelated_are_results_of_others() -> None:
    anchors = np.eye(3)
    results = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0.6, 0.8]])
    found = unrelated_similarities(anchors, results, np.array([0, 1, 1]))
    assert sorted(found.tolist()) == pytest.approx([0, 0, 0, 0, 0, 0.8])
