from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.backend import parse_config
from loupe.annotate.interfaces.strategy_pages import TEXTS, StrategyCheck
from loupe.db.store import Store
from loupe.schemas.proposals import Strategy
from loupe.schemas.taxonomy import DifferenceType
from tests.annotate.browser import Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, a_strategy
from tests.annotate.interfaces.regions import ParsedHtml, Regions, ticked, variables, written

PAGE = StrategyCheck()
SHOWN = a_strategy().shown
STRATEGY = SHOWN.record(Strategy)
PROPOSED = ticked("type", "Entity Attribute")


def texts(**changes: str) -> Regions:
    """Return all text fields as the page sends them, with changes."""
    return [written(field, changes.get(field, getattr(STRATEGY, field))) for field in TEXTS]


def answer_to(*regions: dict[str, Any]) -> ReviewAnswer:
    answer = PAGE.read_annotation(list(regions), SHOWN)
    assert isinstance(answer, ReviewAnswer), answer
    return answer


def test_a_correct_strategy_is_accepted() -> None:
    answer = answer_to(ticked("verdict", "accept"), PROPOSED, *texts(plan="hidden, so not counted"))
    assert answer == ReviewAnswer(
        verdict="accept", choices={"verdict": ("accept",), "type": ("Entity Attribute",)}
    )
    assert PAGE.successors(SHOWN, answer, "reviewer-1") == ()


def test_another_type_makes_an_answer_an_edit() -> None:
    answer = answer_to(ticked("verdict", "accept"), ticked("type", "Entity Type"), *texts())
    assert (answer.verdict, answer.texts) == ("edit", {})
    assert answer.remark == "accepted with another type, which is an edit"
    (edited,) = PAGE.successors(SHOWN, answer, "reviewer-1")
    assert edited == STRATEGY.model_copy(
        update={"difference": DifferenceType.ENTITY_TYPE, "author": "reviewer-1"}
    )


def test_edited_texts_replace_the_old_ones() -> None:
    regions = texts(plan="Paint  it red.\n", contrastive_caption="A red bike.")
    answer = answer_to(ticked("verdict", "edit"), PROPOSED, *regions)
    assert answer.verdict == "edit"
    assert set(answer.texts) == set(TEXTS)
    (edited,) = PAGE.successors(SHOWN, answer, "reviewer-1")
    assert isinstance(edited, Strategy)
    assert (edited.plan, edited.contrastive_caption) == ("Paint it red.", "A red bike.")
    assert (edited.detail, edited.difference) == (STRATEGY.detail, STRATEGY.difference)


def test_if_an_old_and_a_new_text_are_sent_the_new_one_counts() -> None:
    regions = [*texts()[1:], written("detail", "The bike is blue.", STRATEGY.detail)]
    answer = answer_to(ticked("verdict", "edit"), PROPOSED, *regions)
    assert answer.texts["detail"] == "The bike is blue."


def test_an_edit_without_changes_is_an_acceptance() -> None:
    answer = answer_to(ticked("verdict", "edit"), PROPOSED, *texts())
    assert (answer.verdict, answer.remark) == ("accept", "an edit that changed nothing")


def test_the_reason_of_a_rejection_lists_all_problems() -> None:
    answer = answer_to(
        ticked("verdict", "reject"), ticked("problems", "hallucinated", "other"), PROPOSED,
        written("note", "a car, not a van"),
    )  # fmt: skip
    assert answer.verdict == "reject"
    assert answer.reason == "hallucinated, other: a car, not a van"
    assert answer.choices["problems"] == ("hallucinated", "other")


def test_invalid_answers_are_unclear(subtests: pytest.Subtests) -> None:
    for regions, problem in (
        ([PROPOSED], "no verdict was chosen"),
        ([ticked("verdict", "accept")], "no type was chosen"),
        (
            [ticked("verdict", "accept"), PROPOSED, ticked("problems", "infeasible")],
            "accepted, but problems are ticked: Can be neither found nor made",
        ),
        ([ticked("verdict", "reject")], "rejected, but no problem is ticked"),
        (
            [ticked("verdict", "edit"), PROPOSED, *texts(detail=" \u200b")],
            "edited, but empty: Detail",
        ),
    ):
        with subtests.test(problem=problem):
            assert PAGE.read_annotation(regions, SHOWN) == UnclearAnswer(problem=problem)


def test_two_answers_agree_if_type_and_texts_agree() -> None:
    one = answer_to(ticked("verdict", "edit"), PROPOSED, *texts(plan="Paint the bicycle red."))
    similar = answer_to(ticked("verdict", "edit"), PROPOSED, *texts(plan="paint the bicycle  red!"))
    different = answer_to(ticked("verdict", "edit"), PROPOSED, *texts(plan="Remove the wheel."))
    assert PAGE.same(one, similar, 0.9)
    assert not PAGE.same(one, similar, 1.0)
    assert not PAGE.same(one, different, 0.9)
    accepted = answer_to(ticked("verdict", "accept"), PROPOSED)
    assert not PAGE.same(one, accepted, 0.0)


def test_the_page_offers_the_types_of_the_taxonomy() -> None:
    (offered,) = [c for c in parse_config(PAGE.config).controls if c.name == "type"]
    assert list(offered.labels) == [kind.value for kind in DifferenceType]
    text = ParsedHtml(PAGE.instructions).text
    assert all(f"{kind}: {kind.explanation}" in text for kind in DifferenceType)
    assert "TYPES" not in text


def test_an_instruction_that_is_too_long_is_pointed_out(sqlite_store: Store) -> None:
    long = STRATEGY.model_copy(update={"editing_instruction": "Paint it red. " * 34})
    shown = SHOWN._replace(payload=long.payload())
    (content,) = PAGE.contents(sqlite_store, [shown], "http://b")
    (usual,) = PAGE.contents(sqlite_store, [SHOWN], "http://b")
    note = "NoteThe instruction has 102 words; with more than 100 no image is edited."
    assert note in ParsedHtml(content.data["strategy_html"]).text
    assert "Note" not in ParsedHtml(usual.data["strategy_html"]).text


def test_the_page_is_filled_and_markup_is_escaped(sqlite_store: Store) -> None:
    shown = a_strategy(HOSTILE).shown
    (content,) = PAGE.contents(sqlite_store, [shown], "http://127.0.0.1:8/blobs")
    assert set(content.data) == variables(PAGE.config)
    caption = ParsedHtml(content.data["caption_html"])
    assert (caption.tags, caption.text) == (["dl", "dt", "dd"], f"Caption{HOSTILE}")
    (guess,) = content.predictions
    assert guess["result"][0]["value"] == {"choices": ["Entity Attribute"]}
    assert [image.sha256 for image in content.images] == [STRATEGY.anchor.sha256]


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_corrects_the_type_and_a_text(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    shown, pictures = a_strategy(HOSTILE)
    (content,) = PAGE.contents(sqlite_store, [shown], bench.images_url)
    question = "Would this change make a good contrastive image?"
    page = bench.open(PAGE, content, pictures, question)
    assert page.chosen() == ["Entity Attribute[s]"]
    page.assert_apart(".loupe-image", ".loupe-strategy")
    page.press("x", "2")
    page.assert_in_view(".loupe-image img", ".loupe-field", ".loupe-answer")
    keep_screenshot(page)
    page.browser_page.locator("textarea[name=plan]").fill("Put snow on the $street {{now}}.")
    page.press("Shift+Enter")
    answer = PAGE.read_annotation(page.submit(), shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.choices == {"verdict": ("edit",), "type": ("Scene Attribute",)}
    assert answer.texts["plan"] == "Put snow on the $street {{now}}."
    assert answer.texts["detail"] == STRATEGY.detail
