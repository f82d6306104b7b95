"""The page of forced-choice tests: its data and answers, and a session in Chromium."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from loupe.annotate.answers import ReviewAnswer, UnclearAnswer
from loupe.annotate.audits import Direction
from loupe.annotate.interfaces.page import TaskContent
from loupe.annotate.interfaces.text_pages import SixWayChoice, option_order
from loupe.db.store import Store
from loupe.schemas.base import digest_of
from loupe.schemas.proposals import OPTIONS, ChoiceTest
from tests.annotate.browser import SUBMIT, Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, Proposal, person, proposal
from tests.annotate.interfaces.regions import Regions, ticked
from tests.annotate.interfaces.texts import DESCRIPTIONS

PAGE = SixWayChoice()


def choice_test(
    direction: Direction = "caption-to-image",
    answer: int = 2,
    caption: str = DESCRIPTIONS[0],
) -> Proposal:
    people = [person(f"option {number}") for number in range(OPTIONS)]
    captions = (caption, *DESCRIPTIONS[1:OPTIONS])
    if direction == "caption-to-image":
        captions = captions[:1]
    else:
        people = people[:1]
    record = ChoiceTest(
        source="street",
        direction=direction,
        captions=captions,
        images=tuple(one.picture for one in people),
        answer=answer,
    )
    return proposal(record, *people)


def content_of(test: Proposal, store: Store, images_url: str = "http://images") -> TaskContent:
    (content,) = PAGE.contents(store, [test.shown], images_url)
    return content


def picking(number: int) -> Regions:
    return [ticked("pick", str(number))]


def correct_place(test: Proposal) -> int:
    return option_order(test.shown.id).index(test.shown.record(ChoiceTest).answer) + 1


def test_only_the_correct_choice_passes() -> None:
    test = choice_test()
    right = correct_place(test)
    for place in range(1, OPTIONS + 1):
        answer = PAGE.read_annotation(picking(place), test.shown)
        assert isinstance(answer, ReviewAnswer)
        assert answer.verdict == ("accept" if place == right else "reject")
        assert answer.choices == {"pick": (str(place),)}
        if place != right:
            assert answer.reason == f"number {place} was chosen; the correct one was {right}"
    nothing = UnclearAnswer(problem="none of the six was chosen")
    assert PAGE.read_annotation([], test.shown) == nothing


def test_the_correct_option_is_in_every_place_equally_often() -> None:
    places = Counter(option_order(digest_of("test", str(n))).index(2) for n in range(600))
    assert set(places) == set(range(OPTIONS))
    assert all(60 < count < 140 for count in places.values())


def test_the_task_data_does_not_reveal_the_answer(sqlite_store: Store) -> None:
    """Tests that differ only in their answers differ only in the order of the options."""
    one, other = (content_of(choice_test(answer=answer), sqlite_store) for answer in (1, 4))
    assert sorted(one.data["options_html"]) == sorted(other.data["options_html"])
    assert one.data["question_html"] == other.data["question_html"]
    assert one.predictions == other.predictions == []


def test_all_images_of_the_page_are_listed(sqlite_store: Store, subtests: pytest.Subtests) -> None:
    for direction in get_args(Direction):
        with subtests.test(direction=direction):
            test = choice_test(direction)
            content = content_of(test, sqlite_store)
            html = content.data["question_html"] + content.data["options_html"]
            assert {image.sha256 for image in content.images} == set(test.pictures)
            assert all(f"http://images/{sha256}" in html for sha256 in test.pictures)


def test_markup_is_escaped(sqlite_store: Store) -> None:
    content = content_of(choice_test("image-to-caption", caption=HOSTILE), sqlite_store)
    assert "<script" not in content.data["options_html"]
    assert "&lt;script&gt;" in content.data["options_html"]


def test_a_test_has_one_question_and_six_different_options() -> None:
    record = choice_test().shown.record(ChoiceTest)
    for change, problem in (
        ({"images": record.images[:5]}, "must have 1 caption"),
        ({"images": (record.images[0],) * OPTIONS}, "must all differ"),
        ({"answer": OPTIONS}, "less than 6"),
    ):
        with pytest.raises(ValidationError, match=problem):
            ChoiceTest.model_validate({**dict(record), **change})


def test_answers_agree_if_the_same_option_was_chosen() -> None:
    shown = choice_test().shown
    first, second, third = (PAGE.read_annotation(picking(place), shown) for place in (1, 2, 1))
    assert isinstance(first, ReviewAnswer)
    assert isinstance(second, ReviewAnswer)
    assert isinstance(third, ReviewAnswer)
    assert PAGE.same(first, third, 0.9)
    assert not PAGE.same(first, second, 0.9)
    assert PAGE.summary(second, shown) == [("Chosen", "2")]
    both = PAGE.read_annotation([*picking(1), ticked("also", "1", "5")], shown)
    assert isinstance(both, ReviewAnswer)
    assert both.choices == {"pick": ("1",), "also": ("5",)}
    assert PAGE.same(first, both, 0.9)
    assert PAGE.successors(shown, second, "reviewer-1") == ()


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_annotator_chooses_by_keyboard(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    caption = f"{DESCRIPTIONS[0]} {HOSTILE}"
    tests = [choice_test(direction, caption=caption) for direction in get_args(Direction)]
    contents = [content_of(test, sqlite_store, bench.images_url) for test in tests]
    pictures = tests[0].pictures | tests[1].pictures
    page = bench.open(PAGE, contents, pictures, "Which of the six matches?")
    for number, test in enumerate(tests):
        if number:
            page.wait_for_next_task()
        assert page.chosen() == []
        right = correct_place(test)
        page.press(str(right % OPTIONS + 1), str(right))
        keep_screenshot(page)
        page.assert_in_view(".loupe-question", ".loupe-options li", ".lsf-choice", SUBMIT)
        page.assert_apart(".loupe-question", ".loupe-offered", ".loupe-answer", SUBMIT)
        answer = PAGE.read_annotation(page.submit(), test.shown)
        assert answer == ReviewAnswer(verdict="accept", choices={"pick": (str(right),)})
