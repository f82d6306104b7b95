"""Removing images that annotators found to be the same as another."""

from hypothesis import given
from hypothesis import strategies as st

from flows.recos.expanding import leaving_images

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
