"""The explorer in a real browser: look, filter, tag, decide, and the next release lacks it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loupe.release.format.row_files import read_release
from loupe.services.environments import ensure_environment, environments_root
from loupe.services.process import free_port
from tests.flows.exploring.conftest import DATASET, People

pytestmark = [pytest.mark.browser, pytest.mark.lightly_studio, pytest.mark.slow]

WAIT_MS = 120_000
START_SECONDS = 300
REASON = "they wear the same jacket"
PHOTOS = "img[src*='/images/sample/']"


class Explorer(NamedTuple):
    """A running `loupe explore`: its address and key, and the home."""

    address: str
    key: str
    home: Path


@pytest.fixture
def explorer(people: People, tmp_path: Path) -> Iterator[Explorer]:
    """The explorer of a dataset that was released once."""
    people.build("1.0.0")
    people.embed()
    ensure_environment("lightly-studio", environments_root())
    log, home, port = tmp_path / "explore.log", people.run.settings.home, free_port()
    command = [sys.executable, "-m", "loupe.flows.cli.main", "explore", DATASET, "--no-browser"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"LOUPE_HOME": str(home)},
        )
    try:
        key = None
        deadline = time.monotonic() + START_SECONDS
        while key is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            key = re.search(r"the key is: (\S+)", log.read_text())
            time.sleep(0.2)
        yield Explorer(f"http://127.0.0.1:{port}", key[1], home)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


class Page:
    """The page of somebody who logged in, and what their browser asked for."""

    def __init__(self, browser: Any, explorer: Explorer) -> None:
        self.page = browser.new_page(viewport={"width": 1500, "height": 950})
        self.page.set_default_timeout(WAIT_MS)
        self.requested: list[str] = []
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(explorer.address)
        self.page.fill("input[name=key]", explorer.key)
        self.page.press("input[name=key]", "Enter")
        self.page.get_by_role("button", name="Dismiss").click()  # an offer of a tour
        self.photos().first.wait_for()

    def photos(self) -> Any:
        return self.page.locator(PHOTOS)

    def showing(self, count: str) -> None:
        """Wait until the page says that it shows so many images."""
        self.page.get_by_text(f"Showing {count} images").wait_for()

    def reload(self) -> None:
        self.page.reload()
        self.photos().first.wait_for()

    def tag(self, places: list[int], name: str) -> list[str]:
        """Give images at places of the grid a tag; return their ids."""
        ids = []
        for place in places:
            photo = self.photos().nth(place)
            ids.append(photo.get_attribute("src").split("/sample/")[1][:36])
            photo.click()
        self.page.get_by_text(f"{len(places)} selected").wait_for()
        field = self.page.get_by_placeholder("Assign tag to selection")
        field.fill(name)
        field.press("Enter")
        self.page.get_by_text(name, exact=True).first.wait_for()
        return [id_.replace("-", "") for id_ in ids]

    def filter(self, field: str, value: str) -> None:
        """Show only images whose field has a value."""
        self.page.get_by_text("Add categorical metadata field").click()
        self.page.get_by_role("button", name=field, exact=True).click()
        self.page.get_by_text("All values").click()
        self.page.get_by_text(re.compile(rf"^\s*{value}")).first.click()
        self.page.keyboard.press("Escape")

    def lasso(self) -> None:
        """Draw around a part of the map of embeddings, which filters the images."""
        self.page.get_by_role("button", name=re.compile("Lasso select")).first.click()
        box = self.page.locator("canvas").first.bounding_box()
        left, top = box["x"] + 5, box["y"] + 5
        right, bottom = box["x"] + box["width"] - 60, box["y"] + box["height"] - 90
        corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top + 3)]
        with self.page.expect_request(
            lambda request: "embedding_region" in (request.post_data or "")
        ):
            self.page.mouse.move(*corners[0])
            self.page.mouse.down()
            for corner in corners[1:]:
                self.page.mouse.move(*corner, steps=8)
            self.page.mouse.up()

    def decide(self, tag: str, confirm: str = "") -> str:
        """Fill the form of a decision, and return the answer."""
        self.page.get_by_text("Menu", exact=True).click()
        self.page.get_by_text("Plugins", exact=True).click()
        self.page.get_by_text("Decide in Loupe").click()
        form = self.page.get_by_role("dialog")
        fields = form.locator("input")
        fields.nth(1).fill(REASON)
        fields.nth(2).fill(tag)
        fields.nth(5).fill(confirm)
        with self.page.expect_response(re.compile("/operators/.*/execute")) as answered:
            form.get_by_role("button", name="Execute").click()
        answer: dict[str, str] = answered.value.json()
        return answer["message"]


def test_what_is_rejected_in_the_page_is_not_in_the_next_release(
    explorer: Explorer, people: People, browser: Any, tmp_path: Path
) -> None:
    opened = Page(browser, explorer)
    opened.showing("6")
    opened.page.get_by_text("Embed", exact=True).click()
    opened.page.get_by_text("Included by filters").wait_for()
    opened.lasso()
    opened.reload()
    chosen = opened.tag([0, 2], "same")
    asked = opened.decide("same")
    assert "To confirm, type: reject 2." in asked
    opened.page.get_by_text("Operator executed", exact=True).wait_for()
    assert not opened.page.get_by_text("Operator execution failed").count()
    opened.reload()
    planned = opened.decide("same", "reject 3")
    assert "'reject 3' does not confirm it. To confirm, type: reject 2." in planned
    assert "4 captions" in planned
    assert {item.fields["state"] for item in people.items.read(chosen)} == {"proposed"}
    opened.reload()
    assert "rejected 2 images" in opened.decide("same", "reject 2")
    assert {item.fields["state"] for item in people.items.read(chosen)} == {"rejected"}
    people.grow(people=4, folder=tmp_path / "more")  # three of them are there already
    release = people.build("1.1.0").release
    assert release is not None
    rows = {row.image_entity_id for row in read_release(release).rows}
    assert rows == set(people.items.ids()) - set(chosen)
    opened.reload()  # shows what the run has changed and added
    opened.showing("8")
    opened.filter("state", "rejected")
    opened.showing("2 of 8")
    (rejected, *_) = people.items.read(chosen)
    opened.page.locator(f"img[src*='{rejected.id[:8]}-']").first.dblclick()
    for text in rejected.texts:
        shown = f"{text.author} · {text.kind} · inactive"
        opened.page.get_by_text(shown).first.wait_for()
    with opened.page.context.expect_page() as linked:
        opened.page.get_by_text(f"/loupe/lineage/{rejected.id}").click()
    lineage = linked.value.locator("pre").inner_text()
    assert f"image {rejected.id[:12]} in {DATASET} (rejected)" in lineage
    assert REASON in lineage
    hosts = {url.split("/")[2] for url in opened.requested if url.startswith("http")}
    assert hosts == {explorer.address.removeprefix("http://")}
    opened.page.context.close()
