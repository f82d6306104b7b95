"""Images that v2 adds to v1, the counts of the report, and removal of equal images."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.flows.recos.expanding import Expansion, expand_images, leaving_images
from loupe.retrieval.similarity.near_duplicates import NearDuplicates, find_near_duplicates
from loupe.retrieval.similarity.products import nearest_rows
from loupe.schemas.similarity import ImageFingerprint, NearDuplicateSettings
from tests.retrieval.similarity.test_clusters import on_a_circle

V1, POOL = 6, 40


def fingerprint(place: int) -> ImageFingerprint:
    """Fingerprint of an image; some are near (every 10th) or exact (every 7th) duplicates."""
    same = place - (place % 7 == 6)
    return on_a_circle(12 * (place - (place % 10 == 9)) % 180, number=same)


def deduplicate(ids: Sequence[str], protected: frozenset[str]) -> NearDuplicates:
    images = {name: fingerprint(int(name)) for name in ids}
    return find_near_duplicates(images, NearDuplicateSettings(), protected=protected)


def expanded(neighbours: dict[str, list[str]], wanted: int) -> Expansion:
    return expand_images(neighbours, wanted, deduplicate, "model@1")


def assert_adds_up(found: Expansion) -> None:
    report = found.report
    assert report.found >= report.distinct >= report.outside
    assert report.outside == report.exact + report.near + report.new
    assert report.new == len(found.images) == len(set(found.images))


neighbour_tables = st.dictionaries(
    st.integers(0, V1 - 1).map(str),
    st.lists(st.integers(0, POOL - 1).map(str), unique=True, max_size=8),
    max_size=V1,
)


@settings(max_examples=30)
@given(neighbour_tables, st.integers(1, 6))
def test_counts_add_up_and_the_order_does_not_matter(
    neighbours: dict[str, list[str]], wanted: int
) -> None:
    found = expanded(neighbours, wanted)
    assert_adds_up(found)
    assert not set(found.images) & neighbours.keys()
    other = expanded(dict(reversed(neighbours.items())), wanted)
    assert (other.images, list(other.doubtful)) == (found.images, list(found.doubtful))
    assert other.report == found.report
    assert found.report.images == len(neighbours)
    assert found.report.short == sum(len(others) < wanted for others in neighbours.values())
    digests = [fingerprint(int(name)).sha256 for name in found.images]
    assert len(set(digests)) == len(digests)
    assert not set(digests) & {fingerprint(int(name)).sha256 for name in neighbours}


def test_counts_add_up_with_neighbours_by_embedding() -> None:
    vectors = np.random.default_rng(0).normal(size=(POOL, 8))
    nearest = nearest_rows(vectors[:V1], vectors, 5, excluded=np.arange(V1))
    neighbours = {str(i): [str(j) for j in row] for i, row in enumerate(nearest.places.tolist())}
    found = expanded(neighbours, 5)
    assert_adds_up(found)
    assert found.report.found == 5 * V1
    assert found.report.short == 0
    assert found.report.new > 0


_IDS = [f"{number:02}" for number in range(12)]
_PAIRS = st.sets(
    st.tuples(st.sampled_from(_IDS), st.sampled_from(_IDS)).filter(lambda one: one[0] != one[1])
)


def test_of_two_equal_images_the_first_stays() -> None:
    assert leaving_images(["a", "b", "c"], [("b", "a")]) == {"b": "a"}
    assert leaving_images(["b", "a", "c"], [("b", "a")]) == {"a": "b"}


def test_an_image_is_not_removed_because_of_a_removed_one() -> None:
    assert leaving_images(["a", "b", "c"], [("a", "b"), ("b", "c")]) == {"b": "a"}


@given(same=_PAIRS, order=st.permutations(_IDS), protected=st.sets(st.sampled_from(_IDS)))
def test_remaining_images_differ_and_each_removed_one_equals_a_remaining_one(
    same: set[tuple[str, str]], order: list[str], protected: set[str]
) -> None:
    leaves = leaving_images(order, same, protected)
    both_directions = same | {(other, one) for one, other in same}
    assert not leaves.keys() & (protected | set(leaves.values()))
    assert set(leaves.items()) <= both_directions
    for one, other in same:
        assert {one, other} & leaves.keys() or {one, other} & protected
    flipped = {(other, one) for one, other in same}
    assert leaving_images(order, flipped, protected) == leaves
