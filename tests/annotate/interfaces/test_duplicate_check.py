"""The page for possible duplicates: its data and answers, and a session in Chromium."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.image_pages import DuplicateCheck
from loupe.db.store import Store
from loupe.schemas.recos import DuplicateQuestion
from tests.annotate.browser import SUBMIT, Bench, LabellingPage
from tests.annotate.interfaces.proposed import a_duplicate_question
from tests.annotate.interfaces.regions import ParsedHtml, ticked, variables

PAGE = DuplicateCheck()


def test_different_images_are_accepted_and_equal_ones_rejected() -> None:
    shown = a_duplicate_question().shown
    for verdict, reason, summary in (
        ("accept", "", "Different images"),
        ("reject", "the same image", "The same image"),
    ):
        answer = PAGE.read_annotation([ticked("verdict", verdict)], shown)
        assert isinstance(answer, ReviewAnswer)
        assert (answer.verdict, answer.reason) == (verdict, reason)
        assert PAGE.summary(answer, shown)[0] == ("Verdict", summary)
        assert PAGE.successors(shown, answer, "reviewer-1") == ()


def test_without_a_verdict_there_is_no_answer(subtests: pytest.Subtests) -> None:
    for chosen in (
        (),
        ("neither",),
        ("accept", "reject"),
    ):
        with subtests.test(chosen=chosen):
            answer = PAGE.read_annotation(
                [ticked("verdict", *chosen)], a_duplicate_question().shown
            )
            assert answer == UnclearAnswer(problem="no verdict was chosen")


def test_the_page_shows_both_images_and_the_measurements(
    sqlite_store: Store, subtests: pytest.Subtests
) -> None:
    for values, expected in (
        ({}, ["distance 0.031", "content 0.948", "mirror"]),
        ({"mirrored": False, "distance": None}, ["content 0.948"]),
        ({"mirrored": False, "similarity": None}, ["distance 0.031"]),
    ):
        with subtests.test(values=values):
            shown = a_duplicate_question(**values).shown
            (content,) = PAGE.contents(sqlite_store, [shown], "http://127.0.0.1:8/blobs")
            assert set(content.data) == variables(PAGE.config)
            parts = ParsedHtml(content.data["measured_html"]).text.split(" · ")[1:]
            assert len(parts) == len(expected)
            assert all(words in part for words, part in zip(expected, parts, strict=True))
            record = shown.record(DuplicateQuestion)
            assert [image.sha256 for image in content.images] == [
                record.first.sha256,
                record.second.sha256,
            ]
            assert content.data["first"].endswith(f"/{record.first.sha256}")
            assert content.data["second"].endswith(f"/{record.second.sha256}")


@pytest.mark.soak
@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_answers_by_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    shown, pictures = a_duplicate_question()
    (content,) = PAGE.contents(sqlite_store, [shown], bench.images_url)
    question = "Are these two images different, or the same?"
    page = bench.open(PAGE, content, pictures, question)
    page.press("1", "2")
    keep_screenshot(page)
    page.assert_in_view(".loupe-one", ".loupe-measured", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-pair", ".loupe-measured", ".loupe-answer", SUBMIT)
    answer = PAGE.read_annotation(page.submit(), shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.verdict == "reject"
