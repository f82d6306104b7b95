"""The built-in contraster: strategies for drawn images, and refined captions."""

import io
import json

import pytest
from PIL import Image

from loupe.demo.stills.contraster import stated_difference
from loupe.demo.stills.drawing import draw_still
from loupe.demo.stills.editor import edited_image, read_change
from loupe.demo.stills.scene import read_scene
from loupe.demo.stills.text import content_of, is_true
from loupe.demo.worlds.stills import jpeg_of, plan_stills
from loupe.models.chat import ChatModel
from loupe.models.registry import build_chat_model
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatOutcome, ChatRequest
from loupe.schemas.profile import BuiltinContraster
from loupe.schemas.requests import (
    CAPTIONS_FIELD,
    REFINEMENT_PURPOSE,
    STRATEGIES_FIELD,
    STRATEGY_PURPOSE,
    RefinementBrief,
    StrategyBrief,
)

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
