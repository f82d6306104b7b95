"""Confidence intervals: published values and reproducibility."""

import numpy as np
import pytest

from loupe.annotate.statistics.agreement import FloatArray, estimate, ratio, share


def test_a_share_of_zero_items_is_none() -> None:
    assert share(0, 0).model_dump() == {
        "count": 0,
        "of": 0,
        "value": None,
        "low": None,
        "high": None,
    }


def share_of_second(weights: FloatArray) -> FloatArray:
    """Return the share of the second of two patterns."""
    return ratio(weights[:, 1], weights.sum(axis=1))


def test_the_bootstrap_interval_of_a_share_is_close_to_wilsons() -> None:
    found = estimate(np.array([300, 100]), share_of_second)
    expected = share(100, 400)
    assert found.items == 400
    assert found.low == pytest.approx(expected.low, abs=0.01)
    assert found.high == pytest.approx(expected.high, abs=0.01)
    assert estimate(np.array([300, 100]), share_of_second) == found


def test_the_interval_is_right_if_replicates_are_drawn_in_parts() -> None:
    """With so many patterns, only a few replicates fit into memory at once."""
    values = np.linspace(0, 1, 5000)

    def mean(weights: FloatArray) -> FloatArray:
        return ratio(weights @ values, weights.sum(axis=1))

    found = estimate(np.ones(5000, dtype=np.int64), mean)
    assert found.low == pytest.approx(0.5 - 1.96 * 0.2887 / 5000**0.5, abs=0.001)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.2887 / 5000**0.5, abs=0.001)


def test_there_is_no_interval_if_most_replicates_are_undefined() -> None:
    def rarely(weights: FloatArray) -> FloatArray:
        return ratio(weights[:, 1], 2.0 * (weights[:, 1] == 1))

    found = estimate(np.array([9, 1]), rarely)
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert found.reason == "most bootstrap samples of so few items have a single category"
