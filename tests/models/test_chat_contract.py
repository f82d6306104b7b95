"""Contract tests of chat models, including real ones with tiny random weights."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import pytest

from loupe.models.chat import ChatModel
from loupe.models.registry import build_chat_model
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest
from loupe.schemas.profile import BuiltinRewriter, OpenAIChat, Sampling
from tests.servers.counting_server import CountingServer, counting_server

REVISION = "test-revision"
IN_FLIGHT = 4
SAMPLING = Sampling(temperature=0, max_tokens=120, seed=0)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rewrite": {"type": "string", "maxLength": 40}},
    "required": ["rewrite"],
    "additionalProperties": False,
}
DESCRIPTIONS = (
    "A woman with long black hair wears a dark blue jacket. She carries a red bag.",
    "A man in a grey T-shirt walks to the left.",
    "Un garçon porte un pull « à rayures » ☃ 红色的包.",
    'She says "yes"\\no\n\nand leaves.',
    "x",
    "A girl, about ten years old, in a yellow dress and white shoes.",
    "An old man sits on a bench.",
)


@dataclass(frozen=True)
class Subject:
    """A model under test.

    Attributes:
        in_flight: the most requests that it takes before it yields an outcome.
        obeys_lengths: whether it respects `maxLength` of a schema; built-in models do not.
    """

    model: ChatModel
    in_flight: int
    obeys_lengths: bool = True


def request(description: str) -> ChatRequest:
    return ChatRequest(
        purpose="rewrite_descriptions",
        prompt=f"Say the description in another way.\n\n{description}",
        prompt_digest="digest-of-the-template",
        subject=description,
        answer_schema=SCHEMA,
    )


def requests(count: int) -> list[ChatRequest]:
    return [request(DESCRIPTIONS[at % len(DESCRIPTIONS)]) for at in range(count)]


@pytest.fixture(scope="module")
def subjects(
    request: pytest.FixtureRequest,
) -> Callable[[str], Subject]:
    """Return a function that builds each subject once, on first use."""
    built: dict[str, Subject] = {}

    def fixture(name: str) -> Any:
        return request.getfixturevalue(name)

    def openai(base_url: str, model: str) -> Subject:
        spec = OpenAIChat(
            provider="openai",
            name=model,
            revision=REVISION,
            base_url=base_url,
            max_in_flight=IN_FLIGHT,
            sampling=SAMPLING,
        )
        return Subject(build_chat_model(spec), IN_FLIGHT)

    def build(name: str) -> Subject:
        match name:
            case "builtin":
                rewriter = BuiltinRewriter(revision=REVISION)
                return Subject(build_chat_model(rewriter), 1, obeys_lengths=False)
            case "counting-server":
                return openai(fixture("counting_for_all").base_url, "counting")
            case "vllm-server":
                server = fixture("vllm_server")
                return openai(server.base_url, server.model)
            case _:
                return Subject(fixture("offline_vllm"), IN_FLIGHT)

    def get(name: str) -> Subject:
        if name not in built:
            built[name] = build(name)
        return built[name]

    return get


@pytest.fixture(scope="module")
def counting_for_all() -> Iterator[CountingServer]:
    with counting_server() as server:
        yield server


@pytest.fixture(
    params=[
        "builtin",
        "counting-server",
        pytest.param("vllm-server", marks=[pytest.mark.vllm, pytest.mark.slow]),
        pytest.param("offline-vllm", marks=[pytest.mark.vllm, pytest.mark.slow]),
    ],
    scope="module",
)
def subject(request: pytest.FixtureRequest, subjects: Callable[[str], Subject]) -> Subject:
    return subjects(request.param)


def closable(model: ChatModel, asked: Iterator[ChatRequest]) -> Any:
    """Return the outcomes as a context manager that closes the generator."""
    return closing(cast("Any", model.answer(asked)))


def test_each_request_is_answered_once_according_to_its_schema(subject: Subject) -> None:
    model = subject.model
    assert isinstance(model, ChatModel)
    assert model.ref.name
    assert model.ref.revision == REVISION
    assert json.loads(json.dumps(model.parameters)) == model.parameters
    outcomes = list(model.answer(requests(10)))
    assert sorted(position for position, _ in outcomes) == list(range(10))
    for _, outcome in outcomes:
        assert isinstance(outcome, ChatAnswer), outcome
        assert outcome.seconds >= 0
        assert not outcome.truncated
        answer = json.loads(outcome.text)
        assert list(answer) == ["rewrite"]
        assert isinstance(answer["rewrite"], str)
        if subject.obeys_lengths:  # built-in models have no tokens
            assert len(answer["rewrite"]) <= 40
            assert outcome.tokens_in
            assert 0 < (outcome.tokens_out or 0) <= SAMPLING.max_tokens
    assert list(model.answer([])) == []


def test_answers_do_not_depend_on_other_requests(subject: Subject) -> None:
    together = dict(subject.model.answer(requests(4)))
    for position, alone in enumerate(requests(4)):
        [(_, outcome)] = subject.model.answer([alone])
        assert text_of(outcome) == text_of(together[position])


def test_requests_are_taken_lazily_up_to_the_limit_in_flight(subject: Subject) -> None:
    taken = 0

    def endless() -> Iterator[ChatRequest]:
        nonlocal taken
        while True:
            taken += 1
            yield request(DESCRIPTIONS[taken % len(DESCRIPTIONS)])

    with closable(subject.model, endless()) as outcomes:
        for received in range(1, 2 * subject.in_flight + 2):
            next(outcomes)
            assert taken <= received - 1 + subject.in_flight
    # the model can be used again after closing early
    assert len(list(subject.model.answer(requests(2)))) == 2


def test_requests_in_flight_are_answered_when_no_more_follow(subject: Subject) -> None:
    """As when a caller with a budget stops sending after the first outcome."""
    taken = 0
    spent = False

    def until_spent() -> Iterator[ChatRequest]:
        nonlocal taken
        while not spent:
            taken += 1
            yield request(DESCRIPTIONS[0])

    received = []
    for position, _ in subject.model.answer(until_spent()):
        spent = True
        received.append(position)
    assert sorted(received) == list(range(taken))
    assert taken <= subject.in_flight


def test_an_error_in_the_requests_reaches_the_caller(subject: Subject) -> None:
    def failing() -> Iterator[ChatRequest]:
        yield request(DESCRIPTIONS[0])
        raise ZeroDivisionError("from the caller's own code")

    with pytest.raises(ZeroDivisionError, match="the caller's own code"):
        list(subject.model.answer(failing()))
    assert len(list(subject.model.answer(requests(2)))) == 2


def text_of(outcome: ChatOutcome) -> str:
    assert not isinstance(outcome, ChatFailure), outcome
    return outcome.text
