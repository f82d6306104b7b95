"""Briefs of confusing captions are written and parsed."""

from hypothesis import given
from hypothesis import strategies as st

from loupe.schemas.requests import ConfusionBrief
from loupe.schemas.taxonomy import RetrievalTask

values = st.text(min_size=1).map(lambda text: " ".join(text.split())).filter(bool)


@given(st.sampled_from(RetrievalTask), values, st.lists(values, max_size=4))
def test_a_written_brief_is_parsed_to_the_same_brief(
    task: RetrievalTask, caption: str, facts: list[str]
) -> None:
    brief = ConfusionBrief(task=task, caption=caption, facts=tuple(facts))
    assert ConfusionBrief.parse(brief.text()) == brief


def test_the_lines_of_a_brief() -> None:
    brief = ConfusionBrief(
        task=RetrievalTask.COLOR, caption="A red car.\nFact: no", facts=("The car is green.",)
    )
    assert brief.text() == (
        "Task: color\nCaption to confuse with: A red car. Fact: no\nFact: The car is green."
    )
