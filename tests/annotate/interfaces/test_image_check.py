"""The page for drawn images: what its source says of an image, and a session in Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.interfaces.image_pages import ImageCheck
from loupe.db.store import Store
from tests.annotate.browser import SUBMIT, Bench, LabellingPage
from tests.annotate.interfaces.proposed import an_image_question

PAGE = ImageCheck()


@pytest.mark.slow
@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_answers_by_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    shown = an_image_question(texts=5)
    (content,) = PAGE.contents(sqlite_store, [shown.shown], bench.images_url)
    assert len(content.images) == 4, "the image and three others of the person"
    page = bench.open(PAGE, content, shown.pictures, "Is the image usable?")
    page.press("1", "2", "3", "5")
    keep_screenshot(page)
    page.assert_in_view(".loupe-captions", ".loupe-others img", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-image", ".loupe-side", SUBMIT)
    answer = PAGE.read_annotation(page.submit(), shown.shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.reason == "another identity, poor quality"
