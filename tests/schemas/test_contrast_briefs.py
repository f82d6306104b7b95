"""Briefs of contrastive benchmarks are written and parsed; malformed ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.errors import FormatError
from schemas.requests import RefinementBrief, StrategyBrief

TEXT = st.text(min_size=1, max_size=40).filter(lambda text: bool(" ".join(text.split())))


def folded(text: str) -> str:
    return " ".join(text.split())


@given(st.integers(1, 9), TEXT, st.lists(TEXT, max_size=3))
def test_a_written_strategy_brief_is_parsed_to_the_same_values(
    count: int, caption: str, facts: list[str]
) -> None:
    brief = StrategyBrief(count=count, caption=caption, facts=tuple(facts))
    read = StrategyBrief.parse(brief.text())
    assert (read.count, read.caption) == (count, folded(caption))
    assert read.facts == tuple(map(folded, facts))
    assert StrategyBrief.parse(read.text()) == read


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3), st.sampled_from((None, "zh")))
def test_a_written_refinement_brief_is_parsed_to_the_same_values(
    caption: str, differences: list[str], language: str | None
) -> None:
    brief = RefinementBrief(
        images=len(differences) + 1,
        caption=caption,
        differences=tuple(differences),
        second_language=language,
    )
    read = RefinementBrief.parse(brief.text())
    assert read.differences == tuple(map(folded, differences))
    assert (read.images, read.second_language) == (brief.images, language)


def test_a_malformed_strategy_brief_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("Strategies: 4", "strategy brief: caption: Field required"),
        ("Caption: A car.\nCaption: A bus.", "strategy brief, line 2: cannot read"),
        ("Caption: A car.\nColour: red", "line 2: cannot read 'Colour: red'"),
        ("Strategies: many\nCaption: A car.", "strategy brief: count"),
    ]
    for text, message in cases:
        with subtests.test(text=text, message=message), pytest.raises(FormatError, match=message):
            StrategyBrief.parse(text)


def test_a_refinement_brief_needs_a_difference_for_every_other_image() -> None:
    with pytest.raises(ValidationError, match="3 images need 2 differences; got 1"):
        RefinementBrief(images=3, caption="A car.", differences=("Entity Type: a bus",))
    assert RefinementBrief.parse("Images: 2\nCaption: A car.").differences == ()
