"""The page for confusing captions: its data and answers, and a session in Chromium."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.interfaces.page import TaskContent
from loupe.annotate.interfaces.text_pages import OUTCOMES, ConfusingCaption, own_side
from loupe.db.entities import new_entity
from loupe.db.store import Store
from loupe.schemas.proposals import Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.quality import CaptionCheck
from tests.annotate.browser import SUBMIT, Bench, LabellingPage
from tests.annotate.interfaces.proposed import (
    HOSTILE,
    Proposal,
    in_other_colours,
    photograph,
    proposal,
)
from tests.annotate.interfaces.regions import ParsedHtml, ticked, variables
from tests.db.samples import store_entities

PAGE = ConfusingCaption()
DOUBTS = (
    "It may fit the other image as well.",
    "Many of its words differ from those of the caption that it should be confused with.",
)


def a_confusion(text: str = "A blue bicycle is locked to a post near a street.") -> Proposal:
    own, _ = photograph(2)
    other = in_other_colours(2)
    record = Confusion(
        source="coco", text=text, own=own.picture, other=other.picture, author="captioner@1"
    )
    return proposal(record, own, other)


def content_of(shown: Proposal, store: Store, images_url: str = "http://images") -> TaskContent:
    (content,) = PAGE.contents(store, [shown.shown], images_url)
    return content


def test_only_a_caption_that_fits_only_its_own_image_is_accepted() -> None:
    shown = a_confusion().shown
    own = own_side(shown.id)
    other = "right" if own == "left" else "left"
    for choice, outcome in ((own, "own"), ("both",) * 2, (other, "other"), ("neither",) * 2):
        answer = PAGE.read_annotation([ticked("fit", choice)], shown)
        assert isinstance(answer, ReviewAnswer)
        assert answer.verdict == ("accept" if outcome == "own" else "reject")
        assert answer.choices == {"fit": (outcome,)}
        assert answer.reason == ("" if outcome == "own" else OUTCOMES[outcome])
        assert choice in str(PAGE.summary(answer, shown))  # in the words of the page
        assert PAGE.successors(shown, answer, "reviewer-1") == ()
    problem = "none of the four was chosen"
    assert PAGE.read_annotation([], shown) == UnclearAnswer(problem=problem)


def test_the_side_of_the_own_image_is_random_and_not_revealed(
    sqlite_store: Store,
) -> None:
    sides = Counter(own_side(str(number)) for number in range(1000))
    assert 420 < sides["left"] < 580
    for number in range(6):
        question = a_confusion(f"Caption {number}.")
        record, content = question.shown.record(Confusion), content_of(question, sqlite_store)
        assert content.data[own_side(question.shown.id)].endswith(record.own.sha256)
        assert content.data.keys() == {"left", "right", "caption_html", "returned"}
    assert variables(PAGE.config) == {"left", "right", "caption_html", "returned"}


def test_warnings_are_shown_below_the_caption(sqlite_store: Store) -> None:
    shown, other = a_confusion(), a_confusion("A red bicycle.")
    keep_warnings(sqlite_store, shown, *DOUBTS, HOSTILE)
    parsed = ParsedHtml(content_of(shown, sqlite_store).data["caption_html"])
    assert parsed.tags == ["p", "ul", "li", "li", "li"]
    assert parsed.text.endswith("".join((*DOUBTS, HOSTILE)))

    before = content_of(other, sqlite_store)
    keep_warnings(sqlite_store, other)
    assert content_of(other, sqlite_store) == before


def keep_warnings(store: Store, proposed: Proposal, *warnings: str) -> None:
    """Store the question and the warnings about its caption."""
    question = new_entity(proposed.shown.record(Confusion), proposed.shown.dataset)
    assert question.id == proposed.shown.id
    check = CaptionCheck(warnings=warnings)
    examined = new_entity(check, proposed.shown.dataset, parents=[(Role.EXAMINES, question.id)])
    store_entities(store, [question, examined])


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_answers_by_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    shown = a_confusion(f"A blue bicycle is locked to a post. {HOSTILE}")
    keep_warnings(sqlite_store, shown, *DOUBTS)
    content = content_of(shown, sqlite_store, bench.images_url)
    question = "Which of the two images does the caption fit?"
    page = bench.open(PAGE, content, shown.pictures, question)
    page.press("1", "2")
    keep_screenshot(page)
    page.assert_in_view(".loupe-caption", ".loupe-caption li", ".loupe-one", ".lsf-choice", SUBMIT)
    page.assert_apart(".loupe-caption", ".loupe-pair", ".loupe-answer", SUBMIT)
    answer = PAGE.read_annotation(page.submit(), shown.shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.choices == {"fit": ("both",)}
