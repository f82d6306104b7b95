"""What comes back from a server: whose answer it is, what it says, and what it costs."""

import json
from typing import Any

import httpx
import pytest

from loupe.models.chat_answers import (
    BrokenAnswerError,
    SentRequests,
    ServerError,
    other_model_in,
    read_completion,
    refusal_of,
    server_sentence,
)
from loupe.schemas.chat import (
    ANSWER_IN_REASONING,
    CONTENT_FILTERED,
    QUOTA_EXHAUSTED,
    ChatAnswer,
    ChatFailure,
)
from loupe.schemas.profile import OpenAIChat

NUMBER, OTHER = "a" * 32, "b" * 32


def completion(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"finish_reason": "stop", "message": {"content": "Said."}, **choice}]}


def outcome_of(body: dict[str, Any], **options: Any) -> ChatAnswer | ChatFailure:
    return read_completion(body, json.dumps(body), 0.1, "http://server", **options)


def answered(body: dict[str, Any], **headers: str) -> httpx.Response:
    return httpx.Response(200, json=body, headers=headers)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_that_used_up_all_tokens_is_a_truncated_answer(field: str) -> None:
    message = {"content": None, field: "The person wears"}
    cut = outcome_of(completion(message=message, finish_reason="length"), reasoning_is_answer=True)
    assert isinstance(cut, ChatAnswer)
    assert (cut.text, cut.truncated) == ("", True)
    whole = outcome_of(completion(message=message))
    assert isinstance(whole, ChatFailure)
    assert whole.reason == ANSWER_IN_REASONING
    read = outcome_of(completion(message=message), reasoning_is_answer=True)
    assert isinstance(read, ChatAnswer)
    assert (read.text, read.truncated) == ("The person wears", False)


def test_an_answer_with_the_number_of_another_request_is_not_taken() -> None:
    sent = SentRequests("model")
    mine = completion()
    assert sent.checked(answered(mine), OTHER, b"another") == mine
    for response in (
        answered(mine, **{"X-Request-Id": OTHER}),
        answered({**mine, "id": f"chatcmpl-{OTHER}"}),
    ):
        with pytest.raises(BrokenAnswerError, match="another request"):
            sent.checked(response, NUMBER, b"mine")
        assert sent.checked(response, NUMBER, b"another"), "an equal request has the same answer"
    assert sent.checked(answered(mine, **{"X-Request-Id": "c" * 32}), NUMBER, b"mine") == mine


def test_a_server_that_named_the_wanted_model_must_go_on_to() -> None:
    sent = SentRequests("model")
    version, wanted = ({**completion(), "model": name} for name in ("model-2024", "model"))
    assert sent.checked(answered(version), NUMBER, b"1") == version
    assert sent.checked(answered(wanted), NUMBER, b"1") == wanted
    with pytest.raises(BrokenAnswerError, match="'model-2024'; expected 'model'"):
        sent.checked(answered(version), NUMBER, b"1")
    assert sent.checked(answered(completion()), NUMBER, b"1") == completion()
    with pytest.raises(BrokenAnswerError, match="expected 'model'"):
        sent.checked(answered(version), NUMBER, b"1")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        *(({"code": code}, code) for code in (401, 402, 403, 404, 408, 409, 429, 503)),
        *((error, 502) for error in ({"code": 400}, {"code": "busy"}, "overloaded")),
    ],
)
def test_an_error_in_a_body_with_a_status_of_success_is_one(error: object, status: int) -> None:
    for body in ({"error": error}, {**completion(), "error": error}):
        with pytest.raises(ServerError) as raised:
            SentRequests("model").checked(answered(body), NUMBER, b"1")
        assert raised.value.status == status
    nothings: tuple[object, ...] = (None, {}, "")
    for nothing in nothings:
        fine = {**completion(), "error": nothing}
        assert SentRequests("model").checked(answered(fine), NUMBER, b"1") == fine


@pytest.mark.parametrize(
    ("named", "other"),
    [
        ("gpt-4o-2024-11-20", None),
        ("OPENAI/GPT-4O", None),
        ("4o", None),
        ("gpt-3.5", "gpt-3.5"),
        (None, None),
        (7, None),
    ],
)
def test_a_version_of_the_model_is_no_other_model(named: object, other: str | None) -> None:
    assert other_model_in(json.dumps({"model": named}), "openai/gpt-4o") == other


def test_only_credible_counts_of_tokens_are_stored() -> None:
    usage: dict[str, float] = {"prompt_tokens": 100_000_000, "completion_tokens": 0}
    answer = outcome_of({**completion(), "usage": usage})
    assert (answer.tokens_in, answer.tokens_out) == (100_000_000, 0)
    usage = {"prompt_tokens": 100_000_001, "completion_tokens": 3.0}
    answer = outcome_of({**completion(), "usage": usage})
    assert (answer.tokens_in, answer.tokens_out) == (None, 3)


def test_the_sentence_of_a_server_is_one_line_of_at_most_500_characters() -> None:
    assert server_sentence(json.dumps({"error": {"message": "out\n  of it"}})) == "out of it"
    assert len(server_sentence(json.dumps({"detail": "x" * 900}))) == 500
    assert server_sentence("<html>a page</html>") == ""


@pytest.mark.parametrize(
    ("status", "reason"),
    [(425, "server_error"), (409, "server_error"), (408, "timeout"), (402, QUOTA_EXHAUSTED)],
)
def test_a_status_has_its_reason(status: int, reason: str) -> None:
    spec = OpenAIChat(provider="openai", base_url="http://server/v1", name="m", revision="1")
    error = ServerError(status, httpx.Response(status, json={"detail": "x" * 20_000}))
    failure = refusal_of(error, "http://server", spec)
    assert (failure.reason, failure.retriable) == (reason, True)
    assert len(failure.raw) == 10_000


def test_thoughts_among_the_parts_are_no_answer() -> None:
    for kind in ("thinking", "reasoning"):
        parts = [{"type": kind, "text": "Thought."}, {"type": "text", "text": "Said."}]
        answer = outcome_of(completion(message={"content": parts}))
        assert isinstance(answer, ChatAnswer)
        assert answer.text == "Said."


def test_a_completion_without_what_it_must_have_is_broken() -> None:
    number_as_text = completion(message={"content": 7})
    bodies: list[dict[str, Any]] = [{}, {"choices": []}, completion(message=None), number_as_text]
    for body in bodies:
        with pytest.raises(BrokenAnswerError):
            outcome_of(body)
    with pytest.raises(BrokenAnswerError, match="ended with an error"):
        outcome_of(completion(finish_reason="error"))
    held_back = outcome_of(completion(finish_reason="CONTENT_FILTER"))
    assert isinstance(held_back, ChatFailure)
    assert (held_back.reason, held_back.retriable) == (CONTENT_FILTERED, False)
