"""Sampling of identities: deterministic for a seed and independent of the order of the input."""

import random

from hypothesis import given
from hypothesis import settings as limited
from hypothesis import strategies as st

from loupe.flows.engine.sampling import SampleSettings, sample_identities

names = st.text("abcdef0123", min_size=1, max_size=4)
sources = st.dictionaries(names, st.lists(names, min_size=1, max_size=6, unique=True), max_size=12)


def settings(identities: int = 3, cap: int | None = 2, seed: int = 0) -> SampleSettings:
    return SampleSettings(identities=identities, images_per_identity=cap, seed=seed)


@limited(max_examples=30)
@given(sources, st.integers(1, 5), st.none() | st.integers(1, 4), st.integers())
def test_a_sample_has_the_requested_size_or_all_there_is(
    images: dict[str, list[str]], identities: int, cap: int | None, seed: int
) -> None:
    draw = sample_identities(images, settings(identities, cap, seed))
    assert len(draw) == min(identities, len(images))
    for name, drawn in draw.items():
        assert set(drawn) <= set(images[name])
        assert len(drawn) == len(set(drawn)) == min(cap or 99, len(images[name]))


@limited(max_examples=30)
@given(sources, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    images: dict[str, list[str]], chance: random.Random
) -> None:
    shuffled = {
        name: chance.sample(images[name], len(images[name]))
        for name in chance.sample(sorted(images), len(images))
    }
    first, second = (sample_identities(one, settings()) for one in (images, shuffled))
    assert first == second


@limited(max_examples=30)
@given(sources, st.integers(1, 5))
def test_a_larger_sample_contains_the_smaller(
    images: dict[str, list[str]], identities: int
) -> None:
    small, large = (sample_identities(images, settings(n)) for n in (identities, identities + 1))
    assert list(large.items())[: len(small)] == list(small.items())


def test_seeds_give_different_samples_and_cover_every_identity() -> None:
    images = {f"person {number}": ["a"] for number in range(20)}
    draws = [frozenset(sample_identities(images, settings(seed=seed))) for seed in range(60)]
    assert len(set(draws)) > 50
    assert frozenset.union(*draws) == set(images)
