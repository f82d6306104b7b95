"""The page for rewrites: its data and answers, and a session in Chromium."""

import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.page import TaskContent
from loupe.annotate.interfaces.text_pages import RewriteRevision
from loupe.db.entities import StoredEntity, fetch, new_entity
from loupe.schemas.errors import IntegrityError
from loupe.schemas.faithfulness import FaithfulnessReport
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from loupe.schemas.records import Rewrite
from tests.annotate.answering import accepting, editing, rejecting
from tests.annotate.browser import SUBMIT, Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, person, proposal
from tests.annotate.interfaces.regions import ParsedHtml, variables
from tests.annotate.interfaces.texts import DESCRIPTIONS
from tests.annotate.world import DATASET, REWRITE, SOURCE, World

PAGE = RewriteRevision()
IMAGES = "http://127.0.0.1:8090/blobs/"
SHOWN = proposal(Rewrite(source="street", text=REWRITE, author="m@1")).shown
ACCEPTED = ReviewAnswer(verdict="accept", choices={"verdict": ("accept",)})


def edited(text: str, remark: str = "") -> ReviewAnswer:
    return ReviewAnswer(
        verdict="edit", choices={"verdict": ("edit",)}, texts={"text": text}, remark=remark
    )


def rejected(reason: str, note: str = "") -> ReviewAnswer:
    return ReviewAnswer(
        verdict="reject",
        choices={"verdict": ("reject",), "reason": (reason,)},
        reason=f"{reason}: {note}" if note else reason,
    )


def shown_in(world: World, rewrite_id: str) -> StoredEntity:
    return fetch(world.store, [rewrite_id])[rewrite_id]


def content_of(world: World, rewrite_id: str, images_url: str = IMAGES) -> TaskContent:
    (content,) = PAGE.contents(world.store, [shown_in(world, rewrite_id)], images_url)
    return content


def test_the_page_shows_image_texts_and_marked_findings(world: World) -> None:
    content = content_of(world, world.add())
    data = content.data
    assert variables(PAGE.config) == set(data)
    (image,) = content.images
    assert data["image"] == f"{IMAGES}{image.sha256}"
    assert image.image_id in fetch(world.store, [image.image_id or ""])
    description, rewrite = ParsedHtml(data["description_html"]), ParsedHtml(data["rewrite_html"])
    assert (description.text, rewrite.text, data["text"]) == (SOURCE, REWRITE, REWRITE)
    assert (
        '<mark class="loupe-contradicted loupe-removed" title="The coat is red'
        in data["description_html"]
    )
    assert re.search(
        r'class="loupe-contradicted loupe-inserted"[^>]*>blue</mark> coat', data["rewrite_html"]
    )
    assert 'title="The description knows no hat.">hat</mark>' in data["rewrite_html"]
    assert "The left shoulder is left out." in ParsedHtml(data["findings_html"]).text


def test_the_page_shows_the_objections_of_a_judge(world: World) -> None:
    rewrite = world.add()
    objection = "The judge finds no source for: a <hat>"
    check = CaptionCheck(warnings=(objection,), judge="judge@1")
    world.keep(new_entity(check, DATASET, parents=[(Role.EXAMINES, rewrite)]))
    findings = ParsedHtml(content_of(world, rewrite).data["findings_html"]).text
    assert findings.startswith(objection), "first: the list shows three lines before it scrolls"
    assert "The left shoulder is left out." in findings


def test_a_rewrite_that_no_check_reads_is_not_called_free_of_warnings(world: World) -> None:
    rewrite = world.add()
    checked = PAGE.related(world.store, [shown_in(world, rewrite)])[rewrite]
    fine = checked._replace(report=FaithfulnessReport(verdict="faithful", findings=()))
    assert fine.findings_html == "<p>No warnings.</p>"
    assert "What the text states was not checked" in fine._replace(is_read=False).findings_html
    judged = fine._replace(is_read=False, flags=())
    assert judged.findings_html == "<p>No warnings.</p>", "a judge reads any language"


def test_a_rewrite_without_a_description_is_an_integrity_error(world: World) -> None:
    orphan = new_entity(Rewrite(source="street", text="A man.", author="m@1"), DATASET)
    world.keep(orphan)
    stored = fetch(world.store, [orphan.id])
    with pytest.raises(IntegrityError, match="must have one parent in the role 'rewrite_of'"):
        PAGE.contents(world.store, list(stored.values()), IMAGES)


def test_annotations_are_read_as_answers() -> None:
    for regions, answer in (
        (accepting(REWRITE), ACCEPTED),
        (accepting(f"  {REWRITE}\n"), ACCEPTED),
        (editing("A hat.\u200b  So  big."), edited("A hat. So big.")),
        ([*editing("A hat."), editing(REWRITE)[0]], edited("A hat.")),
        (accepting("A hat."), edited("A hat.", "accepted with a changed text, which is an edit")),
        (
            editing(REWRITE),
            ACCEPTED.model_copy(update={"remark": "an edit that changed nothing"}),
        ),
        (rejecting(REWRITE), rejected("not in the image")),
        (rejecting("A hat.", "other", note=" too  vague "), rejected("other", "too vague")),
    ):
        assert PAGE.read_annotation(regions, SHOWN) == answer, regions


def test_invalid_answers_are_unclear() -> None:
    for regions, problem in (
        ([], "no verdict was chosen"),
        (editing(REWRITE)[:1], "no verdict was chosen"),
        (accepting(REWRITE) + editing(REWRITE)[1:], "no verdict was chosen"),
        (editing(" \n\u200b"), "the verdict is 'Edit', but the text is empty"),
        (accepting(REWRITE)[1:], "the verdict is 'Accept', but the text is empty"),
        (rejecting(REWRITE, reason=None), "rejected without a reason"),
    ):
        assert PAGE.read_annotation(regions, SHOWN) == UnclearAnswer(problem=problem), regions


def test_an_edit_becomes_the_successor_of_the_rewrite() -> None:
    assert PAGE.successors(SHOWN, ACCEPTED, "reviewer-1") == ()
    assert PAGE.successors(SHOWN, rejected("other"), "reviewer-1") == ()
    assert PAGE.successors(SHOWN, edited("A hat."), "reviewer-1") == (
        Rewrite(source="street", text="A hat.", author="reviewer-1"),
    )


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_edits_a_rewrite_and_is_told_what_is_missing(
    world: World, bench: Bench, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    drawn = person("rewritten")
    source, text = f"{DESCRIPTIONS[0]} {SOURCE}", f"{REWRITE} {DESCRIPTIONS[0]} {HOSTILE}"
    shown = shown_in(world, world.add(text, source=source, picture=drawn.data))
    content = content_of(world, shown.id, bench.images_url)
    question = "Is the rewrite as true as the description?"
    page = bench.open(PAGE, content, {drawn.picture.sha256: drawn.data}, question)
    box = page.browser_page.locator(".loupe-answer textarea").first
    assert box.input_value() == text
    assert page.browser_page.locator("mark.loupe-contradicted", has_text="blue").get_attribute(
        "title"
    ) == ("The coat is red in the description, blue in the rewrite.")
    page.press("3", "Control+Enter")
    page.wait_until_objects("Choose why, then submit")
    keep_screenshot(page)
    page.assert_in_view(".loupe-image", ".loupe-write", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-image", ".loupe-texts", SUBMIT)

    page.press("2")
    page.wait_until_objects("")
    page.press("Control+Enter")
    page.wait_until_objects(
        "Nothing is changed: edit the text, or submit again to accept it as it is"
    )
    assert_submit_follows_the_verdict(page.browser_page)
    page.press("Enter", "Control+A", "Delete", "Control+Enter")
    page.wait_until_objects("The text is empty: write it, or choose Reject")
    page.type("A woman in a red coat has a black bag.")
    page.press("Escape")
    answer = PAGE.read_annotation(page.submit(), shown)
    assert answer == edited("A woman in a red coat has a black bag.")


def assert_submit_follows_the_verdict(tab: Any) -> None:
    """Assert that Tab leads from the verdict through the bar below it to the submit button."""
    tab.locator(".loupe-verdict input:checked").focus()
    where = f"""document.activeElement.closest(`.loupe, {SUBMIT}, .lsf-bottombar`)?.className"""
    passed: list[bool] = []
    while not passed or not tab.locator(f"{SUBMIT}:focus").count():
        assert len(passed) < 20, passed
        tab.keyboard.press("Tab")
        passed.append("loupe" in str(tab.evaluate(where)).split())
    assert [in_task for in_task, _ in groupby(passed)][-1:] == [False]
    assert len(list(groupby(passed))) <= 2, passed
    tab.evaluate("document.activeElement.blur()")
