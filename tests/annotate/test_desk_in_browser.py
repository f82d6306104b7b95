"""Review in a browser, from the login page to the decisions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loupe.annotate.backend import Desks
from loupe.annotate.pull import pull
from loupe.annotate.push import push
from loupe.annotate.queues import shipped
from loupe.db.entities import find
from loupe.db.store import Store
from loupe.flows.engine.desks import open_desks
from loupe.schemas.records import Rewrite
from loupe.services.blob_server import store_app
from loupe.services.credentials import desk_key
from loupe.services.label_studio import NAME
from tests.annotate.browser import (
    FEWER_FRAMES,
    HEIGHT_PX,
    PAGE_TEST,
    SAVED,
    SUBMIT,
    WAIT_MS,
    WIDTH_PX,
    log_in,
    read_instructions,
    served,
)
from tests.annotate.world import DATASET, REWRITE, World
from tests.services.fixtures import AnnotatorAccount, LabelStudioServer

pytestmark = list(PAGE_TEST)
PLAIN = "A woman in a red coat, a bag on her shoulder."
LATER = "A man in a green coat."
MENDED = "Wearing a red coat, the woman has a black bag."
QUEUE = shipped().queue(DATASET, "rewrites").model_copy(update={"overlap": 2})
_FORBIDDEN_BUTTONS = ("Create Project", "Invite Members", "Create", "Settings", "Import", "Export")


class Person:
    """An annotator with a browser.

    Attributes:
        page: Playwright's page, for everything else.
        failed: the images that could not be loaded.
        prefetched: for each request for the next task, whether the page prefetched it.
        loaded: the addresses of images that were loaded.
    """

    def __init__(self, browser: Any, url: str, account: AnnotatorAccount, shots: Path) -> None:
        self.failed: list[str] = []
        self.prefetched: list[bool] = []
        self.loaded: set[str] = set()
        self._url, self._account, self._shots = url, account, shots
        self._context = browser.new_context(viewport={"width": WIDTH_PX, "height": HEIGHT_PX})
        self._context.set_default_timeout(WAIT_MS)
        self._context.add_init_script(FEWER_FRAMES)
        self.page = self._context.new_page()
        self.page.on("response", self._note)

    def log_in(self) -> None:
        """Log in on the front page, which then shows the task of the only queue."""
        self.page.goto(self._url)
        self.page.fill("input[name=email]", self._account.email)
        self.page.fill("input[name=password]", self._account.password.get_secret_value())
        self.page.click("button[type=submit]")
        self.page.locator(SUBMIT).wait_for()
        self.page.locator(".lsf-modal-ls__content").wait_for()
        self.keep("home")
        assert self.offered() == []

    def lose_session(self) -> None:
        """Delete the cookies, again if a response that was under way renews the session."""
        while self._context.cookies():
            self._context.clear_cookies()
            for request in self.page.requests():
                request.response()

    def log_in_again(self) -> None:
        """Log in without the tab that is open."""
        log_in(self._context, self._url, self._account.email, self._account.password)

    def projects(self) -> list[str]:
        """Return the titles of all visible projects."""
        self.page.goto(f"{self._url}/projects/")
        cards = self.page.locator(".lsf-project-card__title-text")
        cards.first.wait_for()
        assert self.offered() == []
        return [str(title).strip() for title in cards.all_inner_texts()]

    def open(self, title: str) -> str:
        """Open a project, start labelling, and return the instructions shown."""
        self.page.get_by_text(title, exact=True).click()
        self.page.locator(SUBMIT).wait_for()
        assert self.offered() == []
        return read_instructions(self.page)

    def shown(self) -> str:
        """Wait for the rewrite, its image and the keys, and return the rewrite."""
        self.page.wait_for_function(
            """() => window.Htx?.annotationStore?.selected && [...document.images].some(
                image => image.src.startsWith("blob:") && image.naturalWidth > 0
            )"""
        )
        return str(self.page.locator(".loupe-write textarea").input_value())

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def write(self, text: str) -> None:
        """Replace the text, using only the keyboard."""
        self.press("Enter", "Control+A")
        self.page.keyboard.type(text)
        self.press("Escape")

    def submit(self) -> None:
        """Submit and wait for the next task or the message that none is left."""
        with self.page.expect_response(lambda answer: "id=next_task" in answer.url):
            self.press("Control+Enter")
        self.page.get_by_text(SAVED, exact=True).first.wait_for()

    def has_finished(self) -> bool:
        """Whether the page says that no tasks are left."""
        self.page.get_by_text("No More Tasks Left in Queue").wait_for()
        return not self.page.locator(SUBMIT).count()

    def offered(self) -> list[str]:
        """Return visible buttons that annotators must not have."""
        found = [
            self.page.get_by_text(name, exact=True).locator("visible=true")
            for name in _FORBIDDEN_BUTTONS
        ]
        return [
            name for name, buttons in zip(_FORBIDDEN_BUTTONS, found, strict=True) if buttons.count()
        ]

    def keep(self, name: str) -> None:
        """Save a screenshot for people to look at (in DIR with `--basetemp DIR`)."""
        self.page.screenshot(path=str(self._shots / f"{self._account.name}-{name}.png"))

    def close(self) -> None:
        """Close the browser."""
        self._context.close()

    def _note(self, answer: Any) -> None:
        if "/blobs/" in answer.url:
            self.loaded.add(answer.url.split("/")[-1])
            if not answer.ok:
                self.failed.append(f"{answer.status} {answer.url}")
        if "id=next_task" in answer.url:
            self.prefetched.append("excluded" in answer.request.post_data)


@pytest.fixture
def desks(label_studio: LabelStudioServer, world: World) -> Desks:
    return open_desks(label_studio.settings, world.store)


@pytest.fixture
def images_url(label_studio: LabelStudioServer, world: World) -> Iterator[str]:
    """The image server as in production: it serves only the images of open tasks."""
    key = desk_key(label_studio.home)
    app = store_app(world.store, world.blobs.read, NAME, key, [label_studio.url])
    with served(app) as url:
        yield f"{url}/blobs"


@pytest.fixture
def sit_down(
    browser: Any, label_studio: LabelStudioServer, tmp_path: Path
) -> Iterator[Callable[[AnnotatorAccount], Person]]:
    """Opens a browser for an annotator and logs in."""
    people: list[Person] = []

    def sit(account: AnnotatorAccount) -> Person:
        people.append(Person(browser, label_studio.url, account, tmp_path))
        people[-1].log_in()
        return people[-1]

    yield sit
    for person in people:
        person.close()


def texts(store: Store) -> dict[str, str]:
    """Return the state of every rewrite by its text."""
    return {entity.record(Rewrite).text: entity.state for entity in find(store, DATASET, "rewrite")}


def test_an_adjudicator_settles_a_conflict_of_two_annotators(
    label_studio: LabelStudioServer,
    world: World,
    desks: Desks,
    images_url: str,
    sit_down: Callable[[AnnotatorAccount], Person],
) -> None:
    store = world.store
    ann, bea = label_studio.annotators(store, "Ann Browser", "Bea Browser")
    (dan,) = label_studio.annotators(store, "Dan Browser", roles=("adjudicator",))
    world.add(REWRITE)
    world.add(PLAIN, suspect=False)
    assert push(store, desks, QUEUE, images_url).pushed == 4

    first = sit_down(ann)
    assert first.projects() == [f"Loupe · {QUEUE.name}"]
    assert "Is the rewrite as true" in first.open(f"Loupe · {QUEUE.name}")
    judge_both(first, verdict_on_plain="1", reloads=True)
    person = sit_down(bea)
    assert "Is the rewrite as true" in read_instructions(person.page)
    judge_both(person, verdict_on_plain="3", reloads=False)
    assert first.failed == person.failed == []

    report = pull(store, desks, QUEUE)
    assert (report.accepted, report.edited, report.rejected) == (1, 2, 1)
    assert (report.decided, report.conflicts, report.remarks) == (1, 1, ())
    assert texts(store) == {REWRITE: "superseded", MENDED: "accepted", PLAIN: "proposed"}
    assert push(store, desks, QUEUE, images_url).conflicts == 1

    settle(sit_down(dan), names=[ann.pseudonym, bea.pseudonym, "Ann", "Bea"])
    assert pull(store, desks, QUEUE).decided == 1
    settled = "A woman in a red coat, a bag on her left shoulder."
    assert texts(store) == {
        REWRITE: "superseded",
        MENDED: "accepted",
        PLAIN: "superseded",
        settled: "accepted",
    }
    assert push(store, desks, QUEUE, images_url).projects == ()

    person.page.reload()
    person.page.get_by_text("No More Tasks Left in Queue").wait_for()
    person.keep("empty-reloaded")
    world.add(LATER, suspect=False)  # opens by itself on a page that had no more tasks
    assert push(store, desks, QUEUE, images_url).pushed == 2
    person.page.locator(SUBMIT).wait_for()
    assert person.shown() == LATER


def assert_a_second_tab_says_that_it_saves_nothing(person: Person) -> None:
    """Assert that a tab with a task that was answered in another one does not seem to save it."""
    second = person.page.context.new_page()
    second.goto(person.page.url)
    second.locator(SUBMIT).wait_for()
    status = second.frame_locator(".loupe-saved")
    status.locator("#saved").wait_for(state="attached")
    person.submit()
    second.bring_to_front()
    second.locator(".loupe-write textarea").fill("Typed in the second tab.")
    status.get_by_text("Not saved: answered in another tab").wait_for()
    second.close()
    person.page.bring_to_front()


def judge_both(person: Person, verdict_on_plain: str, *, reloads: bool) -> None:
    """Correct one rewrite and give the other the verdict `verdict_on_plain`."""
    judged = []
    for _ in range(2):
        judged.append(person.shown())
        assert not person.page.locator(".lsf-modal-ls__content").count()
        if judged[-1] == REWRITE:
            if reloads:
                assert_drafts_are_saved_after_a_refused_answer(person)
                assert_text_outlives_a_lost_connection(person)
                assert_text_outlives_the_end_of_the_session(person)
            person.press("2")
            person.write(MENDED)
        else:
            person.press(*verdict_on_plain.replace("3", "34"))
        person.page.locator("label:has(input:checked)").first.wait_for()
        person.keep(f"labelling-{len(judged)}")
        if len(judged) == 1:
            assert_the_next_task_is_prefetched(person)
            if reloads:
                person.page.reload()  # the instructions do not open again
        else:
            assert_a_lost_answer_can_be_sent_again(person)
            assert_a_second_tab_says_that_it_saves_nothing(person)
    assert sorted(judged) == sorted([REWRITE, PLAIN])
    assert person.has_finished()


def assert_drafts_are_saved_after_a_refused_answer(person: Person) -> None:
    """Assert that the page still saves what is typed after it refused an answer."""
    person.press("3", "Control+Enter")  # without a reason
    status_line(person).get_by_text("Choose why, then submit").wait_for()
    person.press("2")
    person.write(MENDED)
    status_line(person).get_by_text("Draft saved at").wait_for()


def status_line(person: Person) -> Any:
    """The line that says whether what is typed is saved."""
    return person.page.frame_locator(".loupe-saved")


def assert_the_next_task_is_prefetched(person: Person) -> None:
    """Assert that the page fetches the next task and its image before the answer, not after it."""
    while person.prefetched[-1:] != [True] or len(person.loaded) < 2:
        person.page.wait_for_timeout(50)
    before = person.shown()
    known = len(person.prefetched)
    person.submit()
    person.page.wait_for_function(
        "before => document.querySelector('.loupe-write textarea')?.value !== before", arg=before
    )
    assert False not in person.prefetched[known:]


def assert_a_lost_answer_can_be_sent_again(person: Person) -> None:
    """Assert that the page keeps an answer if the connection is lost while it is sent.

    A lost draft gets a refusal as well, also on pages without text fields.
    """
    person.page.route("**/api/drafts/0", lambda route: route.abort())
    save = "fetch('/api/drafts/0', {method: 'PATCH'}).then(said => said.status)"
    assert person.page.evaluate(save) == 408
    answers = "**/api/tasks/*/annotations/?*"
    person.page.route(answers, lambda route: route.abort(), times=1)
    with person.page.expect_event("requestfailed", lambda request: request.method == "POST"):
        person.press("Control+Enter")
    person.page.get_by_text("Not saved").first.wait_for()
    person.page.locator(SUBMIT).wait_for()
    person.keep("lost-answer")
    assert_no_words_for_developers(person)


def assert_text_outlives_a_lost_connection(person: Person) -> None:
    """Assert that a text is saved after the connection returns, although it was submitted."""
    person.press("2")
    person.write(MENDED)
    person.page.context.set_offline(True)
    person.press("Control+Enter")
    status_line(person).get_by_text("Not saved: no connection; trying again …").wait_for()
    person.page.wait_for_timeout(4000)
    person.keep("offline")
    assert_no_words_for_developers(person)
    person.page.context.set_offline(False)
    status_line(person).get_by_text("Draft saved at").wait_for()
    person.page.reload()
    person.page.wait_for_function(
        "text => document.querySelector('.loupe-write textarea')?.value === text", arg=MENDED
    )


def assert_no_words_for_developers(person: Person) -> None:
    """Assert that nothing covers the page, and that no line is meant for developers."""
    assert not person.page.locator(".lsf-modal-ls__content, .ls-modal__content").count()
    for words in ("Runtime error", "Ask on Slack", "contact our team"):
        assert not person.page.get_by_text(words).locator("visible=true").count()


def assert_text_outlives_the_end_of_the_session(person: Person) -> None:
    """Assert that a text is saved after the person logs in again in another tab."""
    status_line(person).get_by_text("Draft saved").wait_for()
    person.lose_session()
    person.write("Written without a session.")
    status_line(person).get_by_text("Not saved: log in again in another tab").wait_for()
    person.page.get_by_text("You are not logged in. Log in again").first.wait_for()
    assert not person.page.get_by_text("Runtime error").count()
    person.log_in_again()
    status_line(person).get_by_text("Draft saved at").wait_for()


def settle(person: Person, names: list[str]) -> None:
    """Look at both answers, check that no names are shown, and correct the text."""
    assert "Annotators disagree" in read_instructions(person.page)
    assert person.shown() == PLAIN
    given = person.page.locator(".loupe-given").all_inner_texts()
    assert len(given) == 2
    assert {"Accept" in text for text in given} == {True, False}
    assert any("not in the image" in text for text in given)
    everything = person.page.content()
    assert [name for name in names if name in everything] == []
    person.press("Control+Enter")
    status_line(person).get_by_text("Nothing is decided: take one of the answers").wait_for()
    person.press("2")
    person.write("A woman in a red coat, a bag on her left shoulder.")
    person.keep("adjudication")
    person.submit()
    assert person.has_finished()
    assert person.projects() == [f"Loupe · {QUEUE.name} · conflicts"]
    assert person.failed == []
