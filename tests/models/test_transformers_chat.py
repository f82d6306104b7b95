import json
import shutil
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


def test_a_tokenizer_may_lack_padding_but_not_a_chat_template(
    tiny_qwen3: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    folder = shutil.copytree(tiny_qwen3, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    short, long = answers(folder, [request(), request("word " * 20)], temperature=0)
    assert (isinstance(short, ChatAnswer), isinstance(long, ChatAnswer)) == (True, True)
    tokenizer.chat_template = None
    shutil.rmtree(folder)
    shutil.copytree(tiny_qwen3, folder, ignore=shutil.ignore_patterns("*.jinja"))
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match="has no chat template"):
        answers(folder, [request()])


def draws(count: int, seed: int | None) -> list[int]:
    """Draw `count` tokens in sequence from the distribution (0.5, 0.3, 0.2, 0)."""
    import torch

    from models.transformers_chat import SeededDraw

    scores = torch.tensor([[0.5, 0.3, 0.2, 0.0]]).log()
    draw = SeededDraw(1, seed, torch.device("cpu"))
    return [int(draw(torch.zeros(1, 1), scores).argmax()) for _ in range(count)]


def test_tokens_are_drawn_from_the_distribution() -> None:
    drawn = draws(4000, seed=0)
    frequencies = [drawn.count(token) / 4000 for token in range(4)]
    assert frequencies == pytest.approx([0.5, 0.3, 0.2, 0.0], abs=0.03)
    assert 3 not in drawn


def test_draws_are_reproducible_only_with_a_seed() -> None:
    assert draws(50, seed=1) == draws(50, seed=1)
    assert draws(50, seed=1) != draws(50, seed=2)
    assert draws(50, seed=None) != draws(50, seed=None)
