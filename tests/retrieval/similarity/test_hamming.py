"""Pairs of hashes within a Hamming radius equal a search of all pairs."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.similarity import hamming
from loupe.retrieval.similarity.hamming import Hashes, close_pairs, close_pairs_between

clustered = st.integers(0, 3).flatmap(
    lambda centre: st.sets(st.integers(0, 63), max_size=9).map(
        lambda bits: (0x9E3779B97F4A7C15 * centre % 2**64) ^ sum(1 << bit for bit in bits)
    )
)
hashes = st.lists(clustered | st.integers(0, 2**64 - 1), max_size=14)


@pytest.fixture(autouse=True, params=[False, True], ids=["buckets", "all pairs"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with and without buckets, which must not matter."""
    monkeypatch.setattr(hamming, "_is_few", lambda *_: request.param)


def words(values: list[int]) -> Hashes:
    return np.array(values, np.uint64)


@given(hashes, st.integers(0, 64), st.integers(1, 3))
def test_pairs_of_one_collection(values: list[int], radius: int, workers: int) -> None:
    found = close_pairs(words(values), radius, workers=workers)
    assert found.tolist() == [
        [i, j]
        for i in range(len(values))
        for j in range(i + 1, len(values))
        if (values[i] ^ values[j]).bit_count() <= radius
    ]


@given(hashes, hashes, st.integers(0, 64))
def test_pairs_between_two_collections(first: list[int], second: list[int], radius: int) -> None:
    found = close_pairs_between(words(first), words(second), radius)
    assert found.tolist() == [
        [i, j]
        for i, one in enumerate(first)
        for j, other in enumerate(second)
        if (one ^ other).bit_count() <= radius
    ]


def test_the_result_grows_beyond_its_initial_size() -> None:
    low = np.arange(1024, dtype=np.uint64)
    found = close_pairs(low, 6)
    assert len(found) == 1024 * sum(comb(10, bits) for bits in range(1, 7)) // 2
