"""The page for images proposed for a task: its data and answers, and a session in Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.image_pages import ImageSelection
from loupe.annotate.interfaces.page import TaskContent
from loupe.db.store import Store
from loupe.schemas.retrieval_task import TASK_FORMS
from loupe.schemas.taxonomy import RetrievalTask
from tests.annotate.browser import SUBMIT, Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, Proposal, a_selection
from tests.annotate.interfaces.regions import ParsedHtml, ticked

PAGE = ImageSelection()


def content_of(shown: Proposal, store: Store, images_url: str = "http://images") -> TaskContent:
    (content,) = PAGE.contents(store, [shown.shown], images_url)
    return content


def test_the_reason_of_a_rejection_lists_all_problems() -> None:
    shown = a_selection().shown
    regions = [ticked("verdict", "reject"), ticked("problems", "too plain", "poor quality")]
    answer = PAGE.read_annotation(regions, shown)
    assert isinstance(answer, ReviewAnswer)
    assert (answer.verdict, answer.reason) == ("reject", "too plain, poor quality")
    assert "too plain, poor quality" in dict(PAGE.summary(answer, shown)).values()


def test_contradictory_answers_are_unclear(subtests: pytest.Subtests) -> None:
    for regions, problem in (
        ([], "no verdict was chosen"),
        ([ticked("verdict", "reject")], "rejected, but no problem is ticked"),
        (
            [ticked("verdict", "accept"), ticked("problems", "people")],
            "accepted, but problems are ticked: Shows people improperly",
        ),
    ):
        with subtests.test(problem=problem):
            answer = PAGE.read_annotation(regions, a_selection().shown)
            assert answer == UnclearAnswer(problem=problem)


def test_the_task_is_explained_beside_the_image(sqlite_store: Store) -> None:
    for task in RetrievalTask:
        content = content_of(a_selection(task, HOSTILE), sqlite_store)
        parsed = ParsedHtml(content.data["task_html"])
        assert parsed.tags == ["p", "b", "p", "p"], task
        for text in (task, TASK_FORMS[task].captions, HOSTILE):
            assert text in parsed.text, task
        assert content.data["image"].endswith(content.images[0].sha256), task


@pytest.mark.soak
@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_answers_by_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    shown = a_selection(source=HOSTILE)
    content = content_of(shown, sqlite_store, bench.images_url)
    page = bench.open(PAGE, content, shown.pictures, "Does the image fit the task?")
    page.press("1", "2", "3", "6")
    keep_screenshot(page)
    page.assert_in_view(".loupe-task", ".loupe-image", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-image", ".loupe-side", SUBMIT)
    answer = PAGE.read_annotation(page.submit(), shown.shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.reason == "does not fit the task, poor quality"
