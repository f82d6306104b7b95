"""Overlap with inclusive pixels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.tracking.association import Boxes, overlaps
from tests.models.tracking.scenes import units

boxes = arrays(
    np.float64,
    st.tuples(st.integers(0, 6), st.just(4)),
    elements=st.integers(-50, 50).map(lambda quarter: quarter / 4),
).map(lambda found: np.concatenate([found[:, :2], found[:, :2] + abs(found[:, 2:])], axis=1))


def test_overlaps_equal_the_recorded_ones() -> None:
    recorded = units()
    found = overlaps(recorded["iou_a_tlbr"], recorded["iou_b_tlbr"])
    np.testing.assert_allclose(found, recorded["iou"], rtol=1e-12, atol=0)


@given(boxes, boxes)
def test_overlap_is_a_share_and_symmetric(first: Boxes, second: Boxes) -> None:
    found = overlaps(first, second)
    assert found.shape == (len(first), len(second))
    assert ((found >= 0) & (found <= 1)).all()
    assert np.array_equal(found, overlaps(second, first).T)
    assert (np.diag(overlaps(first, first)) == 1).all()


def test_boxes_that_touch_share_a_pixel() -> None:
    left, right = np.array([[0.0, 0, 4, 4]]), np.array([[4.0, 0, 8, 4]])
    assert overlaps(left, right)[0, 0] == 5 / 45
    assert overlaps(left, right + 1.0)[0, 0] == 0
