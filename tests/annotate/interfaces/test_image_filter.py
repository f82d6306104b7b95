from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.image_pages import ImageFilter
from loupe.annotate.interfaces.page import percent
from loupe.db.store import Store
from loupe.schemas.proposals import Candidate, EditMeasurement
from tests.annotate.browser import Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, a_candidate
from tests.annotate.interfaces.regions import ParsedHtml, ticked, variables

PAGE = ImageFilter()
SHOWN = a_candidate().shown


def test_invalid_answers_are_unclear(subtests: pytest.Subtests) -> None:
    for regions, problem in (
        ([], "no verdict was chosen"),
        ([ticked("verdict", "reject")], "rejected, but no problem is ticked"),
        (
            [ticked("verdict", "accept"), ticked("problems", "licence")],
            "accepted, but problems are ticked: Licence missing or not suitable",
        ),
    ):
        with subtests.test(problem=problem):
            assert PAGE.read_annotation(regions, SHOWN) == UnclearAnswer(problem=problem)


def test_rejections_agree_even_if_their_reasons_differ() -> None:
    licence = ReviewAnswer(verdict="reject", choices={"problems": ("licence",)}, reason="licence")
    people = ReviewAnswer(verdict="reject", choices={"problems": ("people",)}, reason="people")
    accepted = ReviewAnswer(verdict="accept")
    assert PAGE.same(licence, people, 1.0)
    assert not PAGE.same(licence, accepted, 0.0)


def test_the_page_shows_the_strategy_and_the_origin_of_the_candidate(
    sqlite_store: Store, subtests: pytest.Subtests
) -> None:
    for found, origin in (
        (False, "Edited by painter@1 · instruction: Repaint it."),
        (
            True,
            (
                "Found by folder, result 2 · licence CC BY 4.0 · A. Photographer · "
                "https://example.org/<b>bicycles</b>"
            ),
        ),
    ):
        with subtests.test(found=found):
            shown = a_candidate(HOSTILE, found=found).shown
            (content,) = PAGE.contents(sqlite_store, [shown], "http://127.0.0.1:8/blobs")
            assert set(content.data) == variables(PAGE.config)
            assert ParsedHtml(content.data["origin_html"]).text == origin
            wanted = ParsedHtml(content.data["wanted_html"])
            assert set(wanted.tags) == {"dl", "dt", "dd", "b"}
            record = shown.record(Candidate)
            for text in (HOSTILE, record.detail, record.plan, record.difference.definition):
                assert text in wanted.text
            pictures = [record.anchor, record.image, *([record.overlay] if record.overlay else [])]
            assert [image.sha256 for image in content.images] == [one.sha256 for one in pictures]
            assert len(pictures) == (2 if found else 3)
            assert content.data["candidate"].endswith(f"/{record.image.sha256}")


def test_measurements_and_warnings_are_shown_as_text(sqlite_store: Store) -> None:
    shown = a_candidate(warnings=(HOSTILE, "Too little changed.")).shown
    (content,) = PAGE.contents(sqlite_store, [shown], "http://127.0.0.1:8/blobs")
    measured = ParsedHtml(content.data["measured_html"])
    assert set(measured.tags) == {"div", "h4", "img", "ul", "li", "p"}
    assert measured.text.index(HOSTILE) < measured.text.index("Too little changed.")
    assert (
        "21 % of the picture changed visibly. 2.3 % of it changed outside the wanted region "
        "(known from the editor). The candidate fits the wanted caption better than the anchor "
        "does (+0.12). Similarity to the anchor: 0.87."
    ) in measured.text
    shown = a_candidate(found=True).shown
    (content,) = PAGE.contents(sqlite_store, [shown], "http://127.0.0.1:8/blobs")
    measured = ParsedHtml(content.data["measured_html"])
    assert set(measured.tags) == {"div", "p"}
    assert measured.text.strip() == "Similarity to the anchor: 0.87."


def test_an_unknown_region_of_change_is_pointed_out(sqlite_store: Store) -> None:
    def text_of(measurement: EditMeasurement) -> str:
        record = SHOWN.record(Candidate).model_copy(update={"measurement": measurement})
        shown = SHOWN._replace(payload=record.payload())
        (content,) = PAGE.contents(sqlite_store, [shown], "http://127.0.0.1:8/blobs")
        return ParsedHtml(content.data["measured_html"]).text

    text = text_of(EditMeasurement(changed_share=0.2, apart_share=0.012, shift=0.1))
    assert "The wanted region is unknown: check for yourself that the right thing changed." in text
    assert "1.2 % of the picture changed apart from the largest changes." in text
    assert "outside the wanted region" not in text
    text = text_of(EditMeasurement(changed_share=0.9))
    assert "unknown" not in text, "a change of style concerns the whole picture"


def test_shares_are_formatted_as_percentages(subtests: pytest.Subtests) -> None:
    for share, expected in (
        (0.0, "0 %"),
        (0.0004, "less than 0.1 %"),
        (0.0123, "1.2 %"),
        (0.5, "50 %"),
        (1.0, "100 %"),
    ):
        with subtests.test(share=share):
            assert percent(share) == expected


def assert_nothing_is_cut_off(page: LabellingPage) -> None:
    """Assert that each image is within its frame in Label Studio."""
    frames, images = page.boxes(".lsf-image"), page.boxes(".lsf-image img")
    assert len(frames) == len(images) == 2
    for frame, image in zip(frames, images, strict=True):
        assert frame.left - 1 <= image.left
        assert image.right <= frame.right + 1


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_rejects_a_candidate_by_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    warnings = ("2.3 % of the picture changed outside the wanted region.", HOSTILE)
    found, edited = a_candidate(HOSTILE, found=True), a_candidate(warnings=warnings)
    contents = PAGE.contents(sqlite_store, [found.shown, edited.shown], bench.images_url)
    question = "Does the candidate differ in exactly one detail?"
    page = bench.open(PAGE, contents, found.pictures | edited.pictures, question)
    page.press("2", "3", "6")
    page.assert_in_view(".loupe-one", ".loupe-wanted", ".loupe-answer")
    page.assert_apart(".loupe-pair", ".loupe-figures", ".loupe-what", ".loupe-answer")
    keep_screenshot(page)
    answer = PAGE.read_annotation(page.submit(), found.shown)
    assert isinstance(answer, ReviewAnswer)
    assert (answer.verdict, answer.reason) == ("reject", "more than one difference, licence")

    page.wait_for_next_task()
    page.press("2")
    page.assert_in_view(
        ".loupe-one", ".loupe-small", ".loupe-warnings", ".loupe-wanted", ".loupe-answer"
    )
    page.assert_apart(".loupe-pair", ".loupe-figures", ".loupe-what", ".loupe-answer")
    assert page.boxes(".loupe-large") == []
    assert_nothing_is_cut_off(page)
    page.screenshot(keep_screenshot(page).with_name("not-pointing.png"))
    page.browser_page.hover(".loupe-small")  # the marked changes cover the anchor
    large, anchor, candidate = page.box(".loupe-large img"), *page.boxes(".loupe-one")
    assert large.overlaps(anchor)
    assert not large.overlaps(candidate)
    page.assert_in_view(".loupe-large")
    keep_screenshot(page)
