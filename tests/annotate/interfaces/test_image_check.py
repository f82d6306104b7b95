"""The page for drawn images: what its source says of an image, and a session in Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.interfaces.image_pages import ImageCheck
from loupe.db.store import Store
from tests.annotate.browser import HEIGHT_PX, SUBMIT, WIDTH_PX, Bench, LabellingPage
from tests.annotate.interfaces.proposed import an_image_question

PAGE = ImageCheck()
_FITS = """width => {
  const image = document.querySelector(".loupe-image img").getBoundingClientRect();
  const place = document.querySelector(".loupe-image [class^='container']").getBoundingClientRect();
  const share = Math.max(image.width / place.width, image.height / place.height);
  return innerWidth === width && share > 0.99 && share < 1.01;
}"""
"""Whether the image fills its place, and is not cropped, on a screen of that width."""


@pytest.mark.slow
@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_answers_by_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    shown = an_image_question(texts=5)
    (content,) = PAGE.contents(sqlite_store, [shown.shown], bench.images_url)
    assert len(content.images) == 4, "the image and three others of the person"
    bench.tab.route("**/blobs/**", lambda route: route.abort())
    question = "Is the image usable?"
    page = bench.open(PAGE, content, shown.pictures, question, has_images=False)
    missing = bench.tab.get_by_text("The image could not be loaded.").locator("visible=true")
    missing.nth(3).wait_for()
    bench.tab.unroute_all()
    bench.tab.get_by_role("button", name="Try again").first.click()
    page.read_instructions()
    page.wait_for_images()
    assert not missing.count()
    for width, height in ((390, 844), (844, 390), (WIDTH_PX, HEIGHT_PX)):
        bench.tab.set_viewport_size({"width": width, "height": height})
        bench.tab.wait_for_function(_FITS, arg=width)
    bench.tab.locator("iframe.loupe-saved").click(force=True)  # the keys stay with the task
    page.press("1", "2", "3", "5")
    keep_screenshot(page)
    page.assert_in_view(".loupe-captions", ".loupe-others img", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-image", ".loupe-side", SUBMIT)
    answer = PAGE.read_annotation(page.submit(), shown.shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.reason == "another identity, poor quality"
