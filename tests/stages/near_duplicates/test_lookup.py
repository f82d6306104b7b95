"""Images looked up one by one, or many at once, are like the same others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.near_duplicates.lookup import AlikeImages
from tests.stages.near_duplicates.literal import drawn_world, literal_alike


@given(st.integers(0, 10_000), st.booleans())
def test_what_is_looked_up_is_what_looking_at_each_pair_finds(seed: int, at_once: bool) -> None:
    world = drawn_world(seed)
    random = np.random.default_rng(seed)
    of_bytes = {one.sha256: str(random.integers(3)) for one in world.images.values()}
    contents = {
        name: of_bytes[one.sha256] for name, one in world.images.items() if int(one.sha256, 16) % 3
    }
    alike = AlikeImages(world.images, world.settings, world.vectors, contents)
    wanted = literal_alike(world, contents)
    names = [str(one) for one in random.permutation(len(world.images))]
    if at_once:
        alike.look_up([*names[::2], "none of them"])
    assert {name: set(alike[name]) for name in names if name in alike} == wanted
    assert set(alike) == wanted.keys()
    assert len(alike) == len(wanted)


def test_an_image_that_is_not_there_is_like_none() -> None:
    world = drawn_world(3)
    alike = AlikeImages(world.images, world.settings)
    assert alike.get("none of them") is None
    with pytest.raises(KeyError):
        alike["none of them"]
