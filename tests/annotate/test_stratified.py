"""Stratified samples: proportions to within one, and nothing but the seed and the ids decides."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotate.audits import allocate, draw

populations = st.dictionaries(st.text(max_size=2), st.integers(0, 50), max_size=6)
wholes = st.dictionaries(st.integers().map(str), st.sampled_from("abc"), max_size=60)
sizes = st.integers(0, 80)


@given(populations, sizes)
def test_every_stratum_gets_its_proportion_to_within_one(counts: dict[str, int], size: int) -> None:
    given_ = allocate(counts, size)
    total = sum(counts.values())
    assert sum(given_.values()) == min(size, total)
    for name, count in counts.items():
        assert 0 <= given_[name] <= count
        if total:
            assert abs(given_[name] - min(size, total) * count / total) < 1


@pytest.mark.parametrize(
    ("counts", "size", "given_"),
    [
        ({"a": 50, "b": 30, "c": 20}, 10, {"a": 5, "b": 3, "c": 2}),
        ({"a": 53, "b": 24, "c": 23}, 10, {"a": 5, "b": 3, "c": 2}),
        ({"a": 1, "b": 1}, 1, {"a": 1, "b": 0}),
        ({"a": 2, "b": 0}, 5, {"a": 2, "b": 0}),
        ({}, 5, {}),
    ],
)
def test_remainders_go_to_the_largest(
    counts: dict[str, int], size: int, given_: dict[str, int]
) -> None:
    assert allocate(counts, size) == given_


@given(wholes, sizes, st.text(max_size=2))
def test_a_sample_is_drawn_from_all_without_regard_to_order(
    whole: dict[str, str], size: int, seed: str
) -> None:
    drawn = draw(whole, size, seed)
    assert len(set(drawn)) == len(drawn) == min(size, len(whole))
    assert draw(dict(reversed(whole.items())), size, seed) == drawn
    wanted = allocate(Counter(whole.values()), size)
    assert Counter(whole[entity_id] for entity_id in drawn) == Counter(wanted)


def test_a_larger_sample_of_one_stratum_holds_the_smaller() -> None:
    whole = {str(number): "all" for number in range(100)}
    assert set(draw(whole, 10, "s")) < set(draw(whole, 20, "s"))
    assert set(draw(whole, 10, "s")) != set(draw(whole, 10, "another"))
