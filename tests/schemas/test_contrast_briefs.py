"""Briefs of contrastive benchmarks are written and parsed."""

from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.requests import RefinementBrief, StrategyBrief

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
