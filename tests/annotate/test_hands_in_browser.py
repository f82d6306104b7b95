"""The speed of hands: decisions by one key, the next queue, and what a page says about problems."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from loupe.annotate.backend import Desks
from loupe.annotate.pull import pull, reconcile
from loupe.annotate.push import push
from loupe.annotate.queues import shipped
from loupe.db.gold import return_work
from tests.annotate.browser import PAGE_TEST, assert_accessible, read_instructions
from tests.annotate.test_desk_in_browser import Person, desks, images_url, sit_down
from tests.annotate.world import DATASET, REWRITE, World
from tests.services.fixtures import AnnotatorAccount, LabelStudioServer

pytestmark = list(PAGE_TEST)
__all__ = ["desks", "images_url", "sit_down"]
REWRITES = shipped().queue(DATASET, "rewrites").model_copy(update={"priority": 1})
DESCRIPTIONS = shipped().queue(DATASET, "descriptions").model_copy(update={"overlap": 1})
_SUBMITS = "[data-testid=bottombar-submit-button], [data-testid=bottombar-update-button]"
_PATIENT = """() => {
  const start = window.setTimeout;
  window.setTimeout = (act, ms, ...given) => start(act, ms === 5000 ? 60000 : ms, ...given);
}"""
"""Gives a busy machine longer to take an answer back."""
RULE = {"floor": 0.7, "window": 20.0, "least": 5.0}


def test_one_key_decides_and_the_next_queue_opens(
    label_studio: LabelStudioServer,
    world: World,
    desks: Desks,
    images_url: str,
    sit_down: Callable[[AnnotatorAccount], Person],
    tmp_path: Path,
) -> None:
    store = world.store
    (ann,) = label_studio.annotators(store, "Cleo Browser")
    for number in range(2):
        world.add(f"{REWRITE} {number}", suspect=False)
    push(store, desks, REWRITES, images_url)
    person = sit_down(ann)
    push(store, desks, DESCRIPTIONS, images_url)
    page = person.page
    read_instructions(page)
    first = person.shown()
    page.get_by_role("button", name="One key: off").click()
    assert_accessible(page, ".loupe", "#loupe-progress")

    page.evaluate(_PATIENT)
    person.press("1")
    wait_for_text(page, f"{REWRITE} {1 - int(first[-1])}")
    count = page.locator("#loupe-progress [role=status]")
    assert count.inner_text() == "1 of 2 today"
    assert pull(store, desks, REWRITES).answers == 0  # not yet
    person.press("Backspace")  # takes the answer back
    wait_for_text(page, first)
    assert count.inner_text() == "0 of 2 today"
    assert page.locator("[data-testid=bottombar-submit-button]").count()
    assert reconcile(store, desks, REWRITES).answers == 0
    person.press("1")  # one key still submits
    wait_for_text(page, f"{REWRITE} {1 - int(first[-1])}")
    person.press("Backspace")
    wait_for_text(page, first)
    person.press("3")  # a rejection needs a reason, so it is not submitted
    page.locator(".loupe label:has(input:checked)").filter(has_text="Reject").wait_for()
    person.press("4", "Control+Enter")
    wait_for_text(page, f"{REWRITE} {1 - int(first[-1])}")
    person.press("1")

    page.locator(".loupe-counter").wait_for()
    assert "Describe the person" in read_instructions(page)
    page.locator(".loupe-write textarea").fill("A man.")
    page.keyboard.press("Escape")
    person.press("1")
    said = page.frame_locator(".loupe-counter").locator("#saved")
    page.keyboard.press("Control+Enter")
    said.get_by_text("Too short: at least 20 words are needed, and there are 2").wait_for()
    answers = 0
    while answers < 2:  # the last one is held for seconds
        answers += pull(store, desks, REWRITES).answers
    person.keep("too-short")

    project, task = page.evaluate("[location.pathname.split('/')[2], Htx.task.id].map(Number)")
    desks(ann.pseudonym).delete_tasks(project, [task])
    page.locator(".loupe-write textarea").fill("A man in a coat.")
    said.get_by_text("reload the page").wait_for()

    enlarge(page)
    with store.write() as connection:
        return_work(connection, DESCRIPTIONS.name, ann.pseudonym, RULE, (0, 5), [])
    push(store, desks, DESCRIPTIONS, images_url)
    page.goto(f"{label_studio.url}/")
    page.locator("#loupe-note").get_by_text("Suspended: 0 of your last 5").wait_for()
    person.keep("suspended")


def wait_for_text(page: Any, text: str) -> None:
    """Wait until the page shows the rewrite with that text."""
    page.wait_for_function(
        "text => document.querySelector('.loupe-write textarea')?.value === text", arg=text
    )
    page.locator(_SUBMITS).first.wait_for()


def enlarge(page: Any) -> None:
    """Enlarge an image of a text with the keyboard, zoom, and close it; the task is not touched."""
    page.evaluate(
        """() => document.querySelector(".loupe").append(Object.assign(
          new Image(), { src: window.Htx.task.dataObj.image, alt: "A coat", id: "drawn" }
        ))"""
    )
    drawn = page.locator("#drawn[tabindex]")
    drawn.wait_for(state="attached")
    drawn.focus()
    page.keyboard.press("Enter")
    zoomed = page.locator("#loupe-zoom img")
    for key in ("+", "+", "ArrowLeft"):
        page.keyboard.press(key)
    assert "scale(1.5625)" in zoomed.get_attribute("style")
    page.keyboard.press("Escape")
    zoomed.wait_for(state="hidden")
    assert page.evaluate("document.activeElement.id") == "drawn"
