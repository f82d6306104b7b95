from collections.abc import Callable
from pathlib import Path

import pytest

from annotate.answers import ReviewAnswer, UnclearAnswer
from annotate.interfaces.image_filter import ImageFilter
from db.store import Store
from schemas.proposals import Candidate
from tests.annotate.browser import Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, a_candidate
from tests.annotate.interfaces.regions import ParsedHtml, Regions, ticked, variables, written

PAGE = ImageFilter()
SHOWN = a_candidate().shown
CANDIDATE = SHOWN.record(Candidate)


@pytest.mark.parametrize(
    ("regions", "answer"),
    [
        (
            [ticked("verdict", "accept")],
            ReviewAnswer(verdict="accept", choices={"verdict": ("accept",)}),
        ),
        (
            [ticked("verdict", "reject"), ticked("problems", "licence", "people")],
            ReviewAnswer(
                verdict="reject",
                choices={"verdict": ("reject",), "problems": ("licence", "people")},
                reason="licence, people",
            ),
        ),
        (
            [ticked("verdict", "reject"), ticked("problems", "other"), written("note", " odd\n ")],
            ReviewAnswer(
                verdict="reject",
                choices={"verdict": ("reject",), "problems": ("other",)},
                reason="other: odd",
            ),
        ),
    ],
)
def test_what_an_annotation_says(regions: Regions, answer: ReviewAnswer) -> None:
    assert PAGE.read_annotation(regions, SHOWN) == answer
    assert PAGE.successors(SHOWN, answer, "reviewer-1") == ()
    assert answer.reason in ParsedHtml(PAGE.summary(answer, SHOWN)).text


@pytest.mark.parametrize(
    ("regions", "problem"),
    [
        ([], "no verdict was chosen"),
        ([ticked("verdict", "reject")], "rejected, but nothing is ticked as wrong"),
        (
            [ticked("verdict", "accept"), ticked("problems", "licence")],
            "accepted, but ticked as wrong: licence",
        ),
    ],
)
def test_what_is_no_answer(regions: Regions, problem: str) -> None:
    assert PAGE.read_annotation(regions, SHOWN) == UnclearAnswer(problem=problem)


def test_rejections_agree_whatever_their_reasons() -> None:
    licence = ReviewAnswer(verdict="reject", choices={"problems": ("licence",)}, reason="licence")
    people = ReviewAnswer(verdict="reject", choices={"problems": ("people",)}, reason="people")
    accepted = ReviewAnswer(verdict="accept")
    assert PAGE.same(licence, people, 1.0)
    assert not PAGE.same(licence, accepted, 0.0)


@pytest.mark.parametrize(
    ("found", "origin"),
    [
        (False, "Edited by painter@1 · alike 0.87"),
        (
            True,
            (
                "Found by folder · licence CC BY 4.0 · A. Photographer · "
                "https://example.org/<b>bicycles</b> · alike 0.87"
            ),
        ),
    ],
)
def test_the_page_says_what_was_wanted_and_where_it_is_from(
    found: bool, origin: str, sqlite_store: Store
) -> None:
    shown = a_candidate(HOSTILE, found=found).shown
    (content,) = PAGE.contents(sqlite_store, [shown], "http://127.0.0.1:8/blobs")
    assert set(content.data) == variables(PAGE.config)
    assert ParsedHtml(content.data["origin_html"]).text == origin
    wanted = ParsedHtml(content.data["wanted_html"])
    assert set(wanted.tags) == {"dl", "dt", "dd", "b"}
    assert HOSTILE in wanted.text
    record = shown.record(Candidate)
    assert [image.sha256 for image in content.images] == [record.anchor.sha256, record.image.sha256]
    assert content.data["candidate"].endswith(f"/{record.image.sha256}")


@pytest.mark.label_studio
@pytest.mark.browser
def test_a_person_rejects_a_candidate_with_the_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    shown, pictures = a_candidate(HOSTILE, found=True)
    (content,) = PAGE.contents(sqlite_store, [shown], bench.images_url)
    page = bench.open(PAGE, content, pictures)
    assert "Does the candidate differ in just the one detail?" in page.read_instructions()
    page.wait_for_images()
    page.press("2", "3", "6")
    page.assert_in_view(".loupe-one", ".loupe-wanted", ".loupe-answer")
    page.assert_apart(".loupe-pair", ".loupe-what", ".loupe-answer")
    keep_screenshot(page)
    answer = PAGE.read_annotation(page.submit(), shown)
    assert isinstance(answer, ReviewAnswer)
    assert (answer.verdict, answer.reason) == ("reject", "more than one difference, licence")
    assert page.browser_page.evaluate("window.hacked") is None
    assert page.console_errors == []
