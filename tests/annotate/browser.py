"""Sessions with labelling pages, in a real Chromium and a real Label Studio.

The fixtures `seat`, `blob_host` and `bench` are for the tests of pages; `tests/conftest.py`
registers them. A test opens a page with a `TaskContent` and acts as a person does::

    page = bench.open(interface, content, pictures, "Does the image fit")
    page.press("1")
    answer = interface.read_annotation(page.submit(), shown)

When the test ends, no script of a text may have run, and the pages must not have had errors.
Every test of a page is marked with `PAGE_TEST`.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, NamedTuple

import httpx
import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from pydantic import SecretStr

from loupe.annotate.interfaces.page import Interface, TaskContent
from loupe.services.blob_server import create_app
from loupe.services.credentials import desk_key
from loupe.services.desk_server.loupe_desk.tickets import reader_of
from loupe.services.process import free_port
from tests.services.fixtures import LabelStudioServer

WIDTH_PX, HEIGHT_PX = 1440, 900
PAGE_TEST = (pytest.mark.label_studio, pytest.mark.browser)
IMAGE_TYPE = "image/png"
WAIT_MS = 120_000
SUBMIT = "[aria-label='Submit current annotation']"
"""The selector of the submit button."""
FEWER_FRAMES = f"""document.addEventListener("DOMContentLoaded", () => {{
  const still = new CSSStyleSheet();
  still.replaceSync(`*, ::before, ::after {{
    animation-duration: 1ms !important; animation-iteration-count: 1 !important;
    transition-duration: 1ms !important; }}`);
  if (window === top)
    still.insertRule(`body:not(:has({SUBMIT})) {{ opacity: 0 !important; }}`);
  document.adoptedStyleSheets.push(still);
}});"""
"""Disables animations, and makes a page transparent until it has its submit button.

Otherwise drawing takes half of the CPU time while a page loads. Playwright sees and clicks
transparent elements.
"""
_STAYS = "Object.defineProperty(window, 'loupeNextQueue', { value: async () => null });"
"""Keeps a page without a further task from opening the queue of another test."""
SAVED = "Annotation saved successfully"
"""The message of the page after an annotation is saved."""
_SCHEME = "scheme => { document.documentElement.dataset.colorScheme = scheme; }"
"""Chooses the colours of Label Studio; other pages follow the browser."""
_OBJECTS = """said => {
  const frame = document.querySelector("iframe.loupe-saved, iframe.loupe-counter");
  const line = frame?.contentDocument?.getElementById("saved");
  if (!line) return false;
  const isObjection = line.classList.contains("missing");
  return said ? isObjection && line.textContent === said : !isObjection;
}"""
_RAN = """() => {
  const frames = [...document.querySelectorAll("iframe")].map(one => one.contentWindow);
  return [window, ...frames].map(one => one.hacked).filter(Boolean);
}"""
"""What scripts of texts left, in one call: Label Studio may remove a frame at any time."""
_BROKEN_IMAGE = """() => new Promise(done => {
  const image = new Image();
  image.onerror = () => done();
  image.src = "x";
})"""
"""Waits as long as an image in a hostile text would need to fail to load."""


class Box(NamedTuple):
    """The position of an element on the screen, in pixels from the upper left corner."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def in_view(self) -> bool:
        """Whether the whole box is on the screen."""
        return (
            self.left >= 0
            and self.top >= 0
            and self.right <= WIDTH_PX + 0.5
            and self.bottom <= HEIGHT_PX + 0.5
        )

    def overlaps(self, other: "Box") -> bool:
        """Whether two boxes share more than an edge."""
        return (
            self.left < other.right - 1
            and other.left < self.right - 1
            and self.top < other.bottom - 1
            and other.top < self.bottom - 1
        )


class Pictures:
    """The images that the image server serves in these tests, by digest."""

    def __init__(self) -> None:
        self._pictures: dict[str, bytes] = {}

    def add(self, pictures: Mapping[str, bytes]) -> None:
        """Add PNG images by their SHA-256."""
        self._pictures.update(pictures)

    def read(self, sha256: str, media_type: str) -> bytes:
        """Return the bytes of an image."""
        assert media_type == IMAGE_TYPE
        return self._pictures[sha256]

    def media_type_of(self, sha256: str, _reader: int) -> str | None:
        """Return the media type of a known image, else None."""
        return IMAGE_TYPE if sha256 in self._pictures else None


class Desk:
    """A client of Label Studio's API with the token of a workspace."""

    def __init__(self, url: str, token: SecretStr) -> None:
        self._client = httpx.Client(base_url=url, timeout=120, trust_env=False)
        refresh = {"refresh": token.get_secret_value()}
        answer = self._client.post("/api/token/refresh/", json=refresh)
        token = answer.raise_for_status().json()["access"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def create_project(self, interface: Interface, contents: list[TaskContent]) -> int:
        """Create a project with that page and a task for each content; return its id."""
        settings = {
            "title": interface.name[:50],
            "label_config": interface.config,
            "expert_instruction": interface.instructions,
            "show_instruction": True,
            "show_skip_button": True,
            "show_collab_predictions": True,
            "enable_empty_annotation": False,
            "maximum_annotations": 1,
            "sampling": "Sequential sampling",
        }
        project_id = int(self._json("POST", "/api/projects/", settings)["id"])
        tasks: list[dict[str, Any]] = [
            {"data": {"key": str(position), **content.data}, "predictions": content.predictions}
            for position, content in enumerate(contents)
        ]
        self._json("POST", f"/api/projects/{project_id}/import", tasks)
        return project_id

    def delete_project(self, project_id: int) -> None:
        """Delete a project."""
        self._json("DELETE", f"/api/projects/{project_id}/", None)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _json(self, method: str, path: str, body: Any) -> Any:
        answer = self._client.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:400]}"
        return answer.json() if answer.content else None


class LabellingPage:
    """An open labelling page, with the first task of its project.

    Attributes:
        browser_page: Playwright's page (the browser's tab), for everything else.
        console_errors: errors of the page since it was opened.
    """

    def __init__(self, browser_page: Any, url: str, project_id: int) -> None:
        self.browser_page = browser_page
        self.console_errors: list[str] = []
        self._submitted = 0
        self._url = url
        browser_page.on("pageerror", self._note_error)
        browser_page.goto(f"{url}/projects/{project_id}/data?labeling=1", wait_until="commit")
        browser_page.locator(SUBMIT).wait_for()

    def read_instructions(self) -> str:
        """Return the instructions that open with the page, and close them."""
        return read_instructions(self.browser_page)

    def reload(self) -> None:
        """Reload the page and close the instructions."""
        self.browser_page.reload(wait_until="commit")
        self.browser_page.locator(SUBMIT).wait_for()
        self.read_instructions()

    def wait_until_saved(self) -> None:
        """Wait until the page says that the draft is saved."""
        frame = self.browser_page.frame_locator(".loupe-saved, .loupe-counter")
        frame.get_by_text("Draft saved at").wait_for()

    def wait_for_images(self) -> None:
        """Wait until every image of the task is decoded; there must be at least one."""
        self.browser_page.wait_for_function(
            """() => {
                const shown = [...document.images].filter(
                    image => image.src.startsWith("blob:") || image.src.includes("/blobs/")
                );
                return shown.length > 0 && shown.every(image => image.naturalWidth > 0);
            }"""
        )

    def wait_until_objects(self, said: str) -> None:
        """Wait until the status line objects with exactly that; "": does not object."""
        self.browser_page.wait_for_function(_OBJECTS, arg=said)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.browser_page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type into the focused element."""
        self.browser_page.keyboard.type(text)

    def box(self, selector: str, text: str | None = None) -> Box:
        """Return the position of the first visible match of a selector, optionally with `text`."""
        found = self.browser_page.locator(selector, has_text=text).locator("visible=true").first
        box = found.bounding_box()
        assert box is not None, f"{selector} with {text!r} has no place on the screen"
        left, top = box["x"], box["y"]
        return Box(left, top, left + box["width"], top + box["height"])

    def boxes(self, selector: str) -> list[Box]:
        """Return the positions of all visible matches of a CSS selector."""
        found = self.browser_page.locator(selector).locator("visible=true").all()
        boxes = [box for element in found if (box := element.bounding_box()) is not None]
        return [
            Box(box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"])
            for box in boxes
        ]

    def assert_in_view(self, *selectors: str) -> None:
        """Assert that all matches of the selectors are fully on the screen and do not overlap.

        Each selector must have a match. Matches of different selectors may overlap.
        """
        for selector in selectors:
            boxes = self.boxes(selector)
            assert boxes, f"{selector} is not on the page"
            for position, box in enumerate(boxes):
                assert box.in_view, f"{selector} [{position}] is not in view: {box}"
                assert not any(box.overlaps(other) for other in boxes[position + 1 :]), selector

    def assert_apart(self, *selectors: str) -> None:
        """Assert that the first matches of the selectors do not overlap."""
        boxes = {selector: self.box(selector) for selector in selectors}
        for selector, box in boxes.items():
            for other, its_box in boxes.items():
                assert selector == other or not box.overlaps(its_box), f"{selector}, {other}"

    def chosen(self) -> list[str]:
        """Return the labels of the selected choices, in page order."""
        labels = self.browser_page.locator("label:has(input:checked)").all_inner_texts()
        return [label.strip() for label in labels]

    def screenshot(self, path: Path) -> None:
        """Save a screenshot as a PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.browser_page.screenshot(path=str(path))

    def submit(self, key: str = "Control+Enter") -> list[dict[str, Any]]:
        """Submit with the keys and return the regions of the stored annotation."""
        self._submitted = self.browser_page.evaluate("window.Htx.task.id")
        with self.browser_page.expect_response(_stores_an_answer) as stored:
            self.press(key)
        assert stored.value.ok, stored.value.text()
        result: list[dict[str, Any]] = stored.value.json()["result"]
        return result

    def wait_for_next_task(self) -> None:
        """Wait until the task after the submitted one is open, with its images."""
        is_open = "before => window.Htx?.task && Number(window.Htx.task.id) > before"
        self.browser_page.wait_for_function(is_open, arg=int(self._submitted))
        self.browser_page.locator(SUBMIT).wait_for()
        self.wait_for_images()

    def assert_harmless(self) -> None:
        """Assert that no script in a text ran, and that there were no errors."""
        self.browser_page.evaluate(_BROKEN_IMAGE)
        assert self.browser_page.evaluate(_RAN) == []
        assert self.console_errors == []

    def leave(self) -> None:
        """Assert that the page was harmless, and free the tab for another page."""
        self.assert_harmless()
        self.browser_page.remove_listener("pageerror", self._note_error)
        self.browser_page.unroute_all()
        self.browser_page.goto(f"{self._url}/health")

    def _note_error(self, error: Any) -> None:
        self.console_errors.append(str(error))


def read_instructions(browser_page: Any) -> str:
    """Return the instructions that are open on a labelling page, and close them."""
    dialog = browser_page.locator(".lsf-modal-ls__content")
    dialog.wait_for()
    text = str(dialog.inner_text())
    browser_page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    return text


def assert_accessible(browser_page: Any, *parts: str) -> None:
    """Assert that axe finds nothing serious on a page, or in parts of it, by their selectors.

    Colours are examined on a dark page as well.
    """
    schemes = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
    for scheme, rules in schemes.items():
        browser_page.emulate_media(color_scheme=scheme)
        browser_page.evaluate(_SCHEME, scheme)
        options = {"resultTypes": ["violations"], **rules}
        _assert_nothing_serious(browser_page, list(parts), options)
    browser_page.emulate_media(color_scheme="light")
    browser_page.evaluate(_SCHEME, "light")


def _assert_nothing_serious(tab: Any, parts: list[str], options: dict[str, Any]) -> None:
    found = Axe().run(tab, context=parts or None, options=options).response["violations"]
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def _stores_an_answer(response: Any) -> bool:
    request = response.request
    is_answer = re.search(r"/api/tasks/\d+/annotations/?(\?|$)", request.url)
    return request.method == "POST" and is_answer is not None


class Bench:
    """Opens labelling pages one after the other in an annotator's tab, each in its own project.

    Each kind of page must be accessible when it is opened for the first time.
    """

    _examined: ClassVar[set[str]] = set()

    def __init__(
        self, url: str, token: SecretStr, tab: Any, pictures: Pictures, images_url: str
    ) -> None:
        self.images_url = images_url
        self.tab = tab
        self._url, self._pictures = url, pictures
        self._desk = Desk(url, token)
        self._opened: LabellingPage | None = None
        self._projects: list[int] = []

    def open(
        self,
        interface: Interface,
        contents: TaskContent | list[TaskContent],
        pictures: Mapping[str, bytes],
        question: str = "",
        *,
        has_images: bool = True,
    ) -> LabellingPage:
        """Open the page with the first of the contents, and read its instructions.

        A page that was opened before must have been harmless.

        Args:
            interface: the interface whose page is opened.
            contents: created with this bench's `images_url`.
            pictures: the PNG bytes of the images shown, by SHA-256.
            question: what the instructions must contain.
            has_images: whether to wait for the images.
        """
        self._pictures.add(pictures)
        listed = [contents] if isinstance(contents, TaskContent) else contents
        project_id = self._desk.create_project(interface, listed)
        self._projects.append(project_id)
        self._leave()
        self._opened = page = LabellingPage(self.tab, self._url, project_id)
        assert question in page.read_instructions()
        if has_images:
            page.wait_for_images()
        if interface.name not in self._examined:
            self._examined.add(interface.name)
            assert_accessible(self.tab, ".loupe", "#loupe-progress")
        return page

    def close(self) -> None:
        """Leave the last page, which must be harmless, and delete the projects."""
        self._leave()
        for project_id in self._projects:
            self._desk.delete_project(project_id)
        self._desk.close()

    def _leave(self) -> None:
        if self._opened is not None:
            self._opened.leave()


class Seat(NamedTuple):
    """An annotator's tab (Playwright's page), and the token of the workspace."""

    tab: Any
    token: SecretStr


@pytest.fixture(scope="session")
def seat(label_studio: LabelStudioServer, browser: Any) -> Iterator[Seat]:
    """A tab of a browser in which an annotator has logged in to Label Studio.

    All tests of pages use one tab, because it keeps the compiled scripts of Label Studio.
    """
    account = label_studio.workspace("Paula Pages").credentials
    context = browser.new_context(viewport={"width": WIDTH_PX, "height": HEIGHT_PX})
    context.set_default_timeout(WAIT_MS)
    context.add_init_script(FEWER_FRAMES + _STAYS)
    log_in(context, label_studio.url, account.email, account.password)
    yield Seat(context.new_page(), account.token)
    context.close()


@pytest.fixture(scope="session")
def blob_host(label_studio: LabelStudioServer) -> Iterator[tuple[Pictures, str]]:
    """The image server with the pictures that tests add, and its URL."""
    pictures = Pictures()
    key = desk_key(label_studio.home)
    app = create_app(
        pictures.read,
        pictures.media_type_of,
        lambda ticket: reader_of(key, ticket, time.time()),
        [label_studio.url],
    )
    with served(app) as url:
        yield pictures, f"{url}/blobs"


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application from a thread; yields its URL when it listens."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), f"nothing listens on port {port}"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def bench(
    label_studio: LabelStudioServer, seat: Seat, blob_host: tuple[Pictures, str]
) -> Iterator[Bench]:
    """Opens labelling pages for a test."""
    opened = Bench(label_studio.url, seat.token, seat.tab, *blob_host)
    yield opened
    opened.close()


@pytest.fixture
def keep_screenshot(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[[LabellingPage], Path]:
    """Saves a screenshot for people to look at, and returns its path.

    With `--basetemp DIR` it is saved in DIR.
    """

    def keep(page: LabellingPage) -> Path:
        path = tmp_path / f"{request.node.name}.png"
        page.screenshot(path)
        return path

    return keep


def log_in(context: Any, url: str, email: str | None, password: SecretStr | None) -> None:
    """Submit the login form without its page; `test_label_studio.py` tests the page."""
    assert email is not None
    assert password is not None
    login = f"{url}/user/login/"
    page = context.request.get(login)
    assert page.url == login, "somebody is still logged in"
    token = next(one["value"] for one in context.cookies() if one["name"] == "csrftoken")
    form = {
        "email": email,
        "password": password.get_secret_value(),
        "csrfmiddlewaretoken": token,
    }
    answer = context.request.post(login, form=form, headers={"Referer": login})
    assert answer.ok, answer
    assert "login" not in answer.url
