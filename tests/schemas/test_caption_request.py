"""Briefs of caption requests: their lines are written and parsed."""

from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.recos import CaptionVerdict
from loupe.schemas.requests import CaptionBrief, Direction
from loupe.schemas.taxonomy import RetrievalTask

FIRST = """Task: color
Captions: 5
Fact: The car is red.
Fact: The bicycle is blue."""
REVISION = """Task: numerical calculation
Captions: 1
Fact: 3 + 4 = 7.
Caption to replace: A sum: on paper.
Direction: more detail
Tried, too detailed: 3 + 4 on lined paper
Tried, too general: A sum"""

texts = st.text().map(lambda text: " ".join(text.split()))


def test_the_lines_of_a_first_brief() -> None:
    brief = CaptionBrief(
        task=RetrievalTask.COLOR, facts=("The car is\n red.", "The bicycle is blue.")
    )
    assert brief.text() == FIRST
    assert CaptionBrief.parse(FIRST).facts == ("The car is red.", "The bicycle is blue.")


def test_the_lines_of_a_brief_for_a_revision() -> None:
    brief = CaptionBrief.parse(REVISION)
    assert brief.direction is Direction.MORE_DETAIL
    assert brief.caption == "A sum: on paper."
    assert brief.too_detailed == ("3 + 4 on lined paper",)
    assert brief.too_general == ("A sum",)
    assert brief.text() == REVISION


@given(
    st.builds(
        CaptionBrief,
        facts=st.lists(texts).map(tuple),
        caption=texts,
        direction=st.sampled_from(Direction),
        too_detailed=st.lists(texts).map(tuple),
        too_general=st.lists(texts).map(tuple),
    )
)
def test_a_written_brief_is_parsed_to_the_same_brief(brief: CaptionBrief) -> None:
    assert CaptionBrief.parse(brief.text()) == brief


def test_the_direction_follows_from_the_verdict() -> None:
    assert Direction.after(CaptionVerdict.OVER_DETAILED) is Direction.LESS_DETAIL
    assert Direction.after(CaptionVerdict.UNDER_DETAILED) is Direction.MORE_DETAIL
