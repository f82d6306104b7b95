"""Requests for fine captions and for repairs of their answers."""

import io

import pytest
from PIL import Image

from loupe.flows.ccd.refining import (
    answer_schema,
    request_refinement,
    resized_images,
)
from loupe.prompts.loader import load_prompt
from loupe.schemas.chat import ChatImage, ChatRequest
from loupe.schemas.profile import ImageArea
from loupe.schemas.records import Rejection
from loupe.schemas.requests import RefinementBrief
from tests.flows.steps.refine_captions.refined import BRIEF, TRANSLATED

COLOURS = ("red", "green", "blue")


def png(colour: str, width: int = 90, height: int = 60) -> ChatImage:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(buffer, "PNG")
    return ChatImage(media_type="image/png", data=buffer.getvalue())


def a_request(brief: RefinementBrief = BRIEF) -> ChatRequest:
    prompt = load_prompt("refine_captions")
    images = resized_images([png(colour) for colour in COLOURS], ImageArea())
    assert not isinstance(images, Rejection)
    return request_refinement(images, brief, prompt)


def test_all_images_are_sent_in_order_and_scaled() -> None:
    request = a_request()
    pictures = [Image.open(io.BytesIO(image.data)) for image in request.images]
    assert [picture.size for picture in pictures] == [(560, 392)] * 3
    shown = [picture.getpixel((5, 5)) for picture in pictures]
    assert shown == [(255, 0, 0), (0, 128, 0), (0, 0, 255)]
    assert request.purpose == "refine_captions"
    assert request.subject == BRIEF.text()
    assert f"<brief>\n{BRIEF.text()}\n</brief>" in request.prompt


def test_the_prompt_of_the_paper_has_the_caption_and_no_planned_difference() -> None:
    brief = BRIEF.model_copy(update={"differences": ()})
    images = [png(colour) for colour in COLOURS]
    request = request_refinement(images, brief, load_prompt("paper_refine_captions"))
    assert f"Coarse-grained Caption of the First Image:\n{BRIEF.caption}" in request.prompt
    assert "exactly 3 strings" in request.prompt
    assert RefinementBrief.parse(request.subject) == brief


def test_translations_are_requested_only_with_a_second_language() -> None:
    assert "translat" not in a_request().prompt.casefold()
    prompt = a_request(TRANSLATED).prompt
    assert 'code "zh"' in prompt
    assert 'field "translations" is a list' in prompt


def test_the_schema_requires_one_text_for_each_image() -> None:
    schema = answer_schema(TRANSLATED)
    assert schema["required"] == ["captions", "translations"]
    assert schema["additionalProperties"] is False
    for texts in schema["properties"].values():
        assert (texts["minItems"], texts["maxItems"]) == (3, 3)
    assert answer_schema(BRIEF)["required"] == ["captions"]


def test_a_wrong_number_of_images_raises_value_error() -> None:
    prompt = load_prompt("refine_captions")
    with pytest.raises(ValueError, match="the brief describes 3 images; got 2"):
        request_refinement([png("red"), png("blue")], BRIEF, prompt)


def test_one_unusable_image_rejects_the_group() -> None:
    images = [png("red"), png("green", 2010, 10), png("blue")]
    refused = resized_images(images, ImageArea())
    assert isinstance(refused, Rejection)
    assert (refused.stage, refused.reason) == ("refine_captions", "extreme_aspect_ratio")
    assert refused.context == {"image": 1}
