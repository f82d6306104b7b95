"""What leaves where people found images to be the same."""

from hypothesis import given
from hypothesis import strategies as st

from flows.recos.expanding import leaving_images

_IDS = [f"{number:02}" for number in range(12)]
_PAIRS = st.sets(
    st.tuples(st.sampled_from(_IDS), st.sampled_from(_IDS)).filter(lambda one: one[0] != one[1])
)


def test_of_two_that_are_the_same_the_first_stays() -> None:
    assert leaving_images(["a", "b", "c"], [("b", "a")]) == {"b": "a"}
    assert leaving_images(["b", "a", "c"], [("b", "a")]) == {"a": "b"}


def test_none_leaves_because_of_one_that_leaves() -> None:
    assert leaving_images(["a", "b", "c"], [("a", "b"), ("b", "c")]) == {"b": "a"}


def test_what_is_protected_stays() -> None:
    assert leaving_images(["a", "b"], [("a", "b")], protected=["a", "b"]) == {}


@given(same=_PAIRS, order=st.permutations(_IDS), protected=st.sets(st.sampled_from(_IDS)))
def test_no_two_that_stay_are_the_same_and_each_that_leaves_has_one_that_stays(
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
