"""A collection that grows image by image finds what looking at each pair finds."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retrieval.similarity.near_duplicates import GrowingCollection
from schemas.similarity import ImageFingerprint, NearDuplicateSettings, Sameness
from tests.retrieval.similarity.literal import drawn_world, literal_pairs


@given(st.integers(0, 10_000))
def test_it_finds_what_comparing_each_pair_finds(seed: int) -> None:
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


def look(number: int) -> ImageFingerprint:
    random = np.random.default_rng(number)
    return ImageFingerprint(
        sha256=f"{number:064x}",
        width_px=100,
        height_px=100,
        perceptual_hash=random.bytes(8).hex(),
        mirrored_hash=random.bytes(8).hex(),
        spectrum=random.integers(-127, 128, 255).astype(np.int8).tobytes().hex(),
    )


def test_of_what_has_no_look_the_bytes_are_known() -> None:
    known = GrowingCollection(NearDuplicateSettings())
    known.add("one", "a" * 64)
    known.add("two", "a" * 64)
    assert known.owners_of_similar("a" * 64) == {"one", "two"}
    assert known.owners_of_similar("a" * 64, look(1)) == {"one", "two"}
    assert known.owners_of_similar("b" * 64, look(1)) == frozenset()
    assert len(known) == 1


def test_it_grows_and_a_look_up_copies_none_of_it() -> None:
    known, count = GrowingCollection(NearDuplicateSettings()), 3000
    for number in range(count):
        known.add(str(number), look(number).sha256, look(number))
    assert len(known) == count
    assert {*map(str, range(0, count, 100))} == {
        owner for n in range(0, count, 100) for owner in known.owners_of_similar("f" * 64, look(n))
    }
    tracemalloc.start()
    known.owners_of_similar("f" * 64, look(7))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * 255 / 2, "less than the spectra take"
