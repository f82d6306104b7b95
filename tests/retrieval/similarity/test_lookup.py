"""Lookups of single images and of many at once find the same duplicates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.similarity.near_duplicates import AlikeImages
from tests.retrieval.similarity.literal import drawn_world, literal_near_duplicates


@given(st.integers(0, 10_000), st.booleans())
def test_lookups_equal_the_literal_search_of_all_pairs(seed: int, at_once: bool) -> None:
    world = drawn_world(seed)
    random = np.random.default_rng(seed)
    of_bytes = {one.sha256: str(random.integers(3)) for one in world.images.values()}
    contents = {
        name: of_bytes[one.sha256] for name, one in world.images.items() if int(one.sha256, 16) % 3
    }
    duplicates = AlikeImages(world.images, world.settings, world.vectors, contents)
    wanted = literal_near_duplicates(world, contents)
    names = [str(one) for one in random.permutation(len(world.images))]
    if at_once:
        duplicates.look_up([*names[::2], "none of them"])
    assert {name: set(duplicates[name]) for name in names if name in duplicates} == wanted
    assert set(duplicates) == wanted.keys()
    assert len(duplicates) == len(wanted)


def test_an_unknown_image_has_no_duplicates() -> None:
    world = drawn_world(3)
    duplicates = AlikeImages(world.images, world.settings)
    assert duplicates.get("none of them") is None
    with pytest.raises(KeyError):
        duplicates["none of them"]
