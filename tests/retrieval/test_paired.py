"""Models that are equally good are rarely called different, and clearly better ones are."""

import numpy as np
import pytest
from numpy.typing import NDArray

from loupe.retrieval.paired import PairedDifference, corrected_for_best, paired_difference

PERSONS = 80


def _totals(
    random: np.random.Generator, queries: NDArray[np.int64], skill: float
) -> NDArray[np.float64]:
    """Hits in percent by person; persons differ in difficulty, alike for all models."""
    difficulty = np.random.default_rng(7).normal(0, 1, len(queries))
    share = 1 / (1 + np.exp(difficulty - skill))
    return np.asarray(100 * random.binomial(queries, share), np.float64)


def _compared(seed: int, first: float, second: float) -> PairedDifference:
    random = np.random.default_rng(seed)
    queries = random.integers(1, 5, PERSONS)
    return paired_difference(
        _totals(random, queries, first), _totals(random, queries, second), queries
    )


def test_equal_models_are_called_different_in_one_of_twenty_cases() -> None:
    p_values = [_compared(seed, 0.0, 0.0).p_value for seed in range(60)]
    assert sum(value < 0.05 for value in p_values) <= 7  # binomial(60, 0.05): p = 0.03 above
    assert 0.3 < np.mean(p_values) < 0.7


def test_a_board_of_equal_models_rarely_calls_any_of_them_worse() -> None:
    """The best of five is known from the same queries: four comparisons are not enough."""
    models, called = 5, 0
    for seed in range(40):
        random = np.random.default_rng(1_000 + seed)
        queries = random.integers(1, 5, PERSONS)
        totals = [_totals(random, queries, 0.0) for _ in range(models)]
        best, *_, worst = sorted(totals, key=lambda one: -one.sum())
        p_value = paired_difference(best, worst, queries).p_value
        called += corrected_for_best(p_value, models) < 0.05
    assert called <= 5  # binomial(40, 0.05): p = 0.01 above
    assert corrected_for_best(0.01, 2) == 0.01
    assert corrected_for_best(0.2, 5) == 1.0


def test_a_better_model_is_found_and_its_interval_holds_the_difference() -> None:
    found = _compared(1, 1.0, 0.0)
    assert found.p_value < 0.01
    assert 0 < found.low < found.difference < found.high
    queries = np.ones(PERSONS)
    same = np.full(PERSONS, 50.0)
    assert paired_difference(same, same, queries) == (0.0, 0.0, 0.0, 1.0)


def test_the_order_of_models_changes_only_the_sign() -> None:
    random = np.random.default_rng(3)
    queries = random.integers(1, 5, PERSONS)
    first, second = (_totals(random, queries, skill) for skill in (0.3, 0.0))
    one, other = (paired_difference(*pair, queries) for pair in ((first, second), (second, first)))
    assert one.p_value == other.p_value
    assert one.difference == -other.difference
    assert one.low == pytest.approx(-other.high)
