"""The built-in contraster: strategies for drawn images, and refined captions."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from models.builtin.stills.contraster import stated_difference
from models.builtin.stills.drawing import draw_still
from models.builtin.stills.editor import edited_image, read_change
from models.builtin.stills.scene import read_scene
from models.builtin.stills.text import content_of, is_true
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
from sources.demonstration.stills import jpeg_of, plan_stills

SEED = 5150


@pytest.fixture(scope="module")
def model() -> ChatModel:
    return build_chat_model(BuiltinContraster())


def _still(number: int) -> tuple[ChatImage, str]:
    *_, truth = plan_stills(SEED, number)
    data = jpeg_of(draw_still(truth.scene))
    return ChatImage(media_type="image/jpeg", data=data), truth.captions[0]


def _picture(image: ChatImage) -> Image.Image:
    with Image.open(io.BytesIO(image.data)) as picture:
        return picture.convert("RGB")


def _answer(model: ChatModel, purpose: str, subject: str, *images: ChatImage) -> ChatOutcome:
    request = ChatRequest(
        purpose=purpose, prompt="see the brief", prompt_digest="0", subject=subject, images=images
    )
    [(_, outcome)] = model.answer([request])
    return outcome


def test_strategies_can_be_drawn_and_captions_are_true_of_one_image_only(
    model: ChatModel,
) -> None:
    types = set()
    for number in range(1, 9):
        image, caption = _still(number)
        answer = _answer(model, STRATEGY_PURPOSE, StrategyBrief(caption=caption).text(), image)
        assert isinstance(answer, ChatAnswer)
        found = json.loads(answer.text)[STRATEGIES_FIELD]
        assert len(found) >= 3
        types |= {strategy["type"] for strategy in found}
        pictures = [_picture(image)]
        for strategy in found:
            change = read_change(strategy["instruction"])
            assert change is not None, strategy
            pictures.append(edited_image(pictures[0], change)[0])
        contents = [content_of(scene) for one in pictures if (scene := read_scene(one))]
        for strategy, content in zip(found, contents[1:], strict=True):
            assert is_true(strategy["caption"], content)
            assert not is_true(strategy["caption"], contents[0])
        brief = RefinementBrief(
            images=len(pictures), caption=caption, differences=tuple(one["plan"] for one in found)
        )
        images = [ChatImage(media_type="image/jpeg", data=jpeg_of(picture)) for picture in pictures]
        fine = _answer(model, REFINEMENT_PURPOSE, brief.text(), *images)
        assert isinstance(fine, ChatAnswer)
        for place, text in enumerate(json.loads(fine.text)[CAPTIONS_FIELD]):
            assert [is_true(text, one) for one in contents] == [
                place == other for other in range(len(contents))
            ]
    assert len(types) >= 5


def test_strategies_have_different_types_and_a_repair_gives_the_same_answer(
    model: ChatModel,
) -> None:
    image, caption = _still(3)
    brief = StrategyBrief(caption=caption).text()
    first, again, repaired = (
        _answer(model, purpose, brief, image)
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
    fewer = _answer(model, STRATEGY_PURPOSE, StrategyBrief(caption=caption, count=1).text(), image)
    assert isinstance(fewer, ChatAnswer)
    assert json.loads(fewer.text)[STRATEGIES_FIELD] == found[:1]


def test_only_style_and_light_are_proposed_for_photographs(model: ChatModel) -> None:
    generator = np.random.default_rng(1)
    coarse = Image.fromarray(generator.integers(60, 250, (12, 16, 3), np.uint8))
    picture = coarse.resize((320, 240), Image.Resampling.BICUBIC)
    grain = np.asarray(picture) + generator.normal(0, 9, (240, 320, 3))
    image = ChatImage(
        media_type="image/jpeg",
        data=jpeg_of(Image.fromarray(np.clip(grain, 0, 255).astype(np.uint8))),
    )
    caption = "A man rides a horse along the shore"
    answer = _answer(model, STRATEGY_PURPOSE, StrategyBrief(caption=caption).text(), image)
    assert isinstance(answer, ChatAnswer)
    found = json.loads(answer.text)[STRATEGIES_FIELD]
    assert {strategy["type"] for strategy in found} == {
        DifferenceType.STYLE, DifferenceType.SCENE_ATTRIBUTE,
    }  # fmt: skip
    assert all(strategy["caption"].startswith(caption) for strategy in found)
    brief = RefinementBrief(
        images=3, caption=caption, differences=tuple(one["plan"] for one in found[:2])
    )
    fine = _answer(model, REFINEMENT_PURPOSE, brief.text(), image, image, image)
    assert isinstance(fine, ChatAnswer)
    captions = json.loads(fine.text)[CAPTIONS_FIELD]
    assert len(set(captions)) == 3
    assert all(text.startswith(caption) for text in captions)


def test_images_that_cannot_be_distinguished_are_refused(model: ChatModel) -> None:
    image, caption = _still(1)
    brief = RefinementBrief(images=2, caption=caption, differences=("Entity Type: another car",))
    outcome = _answer(model, REFINEMENT_PURPOSE, brief.text(), image, image)
    assert isinstance(outcome, ChatFailure)
    assert "distinguished" in outcome.detail


def test_another_language_is_refused(model: ChatModel) -> None:
    image, caption = _still(1)
    brief = RefinementBrief(
        images=2, caption=caption, differences=("The light changes from bright to dim.",),
        second_language="zh",
    )  # fmt: skip
    outcome = _answer(model, REFINEMENT_PURPOSE, brief.text(), image, image)
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
            outcome = _answer(model, purpose, subject, *[image] * images)
            assert isinstance(outcome, ChatFailure)
            assert (outcome.reason, outcome.retriable) == ("cannot_answer", False)


def test_an_image_that_cannot_be_read_is_refused(model: ChatModel) -> None:
    broken = ChatImage(media_type="image/png", data=b"no image")
    outcome = _answer(model, STRATEGY_PURPOSE, StrategyBrief(caption="x").text(), broken)
    assert isinstance(outcome, ChatFailure)
    assert "cannot be read" in outcome.detail


def test_differences_are_read_from_plans(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, tuple[str, str] | None]] = [
        (
            "The style changes from a colour picture to a pencil sketch.",
            (", shown as a colour picture", ", shown as a pencil sketch"),
        ),
        (
            "Scene Attribute: The light changes from bright to dim",
            (" in bright light", " in dim light"),
        ),
        ("The car is blue", None),
    ]
    for plan, wanted in cases:
        with subtests.test(plan=plan):
            found = stated_difference(plan)
            assert (found and (found.anchor, found.sibling)) == wanted
