"""A collection that grows image by image finds the same duplicates as comparing all pairs."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loupe.retrieval.similarity.near_duplicates import GrowingCollection
from loupe.schemas.similarity import ImageFingerprint, NearDuplicateSettings, Sameness
from tests.retrieval.similarity.literal import drawn_world, literal_pairs


@given(st.integers(0, 10_000))
def test_lookups_equal_the_literal_reference(seed: int) -> None:
    world = drawn_world(seed)
    pairs = literal_pairs(world.images, world.settings, None)
    sure = {
        frozenset(world.images[end].sha256 for end in (pair.first, pair.second))
        for pair in pairs
        if pair.sameness is Sameness.SAME
    }
    known = GrowingCollection(world.settings)
    added: list[str] = []
    for name, one in world.images.items():
        wanted = {
            other
            for other in added
            if (sha256 := world.images[other].sha256) == one.sha256
            or frozenset((sha256, one.sha256)) in sure
        }
        assert known.owners_of_similar(one.sha256, one) == wanted
        known.add(name, one.sha256, one)
        added.append(name)


def random_fingerprint(number: int) -> ImageFingerprint:
    random = np.random.default_rng(number)
    return ImageFingerprint(
        sha256=f"{number:064x}",
        width_px=100,
        height_px=100,
        perceptual_hash=random.bytes(8).hex(),
        mirrored_hash=random.bytes(8).hex(),
        spectrum=random.integers(-127, 128, 255).astype(np.int8).tobytes().hex(),
    )


def test_images_without_a_fingerprint_match_by_digest() -> None:
    known = GrowingCollection(NearDuplicateSettings())
    known.add("one", "a" * 64)
    known.add("two", "a" * 64)
    assert known.owners_of_similar("a" * 64) == {"one", "two"}
    assert known.owners_of_similar("a" * 64, random_fingerprint(1)) == {"one", "two"}
    assert known.owners_of_similar("b" * 64, random_fingerprint(1)) == frozenset()
    assert len(known) == 1


def test_a_lookup_does_not_copy_the_collection() -> None:
    known, count = GrowingCollection(NearDuplicateSettings()), 3000
    for number in range(count):
        known.add(str(number), random_fingerprint(number).sha256, random_fingerprint(number))
    assert len(known) == count
    assert {*map(str, range(0, count, 100))} == {
        owner
        for n in range(0, count, 100)
        for owner in known.owners_of_similar("f" * 64, random_fingerprint(n))
    }
    tracemalloc.start()
    known.owners_of_similar("f" * 64, random_fingerprint(7))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * 255 / 2, "a lookup must not copy the spectra"
