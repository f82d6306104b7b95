"""The session code for page tests, with a minimal page."""

from tests.annotate.browser import Box


def box(left: float, top: float, right: float, bottom: float) -> Box:
    return Box(left, top, right, bottom)


def test_boxes_overlap_if_they_share_more_than_an_edge() -> None:
    assert box(0, 0, 10, 10).overlaps(box(5, 5, 20, 20))
    assert not box(0, 0, 10, 10).overlaps(box(10, 0, 20, 10))
    assert not box(0, 0, 10, 10).overlaps(box(0, 10, 10, 20))


def test_a_box_beyond_the_edge_of_the_screen_is_not_in_view() -> None:
    assert box(0, 0, 1440, 900).in_view
    assert not box(0, 0, 1442, 900).in_view
    assert not box(-1, 0, 100, 100).in_view
