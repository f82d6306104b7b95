"""A person's session with the page for rewrites, in a real Chromium."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import uvicorn
from pydantic import SecretStr

from annotate.label_studio import LabelStudioDesk
from annotate.queues import rewrite_queue
from annotate.sync import pull, push
from db.entities import fetch, find
from db.reviews import open_image_media_type
from schemas.records import Rewrite
from services.blob_server import create_app
from services.process import free_port
from tests.annotate.world import DATASET, REWRITE, SOURCE, World
from tests.services.fixtures import LabelStudioServer

CHROMIUM = Path("/usr/bin/chromium")
HOSTILE = " <script>window.hacked=1</script><img src=x onerror='window.hacked=2'>"
_WAIT_MS = 60_000

pytestmark = [
    pytest.mark.label_studio,
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def images_url(world: World, label_studio: LabelStudioServer) -> Iterator[str]:
    """The image server over the world's blobs."""
    from threading import Thread

    def media_type_of(sha256: str) -> str | None:
        with world.store.read() as connection:
            return open_image_media_type(connection, sha256)

    port = free_port()
    app = create_app(world.blobs.read, media_type_of, [label_studio.url])
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{port}/blobs"
    server.should_exit = True
    thread.join()


@pytest.fixture
def page(label_studio: LabelStudioServer) -> Iterator[Any]:
    """A browser in which the person has logged in."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1400, "height": 900})
        opened.set_default_timeout(_WAIT_MS)
        opened.goto(f"{label_studio.url}/user/login/")
        opened.fill("input[name=email]", label_studio.email)
        opened.fill("input[name=password]", label_studio.password.get_secret_value())
        opened.click("button[type=submit]")
        opened.wait_for_url(lambda url: "login" not in url, wait_until="commit")
        yield opened
        browser.close()


def test_a_person_edits_a_rewrite(
    world: World, images_url: str, page: Any, label_studio: LabelStudioServer
) -> None:
    shown = world.add(REWRITE + HOSTILE, source=SOURCE + HOSTILE)
    queue = rewrite_queue(DATASET).model_copy(update={"name": f"browser-{uuid4().hex[:8]}"})
    desk = LabelStudioDesk(label_studio.url, SecretStr(label_studio.token))
    report = push(world.store, desk, queue, images_url)

    page.goto(
        f"{label_studio.url}/projects/{report.project_id}/data?labeling=1", wait_until="commit"
    )
    page.get_by_text("Is the rewrite as true as the description?").wait_for()
    page.keyboard.press("Escape")
    box = page.get_by_test_id("htx-textbox-content")
    box.wait_for()
    assert HOSTILE.strip() in box.inner_text()
    assert page.locator("mark.loupe-contradicted", has_text="blue").get_attribute("title") == (
        "The coat is red in the description, blue in the rewrite."
    )
    picture = page.locator(".loupe-image img").first
    page.wait_for_function("picture => picture.naturalWidth > 0", arg=picture.element_handle())
    _all_is_in_view(page, picture, box)

    page.get_by_test_id("htx-textbox-edit-button").click()
    page.keyboard.press("Control+A")
    page.keyboard.type("A woman in a red coat has a black bag.")
    page.locator(".lsf-choices").get_by_text("Edit").first.click()
    page.get_by_label("Submit current annotation").click()
    page.get_by_text("Annotation saved successfully", exact=True).wait_for()
    assert page.evaluate("window.hacked") is None

    assert pull(world.store, desk, queue).edited == 1
    assert fetch(world.store, [shown])[shown].state == "superseded"
    (edited,) = find(world.store, DATASET, "rewrite", states=["accepted"])
    assert edited.record(Rewrite).text == "A woman in a red coat has a black bag."


def _all_is_in_view(page: Any, picture: Any, box: Any) -> None:
    """Image, texts, form and button are on the screen together, side by side."""
    image = picture.bounding_box()
    text = box.bounding_box()
    button = page.get_by_label("Submit current annotation").bounding_box()
    assert image["x"] + image["width"] <= text["x"]
    assert image["y"] + image["height"] <= 900
    assert text["x"] + text["width"] <= 1400
    assert text["y"] + text["height"] < button["y"] < 900
