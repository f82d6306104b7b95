import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.backend import parse_config
from loupe.annotate.interfaces.image_pages import TrackletSelection
from loupe.annotate.interfaces.page import (
    ANSWERS,
    TAKES,
    TaskContent,
    adjudication_config,
    adjudication_data,
    adjudication_instructions,
    choice_labels,
    marked_differences,
    taken_answer,
    text_similarity,
)
from loupe.annotate.interfaces.registry import INTERFACES
from loupe.annotate.interfaces.strategy_pages import GroupRefinement
from loupe.annotate.interfaces.text_pages import RewriteRevision
from loupe.annotate.queues import shipped
from loupe.db.store import Store
from loupe.schemas.base import sha256_of
from loupe.schemas.proposals import Tracklet
from tests.annotate.browser import Bench, LabellingPage
from tests.annotate.interfaces.proposed import HOSTILE, a_group, a_tracklet, one_of_each_kind
from tests.annotate.interfaces.regions import ParsedHtml, ticked, variables, written

ANSWER_TO_GROUP = ReviewAnswer(
    verdict="edit", choices={"verdict": ("edit",)}, texts={"text_0_0": "A blue bike stands."}
)


def by_key(*answers: ReviewAnswer) -> dict[str, ReviewAnswer]:
    """Return answers by the keys of their annotations."""
    return {sha256_of(answer.model_dump_json().encode()): answer for answer in answers}


def test_the_panel_with_answers_follows_the_item() -> None:
    for name, interface in INTERFACES.items():
        config = adjudication_config(interface)
        tags = [tag.get("name") for tag in ET.fromstring(config).iter() if tag.get("name")]  # noqa: S314
        plain = [tag.get("name") for tag in ET.fromstring(interface.config).iter()]  # noqa: S314
        place = tags.index("answers")
        before, after = tags[:place], tags[place + 2 :]
        assert [*before, *after] == [one for one in plain if one], name
        assert set(before) - {"verdict", "problems", "note"}, name  # the item
        assert "required=" not in config, name
        assert variables(config) == variables(interface.config) | {ANSWERS, TAKES}, name


def test_label_studio_accepts_every_adjudication_page() -> None:
    for page, interface in INTERFACES.items():
        parsed = parse_config(adjudication_config(interface))
        controls = {control.name for control in parsed.controls}
        plain = {control.name for control in parse_config(interface.config).controls}
        assert controls == plain | {"take"}, page
        tags = ET.fromstring(adjudication_config(interface)).iter()  # noqa: S314 - our own page
        names = [name for tag in tags if (name := tag.get("name"))]
        assert len(names) == len(set(names)), page


def test_the_instructions_include_those_of_the_annotators() -> None:
    for name, interface in INTERFACES.items():
        text = adjudication_instructions(interface)
        assert "Your answer is final" in text, name
        assert text.endswith(interface.instructions), name
        ET.fromstring(f"<div>{text}</div>")  # noqa: S314 - every tag must be closed


def test_the_answers_of_every_step_can_be_shown() -> None:
    accepted = ReviewAnswer(
        verdict="accept", choices={"verdict": ("accept",), "fit": ("own",), "pick": ("1",)}
    )
    rejected = ReviewAnswer(
        verdict="reject",
        choices={"verdict": ("reject",), "fit": ("both",), "pick": ("2",)},
        reason=f"other: {HOSTILE}",
    )
    shown = one_of_each_kind()
    for name, step in shipped().steps.items():
        page = INTERFACES[step.interface]
        data = adjudication_data(page, shown[step.kind].shown, by_key(accepted, rejected))
        parsed = ParsedHtml(data[ANSWERS])
        assert parsed.text.count("Answer A") == parsed.text.count("Answer B") == 1, name
        assert "mark" in parsed.tags, name
        codes = [
            alias for (_, alias), label in choice_labels(page.config).items() if alias != label
        ]
        verdicts = re.findall(
            "<dt>Verdict</dt><dd>(?:<mark[^>]*>)?(.*?)(?:</mark>)?</dd>", data[ANSWERS]
        )
        assert not set(verdicts) & set(codes), name
        assert {"script", "img"}.isdisjoint(parsed.tags), name


def test_answers_are_named_by_letters_and_differences_are_marked() -> None:
    shown = a_group(images=2, captions=1).shown
    other = ANSWER_TO_GROUP.model_copy(update={"texts": {"text_0_0": "A red bike stands."}})
    html = adjudication_data(GroupRefinement(), shown, by_key(ANSWER_TO_GROUP, other))[ANSWERS]
    text = ParsedHtml(html).text
    assert text.count("Answer A") == text.count("Answer B") == 1
    assert '<mark class="loupe-differs">blue</mark>' in html
    assert '<mark class="loupe-differs">red</mark>' in html
    assert html.count("<mark") == 2


def test_only_texts_under_the_same_term_are_compared() -> None:
    summaries = [
        [("Verdict", "reject"), ("Reason", "not in the image"), ("left out", " ")],
        [("Verdict", "accept"), ("Text", "A woman in the red coat.")],
    ]
    marked = [re.findall("<mark[^>]*>(.*?)</mark>", one) for one in marked_differences(summaries)]
    assert marked == [
        ["reject", "Reason", "not in the image"],
        ["accept", "Text", "A woman in the red coat."],
    ]


def test_the_order_of_answers_does_not_reveal_their_authors() -> None:
    shown = a_group(images=2, captions=1).shown
    answers = [
        ANSWER_TO_GROUP,
        ReviewAnswer(verdict="accept"),
        ReviewAnswer(verdict="reject", reason="not a group"),
    ]
    panels = {
        adjudication_data(GroupRefinement(), shown, by_key(*order))[ANSWERS]
        for order in permutations(answers)
    }
    assert len(panels) == 1
    firsts = {
        ParsedHtml(
            adjudication_data(GroupRefinement(), shown._replace(id=str(number)), by_key(*answers))[
                ANSWERS
            ]
        ).text.partition("Answer B")[0]
        for number in range(20)
    }
    assert len(firsts) > 1, "the same answer is always first"


@given(st.lists(st.lists(st.text(max_size=20), min_size=1, max_size=3), min_size=1, max_size=4))
def test_marks_change_neither_text_nor_tags(values: list[list[str]]) -> None:
    summaries = [[(text, text) for text in texts] for texts in values]
    for summary, html in zip(summaries, marked_differences(summaries), strict=True):
        shown = [row for row in summary if row[1].strip()]
        parsed = ParsedHtml(html)
        assert parsed.text == "".join(name + value for name, value in shown)
        tags = [tag for tag in parsed.tags if tag != "mark"]
        assert tags == ["dl", *("dt", "dd") * len(shown)]
    same = marked_differences([summaries[0], summaries[0]])
    assert "<mark" not in "".join(same)


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_adjudicator_sees_the_answers_and_adopts_one(
    bench: Bench, sqlite_store: Store, keep_screenshot: Callable[[LabellingPage], Path]
) -> None:
    interface = TrackletSelection()
    shown, pictures = a_tracklet(frames=12)
    numbers = [str(frame.frame) for frame in shown.record(Tracklet).frames]
    answers = [
        interface.read_annotation(regions, shown)
        for regions in (
            [ticked("verdict", "keep"), ticked("dropped", numbers[2], numbers[5])],
            [ticked("verdict", "split"), ticked("cuts", numbers[8]), ticked("dropped", numbers[2])],
            [ticked("verdict", "reject"), ticked("reason", "other"), written("note", HOSTILE)],
        )
    ]
    given = {f"key {at}": one for at, one in enumerate(answers) if isinstance(one, ReviewAnswer)}
    (content,) = interface.contents(sqlite_store, [shown], bench.images_url)
    panel = adjudication_data(interface, shown, given)
    content = TaskContent({**content.data, **panel}, content.predictions)
    page = bench.open(_Adjudicated(), content, pictures, "Annotators disagree")
    page.press("2")
    page.assert_in_view(".loupe-given", ".loupe-frame", ".loupe-verdict", ".loupe-cuts")
    page.assert_apart(".loupe-conflict", ".loupe-strip", ".loupe-verdict")
    page.press("Alt+2")
    keep_screenshot(page)
    regions = page.submit()
    assert taken_answer(regions) == panel[TAKES][1]["value"]
    answer = interface.read_annotation(regions, shown)
    assert isinstance(answer, ReviewAnswer)
    assert answer.choices["cuts"] == (numbers[8],)


class _Adjudicated(TrackletSelection):
    """The tracklet page for adjudicators."""

    name = "tracklet-adjudication"

    @property
    def config(self) -> str:
        return adjudication_config(TrackletSelection())

    @property
    def instructions(self) -> str:
        return adjudication_instructions(TrackletSelection())


PAGE = RewriteRevision()


def test_text_similarity_ignores_case_and_white_space() -> None:
    for one, other, similarity in (
        ("A man.", "a  MAN.\n", 1.0),
        ("", "", 1.0),
        ("abcd", "abcx", 0.75),
        ("a", "", 0.0),
    ):
        assert text_similarity(one, other) == pytest.approx(similarity), (one, other)


@given(st.text(max_size=30), st.text(max_size=30))
def test_text_similarity_is_symmetric(one: str, other: str) -> None:
    assert text_similarity(one, other) == text_similarity(other, one)
    assert 0 <= text_similarity(one, other) <= 1
    assert text_similarity(one, one) == 1


def test_a_text_in_only_one_answer_is_a_difference() -> None:
    one = ReviewAnswer(verdict="edit", texts={"text": "A man."})
    other = ReviewAnswer(verdict="edit", texts={"text": "A man.", "more": "He walks."})
    assert PAGE.same(one, one, 1.0)
    assert not PAGE.same(one, other, 0.0)


def test_answers_with_different_choices_differ() -> None:
    one = ReviewAnswer(verdict="accept", choices={"fits": ("yes",)})
    other = ReviewAnswer(verdict="accept", choices={"fits": ("no",)})
    assert not PAGE.same(one, other, 0.0)
