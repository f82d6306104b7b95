"""The content security policy of the pages blocks injected scripts and requests."""

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from loupe import annotate, flows
from loupe.db.entities import find
from loupe.db.store import Store
from loupe.flows.recos.validation_loop import ValidationReport, render_report
from loupe.release import report
from loupe.schemas.recos import DiscriminabilitySettings
from loupe.schemas.tracking import FilterSettings
from tests.chromium import all_pictures_show
from tests.flows.command_line import Loupe
from tests.flows.filter_world import DATASET, blobs_of, store_tracks, with_crops
from tests.flows.steps.tracklets.samples import observation, track

POLICY = '<meta http-equiv="Content-Security-Policy" content="{{ content_security_policy }}">'
INJECTED = """
<script>document.title = "taken over"</script>
<img src="{server}/pixel.png" onerror="document.title = 'taken over'">
<style>@import url("{server}/style.css"); body { background: url("{server}/b") }
</style>
<iframe src="{server}/frame"></iframe>
<a id="link" href="javascript:document.title = 'taken over'">here</a>
</main>"""


class Visit:
    """A page opened from disk, with the messages of the browser."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.messages: list[str] = []
        self.page = browser.new_page()
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.goto(path.as_uri())


def test_every_page_template_starts_with_its_policy() -> None:
    packages = (Path(one.__file__ or "").parent for one in (annotate, flows, report))
    templates = [path for one in packages for path in (one / "templates").glob("*.j2")]
    pages = [one for path in templates if "<!doctype" in (one := path.read_text(encoding="utf-8"))]
    assert len(pages) == 7
    for page in pages:
        head = re.search(r"<head>\n(.*)\n(.*)\n", page)
        assert head is not None
        assert head.groups() == ('<meta charset="utf-8">', POLICY)


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """URL of a server that answers every request, and the paths requested from it."""
    requested: list[str] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}", requested
        listening.shutdown()


@pytest.mark.browser
def test_injected_markup_runs_and_loads_nothing(
    tmp_path: Path, browser: Any, server: tuple[str, list[str]]
) -> None:
    url, requested = server
    injected = INJECTED.replace("{server}", url)
    report = ValidationReport("coco", (), DiscriminabilitySettings(), 0.1, "model@1")
    page = render_report(report, lambda _: None).replace("</main>", injected)
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    visit = Visit(browser, path)
    visit.page.locator("#link").click()
    visit.page.wait_for_timeout(200)
    assert visit.page.title() == "Captions: coco"
    assert requested == []
    assert any("Content Security Policy" in one for one in visit.messages)
    visit.page.close()


@pytest.mark.browser
def test_the_explanation_of_a_track_opens_within_its_policy(
    loupe: Loupe, home: Path, home_store: Store, tmp_path: Path, browser: Any
) -> None:
    observations = with_crops([observation(frame) for frame in range(16)], blobs_of(home))
    store_tracks(home_store, [track(observations, 1)], FilterSettings())
    (stored,) = find(home_store, DATASET, "track")
    path = tmp_path / "page.html"
    assert loupe("filter", "explain", stored.id, "--html", path).exit_code == 0
    visit = Visit(browser, path)
    assert all_pictures_show(visit.page)
    assert visit.page.locator("img").count() == 16
    assert visit.messages == []
    visit.page.close()
