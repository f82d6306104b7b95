"""Lookups of single images and of many at once find the same duplicates."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.similarity.near_duplicates import AlikeImages
from schemas.similarity import ImageFingerprint, NearDuplicateSettings
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


def test_looking_up_one_image_copies_no_vectors() -> None:
    count, width = 4000, 256
    random = np.random.default_rng(0)
    vectors = random.normal(size=(count, width)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[count - 1] = vectors[0]
    images = {
        str(number): ImageFingerprint(
            sha256=f"{number:064x}",
            width_px=8,
            height_px=8,
            perceptual_hash=None,
            mirrored_hash=None,
            spectrum="",
        )
        for number in range(count)
    }
    duplicates = AlikeImages(images, NearDuplicateSettings(), vectors)
    tracemalloc.start()
    assert duplicates["0"] == {str(count - 1)}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < vectors.nbytes / 4
