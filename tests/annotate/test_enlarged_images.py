"""Which keys reach the task around an enlarged image, while frames are drawn late."""

from collections.abc import Iterator
from typing import Any

import pytest

from loupe.services.label_studio import DESK_SERVER
from tests.annotate.pictures import picture

pytestmark = pytest.mark.browser
_SCRIPT = DESK_SERVER / "loupe_desk" / "annotators.js"
_ADDRESS = "http://desk.test/"
_PAGE = """<!doctype html><title>Task</title>
<div class="loupe"><label><input type="checkbox"><img src="/blobs/a" alt="A choice"></label></div>
<script>
  window.pressed = [];
  document.addEventListener("keydown", event => pressed.push(event.key));
</script>"""
_LATE_FRAMES = """() => {
  const work = () => {
    const start = performance.now();
    while (performance.now() - start < 100);
    requestAnimationFrame(work);
  };
  requestAnimationFrame(work);
}"""


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page with an image that is a choice, on a machine with much else to do."""
    page = browser.new_page()
    page.add_init_script(path=_SCRIPT)
    page.route(f"{_ADDRESS}blobs/*", lambda route: route.fulfill(body=picture(0)))
    page.route(
        _ADDRESS, lambda route: route.fulfill(body=_PAGE, headers={"Content-Type": "text/html"})
    )
    page.goto(_ADDRESS)
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 6})
    page.evaluate(_LATE_FRAMES)
    yield page
    page.close()


def test_keys_reach_the_task_as_soon_as_an_enlarged_image_is_closed(page: Any) -> None:
    for close in ("Escape", "Enter"):  # Enter presses the button, which has the focus
        page.locator("label img").click(modifiers=["Shift"])
        for key in ("+", "ArrowLeft", "1", close, "d", "Control+Enter"):
            page.keyboard.press(key)
        assert page.evaluate("pressed.splice(0)") == ["Shift", "d", "Control", "Enter"]
        assert page.evaluate("document.activeElement.tagName") == "BODY"


def test_keys_stay_with_an_enlarged_image_after_it_is_dragged(page: Any) -> None:
    page.locator("label img").click(modifiers=["Shift"])
    page.locator("#loupe-zoom img").click()
    for key in ("1", "+", "Escape", "2"):
        page.keyboard.press(key)
    assert page.evaluate("pressed") == ["Shift", "2"]
    assert "scale(1.25)" in page.locator("#loupe-zoom img").get_attribute("style")
