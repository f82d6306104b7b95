import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from models.registry import build_chat_model
from schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatOutcome, ChatRequest
from schemas.errors import ModelError
from schemas.profile import Sampling, TransformersChat

pytestmark = pytest.mark.slow

SCHEMA = {
    "type": "object",
    "properties": {"rewrite": {"type": "string", "maxLength": 20}},
    "required": ["rewrite"],
    "additionalProperties": False,
}


def answers(
    folder: Path, asked: list[ChatRequest], batch_size: int = 4, **sampling: Any
) -> list[ChatOutcome]:
    spec = TransformersChat(
        provider="transformers",
        name=str(folder),
        revision="1",
        device="cpu",
        batch_size=batch_size,
        sampling=Sampling(**{"max_tokens": 60, **sampling}),
    )
    outcomes = dict(build_chat_model(spec).answer(asked))
    return [outcomes[position] for position in range(len(asked))]


def request(text: str = "A man walks.", **fields: Any) -> ChatRequest:
    return ChatRequest(purpose="test", prompt=text, prompt_digest="d", **fields)


def picture(colour: str) -> ChatImage:
    encoded = BytesIO()
    Image.new("RGB", (90, 60), colour).save(encoded, "PNG")
    return ChatImage(media_type="image/png", data=encoded.getvalue())


def text_of(outcome: ChatOutcome) -> str:
    assert isinstance(outcome, ChatAnswer), outcome
    return outcome.text


def reason_of(outcome: ChatOutcome) -> str:
    assert isinstance(outcome, ChatFailure), outcome
    assert outcome.reason == "refused_request"
    assert not outcome.retriable
    return outcome.detail


def test_a_sampled_answer_does_not_depend_on_its_batch(tiny_qwen3: Path) -> None:
    asked = [request("A man walks. " * length, answer_schema=SCHEMA) for length in (1, 5, 3)]
    together = answers(tiny_qwen3, asked, temperature=1.0, top_p=0.9, seed=3)
    alone = answers(tiny_qwen3, asked, batch_size=1, temperature=1.0, top_p=0.9, seed=3)
    assert [text_of(outcome) for outcome in together] == [text_of(outcome) for outcome in alone]


def test_a_different_seed_gives_a_different_answer(tiny_qwen3: Path) -> None:
    first, second = (
        answers(tiny_qwen3, [request()], temperature=1.0, seed=seed) for seed in (0, 1)
    )
    assert text_of(first[0]) != text_of(second[0])


def test_an_answer_without_an_end_is_marked_truncated(tiny_qwen3: Path) -> None:
    [outcome] = answers(tiny_qwen3, [request(answer_schema=SCHEMA)], max_tokens=2, temperature=0)
    assert isinstance(outcome, ChatAnswer)
    assert outcome.truncated
    assert outcome.tokens_out == 2


def test_invalid_requests_are_refused_and_the_others_answered(tiny_qwen3: Path) -> None:
    asked = [
        request(answer_schema=SCHEMA),
        request("word " * 5000, answer_schema=SCHEMA),
        request(images=(picture("red"),)),
        request(answer_schema={"type": "no-such-type"}),
    ]
    fine, too_long, with_image, odd_schema = answers(tiny_qwen3, asked, temperature=0)
    assert json.loads(text_of(fine)).keys() == {"rewrite"}
    assert "leaves room for" in reason_of(too_long)
    assert "takes no images" in reason_of(with_image)
    assert "schema" in reason_of(odd_schema)


def test_a_vision_model_answers_with_and_without_images(tiny_qwen3_vl: Path) -> None:
    broken = ChatImage(media_type="image/png", data=b"not an image")
    asked = [
        request(answer_schema=SCHEMA),
        request(answer_schema=SCHEMA, images=(picture("red"), picture("blue"))),
        request(answer_schema=SCHEMA, images=(broken,)),
    ]
    plain, seen, undecodable = answers(tiny_qwen3_vl, asked, temperature=0)
    assert isinstance(plain, ChatAnswer)
    assert isinstance(seen, ChatAnswer)
    assert (seen.tokens_in or 0) > (plain.tokens_in or 0) + 2  # images are tokens, too
    assert json.loads(seen.text).keys() == {"rewrite"}
    assert "does not decode" in reason_of(undecodable)


def test_a_device_map_does_not_change_the_answers(tiny_qwen3: Path) -> None:
    asked = [request("A man walks."), request("A woman runs in the rain.")]
    spec = TransformersChat(
        provider="transformers",
        name=str(tiny_qwen3),
        revision="1",
        device_map={"": "cpu"},
        batch_size=4,
        sampling=Sampling(max_tokens=10),
    )
    mapped = dict(build_chat_model(spec).answer(asked))
    assert [text_of(mapped[place]) for place in (0, 1)] == [
        text_of(one) for one in answers(tiny_qwen3, asked, max_tokens=10)
    ]


def test_a_missing_quantisation_library_is_named(tiny_qwen3: Path) -> None:
    spec = TransformersChat(
        provider="transformers",
        name=str(tiny_qwen3),
        revision="1",
        quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True},
    )
    assert spec.parameters["quantization"]["load_in_4bit"] is True
    with pytest.raises(ModelError, match="asks for bitsandbytes, which is not installed here"):
        build_chat_model(spec)
