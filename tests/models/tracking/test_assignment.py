"""Partial matching compared with recorded results and with brute force."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from loupe.models.tracking.association import cheapest_pairs
from tests.models.tracking.scenes import units

costs = arrays(
    np.float64,
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    elements=st.one_of(st.floats(0, 1), st.just(np.inf)),
)


@pytest.mark.slow
def test_matches_equal_the_recorded_ones(subtests: pytest.Subtests) -> None:
    for number in range(5):
        with subtests.test(number=number):
            recorded = units()
            cost = recorded[f"assign{number}_cost"]
            pairs = cheapest_pairs(cost, float(recorded[f"assign{number}_thresh"]))
            assert np.array_equal(np.transpose(pairs), recorded[f"assign{number}_matches"])
            rows, columns = (np.arange(length) for length in cost.shape)
            assert np.setdiff1d(rows, pairs.rows).tolist() == (
                recorded[f"assign{number}_unmatched_rows"].tolist()
            )
            assert np.setdiff1d(columns, pairs.columns).tolist() == (
                recorded[f"assign{number}_unmatched_cols"].tolist()
            )


def price(cost: NDArray[np.float64], limit: float, pairs: list[tuple[int, int]]) -> float:
    """Return the cost of a partial matching, with half the limit for each unmatched item."""
    alone = sum(cost.shape) - 2 * len(pairs)
    return float(sum(cost[pair] for pair in pairs)) + alone * limit / 2


def least_price(cost: NDArray[np.float64], limit: float) -> float:
    """Return the lowest cost of all partial matchings by brute force."""
    rows, columns = (range(length) for length in cost.shape)
    return min(
        price(cost, limit, list(zip(chosen, partners, strict=True)))
        for size in range(min(cost.shape) + 1)
        for chosen in combinations(rows, size)
        for partners in permutations(columns, size)
    )


@given(costs, st.floats(0.05, 1))
def test_no_partial_matching_is_cheaper(cost: NDArray[np.float64], limit: float) -> None:
    pairs = cheapest_pairs(cost, limit)
    found = list(zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True))
    assert all(cost[pair] < limit for pair in found)
    assert len(set(pairs.rows)) == len(set(pairs.columns)) == len(found)
    assert pairs.rows.tolist() == sorted(pairs.rows)
    assert price(cost, limit, found) == pytest.approx(least_price(cost, limit), abs=1e-12)
