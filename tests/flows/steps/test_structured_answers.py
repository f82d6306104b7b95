"""Strategies and fine captions from a real vLLM server, with images.

The model is tiny and has random weights, so its answers are nonsense. The tests check that the
server accepts the prompts, all images and the schemas, and that every answer is parsed or rejected
with a reason.
"""

import io
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
from PIL import Image

from loupe.flows.ccd.refining import (
    RefinedCaptions,
    read_refinement,
    request_refinement,
    resized_images,
)
from loupe.flows.ccd.refining import request_repair as repair_captions
from loupe.flows.ccd.strategies import FIELDS, StrategiesRead, read_strategies, request_strategies
from loupe.flows.ccd.strategies import request_repair as repair_strategies
from loupe.models.chat import chat_messages
from loupe.models.openai_chat import OpenAIChatModel
from loupe.prompts.loader import load_prompt
from loupe.schemas.chat import ChatAnswer, ChatImage, ChatOutcome, ChatRequest
from loupe.schemas.profile import ImageArea, OpenAIChat, Sampling
from loupe.schemas.records import Rejection
from loupe.schemas.requests import MOST_CHARACTERS, RefinementBrief, StrategyBrief
from loupe.schemas.taxonomy import DifferenceType
from tests.servers.vllm_server import VllmServer

STRATEGY_BRIEF = StrategyBrief(count=1, caption="A red car stands on a street.")
REFINEMENT_BRIEF = RefinementBrief(
    images=3,
    caption="A red car stands on a street.",
    differences=("Entity Attribute: the car is blue", "Scene Type: the place is a beach"),
    second_language="zh",
)
COLOURS = ("red", "blue", "yellow")
MIN_IMAGE_TOKENS = 4
SEEDS = 4
MIN_COMPLETE = 2


def png(colour: str) -> ChatImage:
    buffer = io.BytesIO()
    Image.new("RGB", (90, 60), colour).save(buffer, "PNG")
    return ChatImage(media_type="image/png", data=buffer.getvalue())


def model_of(server: VllmServer, seed: int, max_tokens: int) -> OpenAIChatModel:
    sampling = Sampling(temperature=1.0, seed=seed, max_tokens=max_tokens)
    return OpenAIChatModel(
        OpenAIChat(
            provider="openai",
            name=server.model,
            revision="1",
            base_url=server.base_url,
            sampling=sampling,
        )
    )


def answers_to(
    server: VllmServer, requests: Sequence[ChatRequest], tokens: int
) -> list[ChatAnswer]:
    """Return the answers to each request for four seeds."""

    def outcomes(seed: int) -> list[tuple[int, ChatOutcome]]:
        return list(model_of(server, seed, tokens).answer(requests))

    answers = []
    with ThreadPoolExecutor(SEEDS) as pool:
        for _, outcome in chain.from_iterable(pool.map(outcomes, range(SEEDS))):
            assert isinstance(outcome, ChatAnswer), outcome
            answers.append(outcome)
    return answers


def strategies_request() -> ChatRequest:
    prompt = load_prompt("contrast_strategies")
    request = request_strategies(png("red"), STRATEGY_BRIEF, prompt, ImageArea())
    assert isinstance(request, ChatRequest)
    return request


def refinement_request(brief: RefinementBrief = REFINEMENT_BRIEF) -> ChatRequest:
    images = resized_images([png(colour) for colour in COLOURS[: brief.images]], ImageArea())
    assert not isinstance(images, Rejection)
    return request_refinement(images, brief, load_prompt("refine_captions"))


def assert_meets_the_strategy_schema(value: Any) -> None:
    assert set(value) == {"strategies"}
    (strategy,) = value["strategies"]
    assert tuple(strategy) == FIELDS
    assert strategy["type"] in [kind.value for kind in DifferenceType]
    assert all(strategy[field] for field in MOST_CHARACTERS)  # their length is checked when read


@pytest.mark.vllm
@pytest.mark.slow
def test_strategies_follow_the_schema(vllm_server: VllmServer) -> None:
    request = strategies_request()
    answers = answers_to(vllm_server, [request], 3000)
    for answer in answers:
        read = read_strategies(answer, STRATEGY_BRIEF)
        assert isinstance(read, (StrategiesRead, Rejection))
        if isinstance(read, Rejection):
            assert read.context["answer"] == answer.text
        if answer.truncated:
            assert isinstance(read, Rejection)
            assert read.reason == "truncated_answer"
        else:
            assert_meets_the_strategy_schema(json.loads(answer.text))
            if isinstance(read, Rejection):
                assert read.reason == "no_usable_strategy"
    complete = [answer for answer in answers if not answer.truncated]
    assert len(complete) >= MIN_COMPLETE
    rejection = Rejection(stage="s", reason="r", detail="It is nonsense.")
    again = repair_strategies(request, complete[0], rejection, load_prompt("repair_strategies"))
    for answer in answers_to(vllm_server, [again], 20):
        assert answer.text.startswith('{"strategies')


@pytest.mark.vllm
@pytest.mark.slow
def test_captions_follow_the_schema_for_every_image(vllm_server: VllmServer) -> None:
    request = refinement_request()
    answers = answers_to(vllm_server, [request], 6000)
    for answer in answers:
        read = read_refinement(answer, REFINEMENT_BRIEF)
        assert isinstance(read, (RefinedCaptions, Rejection))
        if isinstance(read, Rejection):
            assert read.context["answer"] == answer.text
        if not answer.truncated:
            value = json.loads(answer.text)
            assert [len(value[field]) for field in ("captions", "translations")] == [3, 3]
    complete = [answer for answer in answers if not answer.truncated]
    assert len(complete) >= MIN_COMPLETE
    rejection = Rejection(stage="s", reason="r", detail="It is nonsense.")
    again = repair_captions(request, complete[0], rejection, load_prompt("repair_captions"))
    for answer in answers_to(vllm_server, [again], 20):
        assert answer.text.startswith('{"captions')


@pytest.mark.vllm
@pytest.mark.slow
def test_every_image_of_a_group_reaches_the_model(vllm_server: VllmServer) -> None:
    request = refinement_request()
    sent = [part for part in chat_messages(request)[0]["content"] if part["type"] == "image_url"]
    assert len(sent) == 3
    fewer = [request.model_copy(update={"images": request.images[:count]}) for count in (1, 2, 3)]
    tokens = [
        outcome.tokens_in or 0
        for _, outcome in sorted(model_of(vllm_server, 0, 5).answer(fewer))
        if isinstance(outcome, ChatAnswer)
    ]
    one, two, three = tokens
    assert two - one == three - two >= MIN_IMAGE_TOKENS
