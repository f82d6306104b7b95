"""Distractor statistics: plain loops, handmade cases and invariances."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.retrieval.distractors import NEAREST, mean_with_nearest, means_with_nearest
from loupe.retrieval.embeddings import FloatRows, Ids, unit_rows
from tests.retrieval.literal import similarity, tied_rows


def literal_mean(rows: FloatRows, samples: Ids, at: int, nearest: int) -> float:
    others = [
        similarity(rows[at], row)
        for row, sample in zip(rows, samples, strict=True)
        if sample != samples[at]
    ]
    highest = sorted(others, reverse=True)[:nearest]
    return math.fsum(highest) / len(highest) if highest else math.nan


def test_means_equal_plain_loops(subtests: pytest.Subtests) -> None:
    """Many rows are equal or nearly equal, so float32 often cannot rank the nearest."""
    for seed, nearest in itertools.product(range(2), (1, 5)):
        with subtests.test(seed=seed, nearest=nearest):
            random = np.random.default_rng(seed)
            rows = tied_rows(random, 60, 16, kinds=4)
            samples = random.integers(20, size=60)
            found = means_with_nearest(rows, samples, nearest)
            literal = [literal_mean(rows, samples, at, nearest) for at in range(60)]
            assert found == pytest.approx(literal, abs=1e-15)
            if nearest == NEAREST:
                mean = mean_with_nearest(rows, samples)
                assert mean == pytest.approx(np.mean(literal), abs=1e-14)


def test_all_others_count_if_there_are_fewer_than_requested() -> None:
    rows = unit_rows([[1.0, 0], [0, 1.0], [1.0, 1.0]], "rows")
    found = means_with_nearest(rows, np.arange(3))
    assert found[0] == pytest.approx((0 + math.sqrt(0.5)) / 2)


def test_a_single_sample_has_no_distractors() -> None:
    rows, samples = unit_rows([[1.0, 0], [0, 1.0]], "rows"), np.zeros(2, dtype=int)
    assert mean_with_nearest(rows, samples) is None
    assert np.isnan(means_with_nearest(rows, samples)).all()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=5)
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, samples = tied_rows(random, 300, 24, kinds=40), random.integers(60, size=300)
    order = random.permutation(300)
    here = means_with_nearest(rows, samples)
    assert (means_with_nearest(rows[order], samples[order]) == here[order]).all()
    mean = mean_with_nearest(rows, samples)
    assert mean_with_nearest(rows[order], samples[order]) == mean
