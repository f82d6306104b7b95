"""The lead's page, live, and questions of annotators, with a real Label Studio and Chromium."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from loupe.annotate.push import push
from loupe.annotate.queues import decide_as_lead, shipped
from loupe.db.desk_events import desk_events
from loupe.db.entities import fetch
from loupe.db.reviews import annotator_named
from loupe.flows.engine.desks import Webhooks, open_desks, webhook_server
from loupe.flows.lead_desk import LeadDesk
from loupe.services.credentials import desk_key
from loupe.services.label_studio import WATCHER
from loupe.services.process import record_path
from tests.annotate.browser import (
    FEWER_FRAMES,
    PAGE_TEST,
    SUBMIT,
    WAIT_MS,
    assert_accessible,
    read_instructions,
)
from tests.annotate.test_desk_in_browser import images_url
from tests.annotate.world import DATASET, World
from tests.services.fixtures import LabelStudioServer

pytestmark = list(PAGE_TEST)
__all__ = ["images_url"]
QUEUE = shipped().queue(DATASET, "rewrites")
ITEM = "A man in a coat, <b>carrying</b> nothing."
QUESTION = 'Is an empty hand "carrying"?'
_QUICK = """const start = window.setInterval;
window.setInterval = (act, ms) => start(act, ms / 10);"""
"""Lets the lead's page look ten times as often for what happened."""
_SIZES = ((1400, 900), (900, 900), (390, 844))


@pytest.fixture
def watcher(label_studio: LabelStudioServer, world: World, images_url: str) -> Iterator[None]:
    """The queue watcher's answers to Label Studio, without its rounds."""
    port = int(images_url.split(":")[2].split("/")[0])
    changes = {"database_url": str(world.store.engine.url), "blobs_port": port}
    lead = LeadDesk(label_studio.settings.model_copy(update=changes))
    record = record_path(label_studio.home, WATCHER)
    with webhook_server(Webhooks(), desk_key(label_studio.home), lead=lead.answer) as address:
        record.write_text(json.dumps({"url": address.removesuffix("/answered")}))
        yield
    record.unlink()


class Visitor:
    """Somebody with a browser, logged in."""

    def __init__(self, browser: Any, url: str, email: str, password: str, place: str) -> None:
        self.context = browser.new_context(viewport={"width": 1400, "height": 900})
        self.context.set_default_timeout(WAIT_MS)
        self.context.add_init_script(FEWER_FRAMES if place == "/" else _QUICK)
        self.page = self.context.new_page()
        self.page.goto(f"{url}/user/login/?next={place}")
        self.page.fill("input[name=email]", email)
        self.page.fill("input[name=password]", password)
        self.page.click("button[type=submit]")

    def photograph(self, folder: Path, name: str) -> None:
        """Save pictures for people to look at, at three widths, light and dark; not in CI."""
        if "PYTEST_XDIST_WORKER" in os.environ:
            return
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            for width, height in _SIZES:
                self.page.set_viewport_size({"width": width, "height": height})
                self.page.wait_for_timeout(200)
                self.page.screenshot(path=str(folder / f"{name}-{width}-{scheme}.png"))
        self.page.emulate_media(color_scheme="light")
        self.page.set_viewport_size({"width": 1400, "height": 900})


@pytest.fixture
def visit(browser: Any, label_studio: LabelStudioServer) -> Iterator[Callable[..., Visitor]]:
    """Opens a browser for somebody; the lead's pages would go on asking after the test."""
    visitors: list[Visitor] = []

    def opened(email: str, password: SecretStr, place: str = "/lead/") -> Visitor:
        secret = password.get_secret_value()
        visitors.append(Visitor(browser, label_studio.url, email, secret, place))
        return visitors[-1]

    yield opened
    for visitor in visitors:
        visitor.context.close()


def test_an_annotator_asks_and_the_lead_answers_and_acts(
    label_studio: LabelStudioServer,
    world: World,
    images_url: str,
    watcher: None,
    visit: Callable[..., Visitor],
    tmp_path: Path,
) -> None:
    store = world.store
    (ann,) = label_studio.annotators(store, "Fay Desk")
    items = [world.add(ITEM), world.add("A woman in a green coat.", suspect=False)]
    desks = open_desks(label_studio.settings, store)
    assert push(store, desks, QUEUE, images_url).pushed == 2

    person = visit(ann.email, ann.password, "/")
    person.page.locator(SUBMIT).wait_for()
    read_instructions(person.page)
    asks(person, QUESTION)
    assert_accessible(person.page, "#loupe-panel", "#loupe-progress")
    panel = person.page.locator("#loupe-panel").bounding_box()
    submit = person.page.locator(SUBMIT).bounding_box()
    assert panel["y"] + panel["height"] <= submit["y"]
    person.photograph(tmp_path, "asked")
    assert "/projects/" in person.page.goto(f"{label_studio.url}/lead/").url

    lead = visit(label_studio.email, label_studio.password)
    page = lead.page
    page.locator(".thread").get_by_text(QUESTION).wait_for()
    page.get_by_role("button", name="Answer", exact=True).click()
    assert page.locator("#sure-what").inner_text() == (
        f"Fay Desk: What about gloves?\nFay Desk: {QUESTION}"
    )
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Live: this page is up to date.").wait_for()
    page.locator(".thread img").evaluate("image => image.decode()")
    press(page, "Answer", "No: nothing is in it.", instructs=True)
    page.get_by_text("it is part of the instructions").wait_for()
    press(page, "Pause")
    page.get_by_role("button", name="Resume").wait_for()  # the page follows by itself
    assert annotator_named(store, "Fay Desk").state == "paused"
    press(page, "Resume")
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Search").click()
    page.locator("#found article").nth(1).wait_for()
    page.locator("#found").get_by_role("button", name="Accept").first.click()
    dialog = page.locator("dialog#sure")
    assert not dialog.locator("#sure-instructs").is_visible()
    assert dialog.locator(".item-text, .about").all_inner_texts() == [items[0][:12], ITEM]
    dialog.locator("#sure-yes").click()
    dialog.get_by_text("A reason is needed.").wait_for()
    lead.photograph(tmp_path, "accepting")
    confirm(page, "Seen by the lead.")
    page.get_by_text("1 of 1 items accepted").first.wait_for()
    page.locator("#found").get_by_text("accepted ·").wait_for()
    decide_as_lead(store, QUEUE, {items[1]: "accept"}, "")
    page.locator("#found").get_by_text("accepted ·").nth(1).wait_for()  # it follows by itself
    page.locator("summary", has_text="Log").click()
    page.locator(".log").get_by_text(f"{items[0][:12]}: {ITEM}").first.wait_for()
    assert_accessible(page)
    lead.photograph(tmp_path, "lead")
    assert [one.state for one in fetch(store, items).values()] == ["accepted", "accepted"]
    who = {one.author for one in desk_events(store) if one.kind != "question"}
    assert who == {label_studio.email}

    world.add("A child in a hat.", suspect=False)
    push(store, desks, QUEUE, images_url)
    page = person.page
    page.goto(label_studio.url)
    page.locator(SUBMIT).wait_for()
    instructions = read_instructions(page)
    assert "What about gloves?" in instructions
    assert QUESTION in instructions
    assert "No: nothing is in it." in instructions
    page.get_by_role("button", name="Ask the lead · news").click()
    page.locator("#loupe-panel").get_by_text("No: nothing is in it.").wait_for()
    person.photograph(tmp_path, "answered")


def test_the_page_comes_when_the_watcher_does(
    label_studio: LabelStudioServer,
    visit: Callable[..., Visitor],
    request: pytest.FixtureRequest,
) -> None:
    page = visit(label_studio.email, label_studio.password).page
    page.get_by_text("start it with loupe up").wait_for()
    request.getfixturevalue("watcher")
    page.get_by_role("heading", name="Questions").wait_for()
    assert page.get_by_role("button", name="Push all queues").is_visible()


def test_only_a_page_of_the_desk_presses_buttons(
    label_studio: LabelStudioServer,
    watcher: None,
    visit: Callable[..., Visitor],
    browser: Any,
) -> None:
    lead = visit(label_studio.email, label_studio.password)
    request, address = lead.context.request, f"{label_studio.url}/lead/press"
    body = {"action": "push"}
    assert request.post(address, data=body).status == 403  # without the token of the page
    assert request.get(address).status == 405
    token = lead.page.locator("meta[name=csrf-token]").get_attribute("content")
    own = {"X-CSRFToken": token, "Origin": label_studio.url, "Referer": f"{label_studio.url}/lead/"}
    assert request.post(address, data=body, headers=own).ok
    foreign = {**own, "Origin": "http://evil.example"}
    assert request.post(address, data=body, headers=foreign).status == 403
    lead.page.goto(label_studio.url)
    with lead.context.expect_page() as opened:
        lead.page.get_by_role("link", name="The lead's page").click()
    opened.value.get_by_role("heading", name="Questions").wait_for()
    nobody = browser.new_context()
    assert nobody.request.get(f"{label_studio.url}/lead/now").status == 401
    nobody.close()


def press(page: Any, name: str, text: str = "", *, instructs: bool = False) -> None:
    """Press a button of the page and confirm it."""
    page.get_by_role("button", name=name, exact=True).first.click()
    if instructs:
        page.locator("#sure-instructs input").check()
    confirm(page, text)


def confirm(page: Any, text: str = "") -> None:
    """Fill in what a button asks for, and confirm."""
    if text:
        page.locator("#sure-text textarea").fill(text)
    page.locator("#sure-yes").click()
    page.locator("dialog#sure").wait_for(state="hidden")


def asks(person: Visitor, question: str) -> None:
    """Ask the lead about the task on the screen, whose answer cannot be submitted yet.

    Keys of the panel are not those of the task. Two questions follow each other; then the keys go
    back to the text.
    """
    page = person.page
    page.keyboard.press("3")  # without a reason
    writing = page.locator(".loupe-write textarea")
    writing.focus()
    page.get_by_role("button", name="Ask the lead").click()
    page.get_by_label("Question to the lead").fill("What about gloves?")
    page.keyboard.press("1")
    page.keyboard.press("Backspace")
    page.keyboard.press("Control+Enter")
    page.keyboard.type(question)  # while the first is sent
    page.get_by_text("Sent. The answer appears here").wait_for()
    assert page.get_by_label("Question to the lead").input_value() == question
    page.keyboard.press("Control+Enter")
    page.locator("#loupe-panel .loupe-line").nth(1).wait_for()
    page.keyboard.press("Escape")
    assert writing.evaluate("one => one === document.activeElement")
    page.get_by_role("button", name="Ask the lead").click()
    page.locator("#loupe-panel .loupe-line").nth(1).wait_for()
    assert page.locator("label:has(input:checked)").count() == 1
    for_phone(page)


def for_phone(page: Any) -> None:
    """Assert that the bar with news stays below the task on a phone."""
    button = page.locator("#loupe-ask")
    page.set_viewport_size({"width": 390, "height": 844})
    button.evaluate("one => { one.textContent = 'Lead · news'; one.classList.add('loupe-news'); }")
    page.wait_for_timeout(200)
    heights = page.evaluate(
        """() => ["#loupe-progress", "#loupe-progress button"]
            .map(one => document.querySelector(one).getBoundingClientRect().height)"""
    )
    assert heights[0] < 1.5 * heights[1]
    assert page.locator("#loupe-progress").bounding_box()["x"] >= 0
    page.set_viewport_size({"width": 1400, "height": 900})
