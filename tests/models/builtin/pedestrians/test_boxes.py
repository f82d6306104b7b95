import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.builtin.pedestrians.background import Boxes, areas, best_apart, overlaps

CORNERS = arrays(np.float32, st.tuples(st.integers(0, 8), st.just(4)), elements=st.integers(0, 50))


def test_overlaps_equal_values_computed_by_hand() -> None:
    boxes = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [20, 20, 21, 21]], np.float32)
    wanted = np.array([[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(overlaps(boxes, boxes), wanted, rtol=1e-6)


@given(CORNERS, st.floats(0.1, 0.9))
def test_kept_boxes_are_apart_and_dropped_ones_overlap_a_better_box(
    boxes: Boxes, limit: float
) -> None:
    scores = areas(boxes)
    kept = best_apart(boxes, scores, limit, most_inside=2)
    shared = overlaps(boxes, boxes)
    for at, index in enumerate(kept):
        assert (shared[index, kept[:at]] <= limit).all()
    for index in set(range(len(boxes))) - set(kept.tolist()):
        better = [other for other in kept if scores[other] >= scores[index]]
        assert (shared[index, better] > limit).any()


def test_a_box_inside_a_better_one_is_dropped() -> None:
    boxes = np.array([[0, 0, 30, 90], [5, 60, 20, 88]], np.float32)
    assert best_apart(boxes, np.array([2, 1], np.float32), 0.4, 0.7).tolist() == [0]
