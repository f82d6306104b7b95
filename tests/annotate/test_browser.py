"""The session code for page tests, with a minimal page."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from annotate.interfaces.page import Interface, TaskContent
from tests.annotate.browser import SUBMIT, Bench, Box, LabellingPage
from tests.annotate.pictures import pictures


class MinimalInterface:
    """A page with an image, a text and one choice."""

    name = "smallest"
    instructions = "<h3>Is it so?</h3>"
    config = """
    <View>
      <Image name="image" value="$image" width="160px" />
      <Text name="caption" value="$caption" />
      <TextArea name="note" toName="caption" rows="1" />
      <Choices name="verdict" toName="caption" choice="single-radio">
        <Choice value="Yes" alias="yes" hotkey="1" />
        <Choice value="No" alias="no" hotkey="2" />
      </Choices>
    </View>
    """


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


@pytest.mark.label_studio
@pytest.mark.browser
def test_a_session_with_a_minimal_page(
    bench: Bench, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    ((sha256, drawn),) = pictures(1).items()
    content = TaskContent({"image": f"{bench.images_url}/{sha256}", "caption": "<b>$x {{y}}"}, [])
    minimal = cast("Interface", MinimalInterface())
    page = bench.open(minimal, content, {sha256: drawn}, "Is it so?")
    page.press("2")
    assert page.chosen() == ["No[2]"]
    page.assert_in_view(".lsf-choices", SUBMIT)
    page.assert_apart(".lsf-choices", SUBMIT)
    assert keep_screenshot(page).stat().st_size > 0
    (region,) = page.submit()
    assert (region["from_name"], region["value"]) == ("verdict", {"choices": ["no"]})
