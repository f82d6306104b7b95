"""Strategies are of what the picture holds; fine captions are true of their images alone."""

import json

import numpy as np
import pytest
from PIL import Image

from benchmarks.stills_editing import measure
from models.builtin.contrasts import unseen_difference
from models.chat import ChatModel
from models.registry import build_chat_model
from schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatOutcome, ChatRequest
from schemas.profile import BuiltinContraster
from schemas.requests import (
    CAPTIONS_FIELD,
    REFINEMENT_PURPOSE,
    REPAIR_PURPOSE,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    RefinementBrief,
    StrategyBrief,
)
from schemas.taxonomy import DifferenceType
from sources.demonstration.stills.writing import draw_still, jpeg_of, plan_stills

SEED = 5150


@pytest.fixture(scope="module")
def model() -> ChatModel:
    return build_chat_model(BuiltinContraster())


def _still(number: int) -> tuple[ChatImage, str]:
    *_, still = plan_stills(SEED, number)
    picture, truth = draw_still(still, SEED)
    return ChatImage(media_type="image/jpeg", data=jpeg_of(picture)), truth.captions[0]


def _asked(model: ChatModel, purpose: str, subject: str, *images: ChatImage) -> ChatOutcome:
    request = ChatRequest(
        purpose=purpose, prompt="see the brief", prompt_digest="0", subject=subject, images=images
    )
    [(_, outcome)] = model.answer([request])
    return outcome


def test_contrasts_of_a_world_come_out_as_asked_and_captions_are_true() -> None:
    tally = measure(6, SEED)
    assert tally.asked["three strategies"] == 6
    assert sum(asked for name, asked in tally.asked.items() if name.startswith("edit")) >= 18
    assert len([name for name in tally.asked if name.startswith("edit")]) >= 5
    assert tally.asked["refined caption"] >= 18
    assert tally.wrong == []


def test_strategies_are_of_different_types_and_a_repair_answers_the_same(model: ChatModel) -> None:
    image, caption = _still(3)
    brief = StrategyBrief(caption=caption).text()
    first, again, repaired = (
        _asked(model, purpose, brief, image)
        for purpose in (STRATEGY_PURPOSE, STRATEGY_PURPOSE, REPAIR_PURPOSE)
    )
    assert isinstance(first, ChatAnswer)
    assert isinstance(again, ChatAnswer)
    assert isinstance(repaired, ChatAnswer)
    assert first.text == again.text == repaired.text
    found = json.loads(first.text)[STRATEGIES_FIELD]
    types = [DifferenceType(strategy["type"]) for strategy in found]
    assert 3 <= len(types) == len(set(types)) <= 4
    assert DifferenceType.ENTITY_EMOTION not in types
    assert all(strategy["caption"] != caption for strategy in found)
    fewer = _asked(model, STRATEGY_PURPOSE, StrategyBrief(caption=caption, count=1).text(), image)
    assert isinstance(fewer, ChatAnswer)
    assert json.loads(fewer.text)[STRATEGIES_FIELD] == found[:1]


def test_of_photographs_only_style_and_light_are_proposed(model: ChatModel) -> None:
    generator = np.random.default_rng(1)
    coarse = Image.fromarray(generator.integers(60, 250, (12, 16, 3), np.uint8))
    picture = coarse.resize((320, 240), Image.Resampling.BICUBIC)
    grain = np.asarray(picture) + generator.normal(0, 9, (240, 320, 3))
    image = ChatImage(
        media_type="image/jpeg",
        data=jpeg_of(Image.fromarray(np.clip(grain, 0, 255).astype(np.uint8))),
    )
    caption = "A man rides a horse along the shore"
    answer = _asked(model, STRATEGY_PURPOSE, StrategyBrief(caption=caption).text(), image)
    assert isinstance(answer, ChatAnswer)
    found = json.loads(answer.text)[STRATEGIES_FIELD]
    assert {strategy["type"] for strategy in found} == {
        DifferenceType.STYLE, DifferenceType.SCENE_ATTRIBUTE,
    }  # fmt: skip
    assert all(strategy["caption"].startswith(caption) for strategy in found)
    brief = RefinementBrief(
        images=3, caption=caption, differences=tuple(one["plan"] for one in found[:2])
    )
    fine = _asked(model, REFINEMENT_PURPOSE, brief.text(), image, image, image)
    assert isinstance(fine, ChatAnswer)
    captions = json.loads(fine.text)[CAPTIONS_FIELD]
    assert len(set(captions)) == 3
    assert all(text.startswith(caption) for text in captions)


def test_what_cannot_be_distinguished_is_refused(model: ChatModel) -> None:
    image, caption = _still(1)
    brief = RefinementBrief(images=2, caption=caption, differences=("Entity Type: another car",))
    outcome = _asked(model, REFINEMENT_PURPOSE, brief.text(), image, image)
    assert isinstance(outcome, ChatFailure)
    assert "distinguished" in outcome.detail


def test_another_language_is_refused(model: ChatModel) -> None:
    image, caption = _still(1)
    brief = RefinementBrief(
        images=2, caption=caption, differences=("The weather changes from dry to rainy.",),
        second_language="zh",
    )  # fmt: skip
    outcome = _asked(model, REFINEMENT_PURPOSE, brief.text(), image, image)
    assert isinstance(outcome, ChatFailure)
    assert "English" in outcome.detail


def test_other_requests_are_refused(subtests: pytest.Subtests, model: ChatModel) -> None:
    cases: list[tuple[str, str, int]] = [
        ("rewrite_description", "Caption: x", 1),
        (STRATEGY_PURPOSE, "no brief at all", 1),
        (STRATEGY_PURPOSE, StrategyBrief(caption="x").text(), 0),
        (REFINEMENT_PURPOSE, RefinementBrief(images=2, caption="x", differences=("y",)).text(), 1),
    ]
    for purpose, subject, images in cases:
        with subtests.test(purpose=purpose, subject=subject, images=images):
            image, _ = _still(1)
            outcome = _asked(model, purpose, subject, *[image] * images)
            assert isinstance(outcome, ChatFailure)
            assert (outcome.reason, outcome.retriable) == ("refused_request", False)


def test_an_image_that_cannot_be_read_is_refused(model: ChatModel) -> None:
    broken = ChatImage(media_type="image/png", data=b"no image")
    outcome = _asked(model, STRATEGY_PURPOSE, StrategyBrief(caption="x").text(), broken)
    assert isinstance(outcome, ChatFailure)
    assert "cannot be read" in outcome.detail


def test_plans_say_what_is_not_seen(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[str, str] | None]] = [
        (
            "Scene Attribute: The weather changes from dry to rainy.",
            (" in dry weather", " in rainy weather"),
        ),
        (
            "The style changes from a colour picture to a pencil sketch.",
            (", shown as a colour picture", ", shown as a pencil sketch"),
        ),
        ("The light changes from bright to dim", (" in bright light", " in dim light")),
        ("The car is blue", None),
    ]
    for plan, wanted in cases:
        with subtests.test(plan=plan):
            found = unseen_difference(plan)
            assert (found and (found.anchor, found.sibling)) == wanted
