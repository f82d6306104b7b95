"""Bootstrap intervals of means over queries."""

import math

import numpy as np
import pytest

from loupe.retrieval.ranking import Interval, bootstrap_means


def test_the_interval_equals_a_literal_bootstrap() -> None:
    """The reference draws groups and pools their queries."""
    random = np.random.default_rng(1)
    groups = random.integers(30, size=200)
    values = random.random(200)
    means = []
    for _ in range(3000):
        drawn = random.integers(30, size=30)
        means.append(np.concatenate([values[groups == one] for one in drawn]).mean())
    low, high = np.percentile(means, [2.5, 97.5])
    found = bootstrap_means({"m": values}, groups, replicates=3000)["m"]
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.005)


def test_intervals_depend_on_the_seed_but_not_on_order() -> None:
    random = np.random.default_rng(2)
    groups, values = random.integers(20, size=100), random.random(100)
    found = bootstrap_means({"m": values, "n": 2 * values}, groups)
    assert found["n"] == pytest.approx(Interval(*(2 * one for one in found["m"])))
    order = random.permutation(100)
    assert bootstrap_means({"m": values[order]}, groups[order])["m"] == pytest.approx(found["m"])
    assert bootstrap_means({"m": values}, groups, seed=3)["m"] != found["m"]


def test_nan_values_are_ignored() -> None:
    values = np.array([1.0, math.nan, 3.0, math.nan])
    found = bootstrap_means({"m": values, "none": np.full(4, math.nan)}, [1, 1, 2, 3])
    assert set(found) == {"m"}
    assert found["m"] == Interval(2, 1, 3)
    assert bootstrap_means({}, [1]) == {}
