"""Shares and their confidence intervals, compared with published figures."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.quality import Stratum, stratified_estimate, wilson_interval

counted = st.integers(1, 500).flatmap(
    lambda total: st.tuples(st.integers(0, total), st.just(total))
)


def test_wilson_intervals_equal_published_ones(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, int, tuple[float, float]]] = [  # Newcombe (1998), table I, method 3
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
    ]
    for count, total, interval in cases:
        with subtests.test(count=count, total=total):
            lower, upper = wilson_interval(count, total)
            assert (round(lower, 4), round(upper, 4)) == interval


@given(counted)
def test_the_interval_contains_the_share_and_is_symmetric(pair: tuple[int, int]) -> None:
    count, total = pair
    lower, upper = wilson_interval(count, total)
    assert 0 <= lower <= count / total <= upper <= 1
    mirrored = wilson_interval(total - count, total)
    assert mirrored == pytest.approx((1 - upper, 1 - lower))


def test_without_observations_the_interval_is_0_to_1() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert stratified_estimate([]).interval == (0.0, 1.0)
    assert stratified_estimate([Stratum(10, 0, 0)]).interval == (0.0, 1.0)


@given(counted, st.integers(1, 100))
def test_one_stratum_is_estimated_as_a_simple_sample(pair: tuple[int, int], more: int) -> None:
    count, looked = pair
    found = stratified_estimate([Stratum(looked * more, looked, count)])
    assert found.share == pytest.approx(count / looked)
    assert found.interval == pytest.approx(wilson_interval(count, looked))


def test_strata_are_weighted_by_their_population() -> None:
    found = stratified_estimate([Stratum(900, 10, 1), Stratum(100, 10, 5), Stratum(50, 0, 0)])
    assert found.share == pytest.approx(0.9 * 0.1 + 0.1 * 0.5)
    assert found.interval.lower < 0.14 < found.interval.upper


def test_the_interval_has_its_nominal_coverage() -> None:
    """Simulation of two strata with different error rates, sampled proportionally."""
    chance = random.Random(4)
    truth = 0.8 * 0.02 + 0.2 * 0.2
    covered = 0
    for _ in range(400):
        strata = [
            Stratum(8000, 160, sum(chance.random() < 0.02 for _ in range(160))),
            Stratum(2000, 40, sum(chance.random() < 0.2 for _ in range(40))),
        ]
        lower, upper = stratified_estimate(strata).interval
        covered += lower <= truth <= upper
    assert covered / 400 >= 0.92
