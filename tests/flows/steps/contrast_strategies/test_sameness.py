"""Detection of strategies that change nothing."""

import pytest

from loupe.flows.ccd.strategies import what_stays
from loupe.schemas.requests import ProposedStrategy
from loupe.schemas.taxonomy import DifferenceType

CAPTION = "A red car on a street."


def proposed(**changes: str) -> ProposedStrategy:
    texts = {
        "detail": "The car is red.",
        "plan": "Paint it blue.",
        "contrastive_caption": "A blue car on a street.",
        "editing_instruction": "Paint the car blue.",
    }
    return ProposedStrategy(difference=DifferenceType.ENTITY_ATTRIBUTE, **{**texts, **changes})


def test_a_change_of_a_value_to_itself_is_detected(subtests: pytest.Subtests) -> None:
    texts = [
        "Change the red car into a red car.",
        "change the colour of the car from red to red",
        "Replace the red car with a red car, keeping all else.",
        "Recolor the car from red to red while keeping the background.",
        "The red car becomes a red car.",
        "Change the car to red.",
        "Make the car's colour red instead of red.",
        "Swap the dog for the dog.",
        "Change the Labrador to a labrador",
        "Transform the scene from day to day.",
    ]
    for field in ["plan", "editing_instruction"]:
        for text in texts:
            with subtests.test(field=field, text=text):
                assert what_stays(proposed(**{field: text}), CAPTION) is not None


def test_a_real_change_is_accepted(subtests: pytest.Subtests) -> None:
    cases = [
        "Change the dogs chasing the cat into the cat chasing the dogs.",
        "Change the dog from sitting to wagging its tail from side to side.",
        "Make the monkey jump from branch to branch.",
        "Move the cup from the table to the table's edge.",
        "Change the car from red to light red.",
        "Turn the red car to the left.",
        "Replace the red car with a blue car.",
        "Change the red car into two red cars.",
        "Change the cup on the book into the cup under the book.",
        "Change the colour of the car from red to blue, keeping the red of the sign.",
        "Change the photo into a black and white photo.",
        "Paint the car blue instead of red.",
        "Change the cup of coffee into a cup by coffee.",
    ]
    for text in cases:
        with subtests.test(text=text):
            assert what_stays(proposed(plan=text, editing_instruction=text), CAPTION) is None


def test_the_caption_of_the_anchor_is_not_a_contrastive_caption() -> None:
    reason = what_stays(proposed(contrastive_caption="the red car, on the STREET"), CAPTION)
    assert reason == "The caption of the contrastive image says what the caption of the image says."
    assert what_stays(proposed(contrastive_caption="A red car under a street."), CAPTION) is None


def test_a_plan_that_repeats_the_detail_is_no_change() -> None:
    assert what_stays(proposed(plan="the car is red"), CAPTION) is not None
