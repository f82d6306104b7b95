import json
import logging
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from threading import Thread
from typing import Any
from urllib.parse import quote, quote_plus

import anyio
import httpx
import pytest
from PIL import Image
from pydantic import ValidationError

from loupe.models.chat import Sender
from loupe.models.chat_answers import BrokenAnswerError, read_completion, server_sentence
from loupe.models.openai_chat import OpenAIChatModel, _exchanged
from loupe.models.registry import OnDemandChatModel
from loupe.schemas.chat import ChatAnswer, ChatFailure, ChatImage, ChatOutcome, ChatRequest
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.profile import OpenAIChat, Sampling
from loupe.schemas.validation import validated
from loupe.services.process import free_port
from tests.servers.counting_server import CountingServer, Fault
from tests.servers.vllm_server import VllmServer

SCHEMA = {"type": "object", "properties": {"rewrite": {"type": "string"}}, "required": ["rewrite"]}
SECRET = "sk-not-for-other-eyes"


def model_of(base_url: str, **settings: Any) -> OpenAIChatModel:
    fields = {"name": "some/model", "revision": "1", "max_retries": 1, **settings}
    return OpenAIChatModel(OpenAIChat(provider="openai", base_url=base_url, **fields))


def request(text: str = "A man walks.", **fields: Any) -> ChatRequest:
    return ChatRequest(purpose="test", prompt=f"Reword.\n\n{text}", prompt_digest="d", **fields)


def ask(model: OpenAIChatModel, asked: ChatRequest | None = None) -> ChatOutcome:
    [(_, outcome)] = model.answer([asked or request()])
    return outcome


def body_of(server: CountingServer) -> dict[str, Any]:
    [seen] = server.ledger.seen
    return seen.body


def test_requests_contain_model_sampling_and_schema(counting: CountingServer) -> None:
    sampling = Sampling(temperature=0.3, top_p=0.9, seed=7, max_tokens=50)
    ask(model_of(counting.base_url, sampling=sampling), request(answer_schema=SCHEMA))
    assert body_of(counting) == {
        "model": "some/model",
        "messages": [{"role": "user", "content": "Reword.\n\nA man walks."}],
        "temperature": 0.3,
        "top_p": 0.9,
        "seed": 7,
        "max_tokens": 50,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
    }


def test_without_a_seed_none_is_sent(counting: CountingServer) -> None:
    ask(model_of(counting.base_url, sampling=Sampling(seed=None)))
    assert "seed" not in body_of(counting)


def test_requests_can_be_adapted_to_the_server(counting: CountingServer) -> None:
    model = model_of(
        counting.base_url,
        limit_parameter="max_completion_tokens",
        leave_out=["temperature", "top_p", "seed"],
        body={"reasoning_effort": "low"},
        headers={"X-Title": "Loupe"},
        structured="json_object",
        sampling=Sampling(max_tokens=50),
    )
    assert isinstance(ask(model, request(answer_schema=SCHEMA)), ChatAnswer)
    sent = body_of(counting)
    assert {key: sent[key] for key in sent if key not in ("model", "messages")} == {
        "max_completion_tokens": 50,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
    }
    assert counting.ledger.seen[0].headers["X-Title"] == "Loupe"
    assert model.parameters == {
        "max_tokens": 50,
        "structured": "json_object",
        "reasoning_effort": "low",
    }


def test_a_key_can_be_sent_in_a_custom_header(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_MODEL_API_KEY", SECRET)
    model = model_of(
        counting.base_url,
        api_key_variable="MY_MODEL_API_KEY",
        api_key_header="api-key",
        structured="none",
    )
    assert isinstance(ask(model, request(answer_schema=SCHEMA)), ChatAnswer)
    headers = counting.ledger.seen[0].headers
    assert headers["api-key"] == SECRET
    assert "Authorization" not in headers
    assert "response_format" not in body_of(counting)


def test_a_redirect_takes_no_key_to_another_host(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = counting.base_url.replace("127.0.0.1", "localhost")

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"{target}/chat/completions")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    monkeypatch.setenv("MY_MODEL_API_KEY", SECRET)
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        Thread(target=server.serve_forever).start()
        model = model_of(
            f"http://127.0.0.1:{server.server_port}/v1",
            api_key_variable="MY_MODEL_API_KEY",
            api_key_header="api-key",
        )
        assert isinstance(ask(model), ChatFailure)
        server.shutdown()
    assert counting.ledger.seen == []


def test_the_body_setting_cannot_replace_messages() -> None:
    with pytest.raises(ValidationError, match="body must not set messages: Loupe sets these"):
        model_of("http://127.0.0.1:1/v1", body={"messages": []})


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("http://user:password@server/v1", "must not hold a name or a password"),
        ("http://sk-1@server/v1", "must not hold a name or a password"),
        ("http://server:65536/v1", "must have a port up to 65,535"),
        ("http://server:0/v1", "must have a port from 1 to 65,535"),
        ("http://server:port/v1", "must have a port up to 65,535"),
        ("ftp://server/v1", "base_url"),
    ],
)
def test_an_address_holds_no_secret_and_a_port_that_exists(address: str, sentence: str) -> None:
    values = {"provider": "openai", "name": "m", "revision": "1", "base_url": address}
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        validated(OpenAIChat, values, "profile")
    assert "user:password" not in str(refused.value)


def test_headers_that_cannot_be_sent_are_refused(subtests: pytest.Subtests) -> None:
    for headers, sentence in (
        ({"X": "é"}, "headers must be printable ASCII; got 'X'"),
        ({"X": "a\r\nY: b"}, "headers must be printable ASCII; got 'X'"),
        ({"X Y": "a"}, "headers must be printable ASCII; got 'X Y'"),
        ({"Content-Length": "0"}, "headers must not set Content-Length: Loupe sets it"),
        ({"authorization": "Bearer sk-1"}, "headers must not set authorization: Loupe sets it"),
    ):
        with subtests.test(headers=headers), pytest.raises(ValidationError, match=sentence):
            model_of("http://127.0.0.1:1/v1", headers=headers)


def test_the_error_message_of_the_server_is_extracted(subtests: pytest.Subtests) -> None:
    for body, sentence in {
        '{"error": {"message": "No such\\nparameter."}}': "No such parameter.",
        '{"error": "Too long."}': "Too long.",
        '{"object": "error", "message": "Too long."}': "Too long.",
        '{"detail": [{"msg": "field required"}]}': '[{"msg": "field required"}]',
        "plain words": "plain words",
        "<html><body>502</body></html>": "",
    }.items():
        with subtests.test(body=body):
            assert server_sentence(body) == sentence


def test_images_are_sent_as_data_urls_before_the_prompt(counting: CountingServer) -> None:
    image = ChatImage(media_type="image/png", data=b"\x89PNG")
    ask(model_of(counting.base_url), request(images=(image,)))
    assert body_of(counting)["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        {"type": "text", "text": "Reword.\n\nA man walks."},
    ]


def test_openai_credentials_in_the_environment_are_not_sent(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(variable, SECRET)
    ask(model_of(counting.base_url))
    assert SECRET not in str(counting.ledger.seen[0].headers)


def test_a_missing_or_impossible_key_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for key, fault in {
        " ": "is not set",
        "a\nb": "printable ASCII",
        "…": "printable ASCII",
    }.items():
        with subtests.test(key=key):
            monkeypatch.setenv("MY_MODEL_API_KEY", key)
            with pytest.raises(
                ConfigurationError, match=f"MY_MODEL_API_KEY, which .*{fault}"
            ) as raised:
                model_of("http://127.0.0.1:1/v1", api_key_variable="MY_MODEL_API_KEY")
            assert key == " " or key not in str(raised.value)


def test_the_key_is_sent_and_not_logged(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_MODEL_API_KEY", f" {SECRET}\n")
    counting.ledger.add_faults(Fault("status", status=500))
    with caplog.at_level(logging.DEBUG):
        ask(model_of(counting.base_url, api_key_variable="MY_MODEL_API_KEY"))
    assert counting.ledger.seen[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert "chat/completions" in caplog.text
    assert SECRET not in caplog.text


def test_a_transient_status_is_retried(subtests: pytest.Subtests, counting: CountingServer) -> None:
    for place, status in enumerate((429, 503), 1):
        with subtests.test(status=status):
            counting.ledger.add_faults(Fault("status", status=status, retry_after_seconds=0.01))
            assert isinstance(ask(model_of(counting.base_url)), ChatAnswer)
            assert counting.ledger.summary()["total"] == 2 * place


def test_retry_after_is_honoured(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("status", status=429, retry_after_seconds=0.5))
    start = time.monotonic()
    answer = ask(model_of(counting.base_url))
    assert time.monotonic() - start >= 0.5
    assert isinstance(answer, ChatAnswer)
    assert answer.seconds < 0.5  # the time of the call, without the wait


def test_a_wait_of_an_hour_is_not_waited_for(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("status", status=429, retry_after_seconds=3600))
    failure = ask(model_of(counting.base_url))
    assert isinstance(failure, ChatFailure)
    assert (failure.reason, failure.retriable) == ("rate_limited", True)
    assert counting.ledger.summary()["total"] == 1


def test_of_a_broken_answer_the_beginning_is_kept(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("body", text="[" * 20_000))
    failure = failure_of(counting)
    assert (failure.reason, failure.raw) == ("unreadable_answer", "[" * 10_000)


def test_an_answer_without_end_is_broken_off() -> None:
    async def received() -> None:
        body = (b"x" * 2**20 for _ in range(40))
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=chunks(body)))
        async with httpx.AsyncClient(transport=transport) as client:
            await _exchanged(client, "http://server", "1", b"{}")

    with (
        ThreadPoolExecutor(1) as thread,  # a browser of other tests keeps the loop of this one
        pytest.raises(BrokenAnswerError, match="larger than 33,554,432 bytes"),
    ):
        thread.submit(anyio.run, received).result()


async def chunks(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def test_a_lost_connection_is_retried(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("reset"))
    assert isinstance(ask(model_of(counting.base_url)), ChatAnswer)


class Limited(Sender):
    """Lets requests be sent as long as the server got fewer than `most`."""

    def __init__(self, server: CountingServer, most: int) -> None:
        self._server = server
        self._most = most

    def may_send(self, request: ChatRequest) -> bool:
        return self._server.ledger.counts.total() < self._most


def test_a_request_is_sent_only_while_its_sender_permits_it(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("status", status=503, times=9))
    model = model_of(counting.base_url, max_retries=5)
    model.sender = Limited(counting, 2)
    failure = ask(model)
    assert isinstance(failure, ChatFailure)
    assert (failure.reason, failure.retriable) == ("not_asked", True)
    assert counting.ledger.summary()["total"] == 2


class Stopping(Sender):
    """Is stopped from its second look on."""

    looks = 0

    @property
    def is_stopped(self) -> bool:
        self.looks += 1
        return self.looks > 1

    def may_send(self, request: ChatRequest) -> bool:
        return self.looks < 2


def test_a_pause_ends_when_the_run_is_stopped(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("status", status=429, retry_after_seconds=60))
    model = model_of(counting.base_url)
    model.sender = Stopping()
    started = time.monotonic()
    failure = ask(model)
    assert isinstance(failure, ChatFailure)
    assert failure.reason == "not_asked"
    assert time.monotonic() - started < 10


def test_a_persistent_status_is_mapped_to_a_reason(
    subtests: pytest.Subtests, counting: CountingServer
) -> None:
    cases: list[tuple[int, str, bool]] = [
        (400, "refused_request", False),
        (401, "misconfigured", True),
        (403, "misconfigured", True),
        (404, "misconfigured", True),
        (408, "timeout", True),
        (409, "server_error", True),
        (413, "refused_request", False),
        (422, "refused_request", False),
        (429, "rate_limited", True),
        (500, "server_error", True),
        (502, "server_error", True),
    ]
    for status, reason, retriable in cases:
        with subtests.test(status=status, reason=reason, retriable=retriable):
            counting.ledger.add_faults(Fault("status", status=status))
            failure = ask(model_of(counting.base_url, max_retries=0))
            assert isinstance(failure, ChatFailure)
            assert (failure.reason, failure.retriable) == (reason, retriable)
            assert f"status {status}" in failure.detail
            assert "instructed to answer" in failure.raw


def failure_of(counting: CountingServer, **settings: Any) -> ChatFailure:
    failure = ask(model_of(counting.base_url, **{"max_retries": 0, **settings}))
    assert isinstance(failure, ChatFailure)
    return failure


def test_an_account_without_credit_is_final_at_once(
    subtests: pytest.Subtests, counting: CountingServer
) -> None:
    cases: list[tuple[int, dict[str, Any]]] = [
        (429, {"code": "insufficient_quota", "message": "You exceeded your current quota."}),
        (429, {"type": "billing_hard_limit_reached", "message": "Billing limit."}),
        (400, {"message": "Your credit balance is too low to access the API."}),
        (402, {"message": "Payment required."}),
        (200, {"code": 402, "message": "Insufficient credits."}),
        (429, {"code": 402, "message": "The account is empty."}),
        (429, {"message": "This request requires more credits, or fewer max_tokens."}),
    ]
    for status, error in cases:
        with subtests.test(status=status, error=error):
            counting.ledger.reset()
            counting.ledger.add_faults(error_of(status, error))
            failure = failure_of(counting, max_retries=5)
            assert (failure.reason, failure.retriable) == ("quota_exhausted", True)
            assert str(error["message"]) in failure.detail
            assert counting.ledger.summary()["total"] == 1


def test_a_refused_key_names_where_it_comes_from(
    counting: CountingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_MODEL_API_KEY", "wrong")
    for key, said in ((None, "which holds"), ("MY_MODEL_API_KEY", "key in MY_MODEL_API_KEY")):
        counting.ledger.add_faults(Fault("status", status=401))
        failure = failure_of(counting, api_key_variable=key)
        assert said in failure.detail
        assert "api_key_variable in the profile" in failure.detail


def error_of(status: int, error: dict[str, Any]) -> Fault:
    return Fault("body", status=status, text=json.dumps({"error": error}))


def test_a_refused_parameter_names_the_key_that_changes_it(
    subtests: pytest.Subtests, counting: CountingServer
) -> None:
    for said, key in {
        "Unsupported parameter: 'max_tokens' is not supported with this model.": (
            'limit_parameter = "max_completion_tokens"'
        ),
        "Unsupported value: 'temperature' does not support 0.7 with this model.": (
            'leave_out = ["temperature"]'
        ),
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported.": (
            'structured = "json_object"'
        ),
        "Unrecognized request argument supplied: reasoning_effort": "body (without reasoning_eff",
    }.items():
        with subtests.test(said=said):
            counting.ledger.add_faults(error_of(400, {"message": said}))
            failure = failure_of(counting, body={"reasoning_effort": "low"})
            assert (failure.reason, failure.retriable) == ("misconfigured", True)
            assert f"{said}; set {key}" in failure.detail


def test_a_prompt_that_is_too_long_is_the_fault_of_the_prompt(counting: CountingServer) -> None:
    said = "'max_tokens' is too large: 1024. This model's maximum context length is 2048 tokens."
    counting.ledger.add_faults(error_of(400, {"message": said, "param": "max_tokens"}))
    failure = failure_of(counting)
    assert (failure.reason, failure.retriable) == ("refused_request", False)


def test_a_content_filter_is_named_and_final(counting: CountingServer) -> None:
    """As OpenAI and as Azure say it."""
    azure = {
        "message": "The response was filtered.",
        "code": "content_filter",
        "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }
    for fault, tokens in (
        (Fault("content", text="", finish_reason="content_filter"), 4),
        (error_of(400, azure), 0),
    ):
        counting.ledger.add_faults(fault)
        failure = failure_of(counting)
        assert (failure.reason, failure.retriable) == ("content_filter", False)
        assert failure.is_paid
        assert failure.tokens_in == tokens


def test_an_answer_among_the_reasoning_names_its_cause_and_can_be_read(
    subtests: pytest.Subtests,
) -> None:
    for field in ("reasoning_content", "reasoning"):
        with subtests.test(field=field):
            message = {"content": None, field: '{"rewrite": "Said."}'}
            body = {"choices": [{"message": message, "finish_reason": "stop"}]}
            raw = json.dumps(body)
            failure = read_completion(body, raw, 0.1, "http://server")
            assert isinstance(failure, ChatFailure)
            assert (failure.reason, failure.is_paid) == ("answer_in_reasoning", True)
            remedies = ("--reasoning-parser", "enable_thinking", "--retry")
            for said in (field, "content is null", *remedies):
                assert said in failure.detail
            spec = OpenAIChat(
                provider="openai", name="m", revision="1", base_url="http://s", read_reasoning=True
            )
            again = OnDemandChatModel(spec).read_again(failure)
            assert isinstance(again, ChatAnswer)
            assert again.text == message[field]


def test_a_sign_in_page_is_named(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("page"))
    failure = failure_of(counting)
    assert (failure.reason, failure.retriable) == ("web_page", True)
    assert "sign-in page" in failure.detail
    assert "base_url" in failure.detail


def test_a_secret_in_a_query_string_appears_in_no_message(
    subtests: pytest.Subtests, counting: CountingServer
) -> None:
    for fault in (Fault("status", status=400), Fault("status", status=500), Fault("page")):
        with subtests.test(fault=fault.kind, status=fault.status):
            counting.ledger.add_faults(fault)
            failure = failure_of(counting, query={"key": SECRET})
            assert SECRET not in f"{failure.detail} {failure.raw}"
    odd = "not/for other+eyes"
    for spelling in (odd, quote(odd, safe=""), quote_plus(odd)):
        counting.ledger.add_faults(Fault("body", status=400, text=f"refused: {spelling}"))
        failure = failure_of(counting, query={"key": odd})
        assert "refused: ***" in failure.detail
        assert spelling not in f"{failure.detail} {failure.raw}"
    base_url = f"http://127.0.0.1:{free_port()}/v1"
    gone = ask(model_of(base_url, max_retries=0, query={"key": SECRET}))
    assert isinstance(gone, ChatFailure)
    assert SECRET not in gone.detail
    assert "loupe doctor" in gone.detail


def test_no_request_is_taken_after_the_answer_that_ends_the_stream(
    counting: CountingServer,
) -> None:
    """As at the limit of a budget: the caller learns of every outcome before a request is taken."""
    taken: list[int] = []
    is_over = False

    def until_over() -> Iterator[ChatRequest]:
        for number in range(9):
            if is_over:
                return
            taken.append(number)
            yield request(f"person {number}")

    for _ in model_of(counting.base_url, max_in_flight=1).answer(until_over()):
        is_over = True
    assert taken == [0]


def test_a_slow_server_is_a_timeout(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("slow", seconds=2, times=9))
    failure = ask(model_of(counting.base_url, max_retries=0, timeout_seconds=0.2))
    assert isinstance(failure, ChatFailure)
    assert (failure.reason, failure.retriable) == ("timeout", True)
    assert "0.2 seconds" in failure.detail


def test_a_missing_server_is_unreachable() -> None:
    base_url = f"http://127.0.0.1:{free_port()}/v1"
    failure = ask(model_of(base_url))
    assert isinstance(failure, ChatFailure)
    assert (failure.reason, failure.retriable) == ("unreachable", True)
    assert base_url in failure.detail


def test_an_answer_with_invalid_token_counts_is_used(subtests: pytest.Subtests) -> None:
    counts: list[object] = [None, -1, 1.5, 10**30, "7", True, [], float("nan")]
    for count in counts:
        with subtests.test(count=repr(count)):
            choices = [{"message": {"content": "Said."}}]
            for usage in (count, {"prompt_tokens": count, "completion_tokens": 2}):
                answer = answer_in({"choices": choices, "usage": usage})
                known = 2 if isinstance(usage, dict) else None
                assert (answer.text, answer.tokens_in, answer.tokens_out) == ("Said.", None, known)


def test_the_parts_of_an_answer_are_joined() -> None:
    thought = {"type": "thinking", "text": "Thought."}
    for content in (
        [{"type": "text", "text": "Said"}, {"type": "text", "text": "."}],
        [thought, {"type": "output_text", "text": "Said."}, {"type": "image_url"}],
        ["Said", "."],
        {"type": "text", "text": "Said."},
    ):
        assert answer_in({"choices": [{"message": {"content": content}}]}).text == "Said."


def test_an_empty_answer_is_truncated_and_counts_its_tokens(counting: CountingServer) -> None:
    """A model may spend all tokens on reasoning, and they were paid for."""
    counting.ledger.add_faults(Fault("content", text=None, finish_reason="length"))
    answer = ask(model_of(counting.base_url))
    assert isinstance(answer, ChatAnswer)
    assert (answer.text, answer.truncated) == ("", True)
    assert answer.tokens_in
    assert answer.tokens_out


def test_reasoning_is_left_out_and_a_refusal_is_the_answer() -> None:
    message = {"content": "Said.", "reasoning_content": "Thought.", "refusal": None}
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    assert answer_in(body).text == "Said."
    body["choices"][0]["message"] = {"content": None, "refusal": "I cannot."}
    assert answer_in(body).text == "I cannot."


def test_the_arguments_of_the_only_tool_call_are_the_answer() -> None:
    call = {"type": "function", "function": {"name": "answer", "arguments": '{"rewrite": "Said."}'}}
    for calls, text in (([call], '{"rewrite": "Said."}'), ([call, call], ""), (["?"], "")):
        message = {"content": None, "tool_calls": calls}
        choice = {"message": message, "finish_reason": "tool_calls"}
        assert answer_in({"choices": [choice]}).text == text


def test_one_refused_request_does_not_affect_the_others(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("status", status=400, match="person 3 "))
    asked = [request(f"This is person {number} of ten.") for number in range(10)]
    outcomes = dict(model_of(counting.base_url).answer(asked))
    assert [at for at, outcome in outcomes.items() if isinstance(outcome, ChatFailure)] == [3]
    assert len(outcomes) == 10


def test_requests_in_flight_reach_but_do_not_exceed_the_limit(counting: CountingServer) -> None:
    counting.delay_seconds = 0.2
    asked = (request(f"person {number}") for number in range(16))
    assert len(list(model_of(counting.base_url, max_in_flight=4).answer(asked))) == 16
    summary = counting.ledger.summary()
    assert summary["peak_in_flight"] == 4
    assert summary["distinct"] == summary["total"] == 16


def test_closing_early_does_not_wait_for_requests_in_flight(counting: CountingServer) -> None:
    counting.ledger.add_faults(Fault("slow", seconds=30, match="slow", times=9))
    outcomes: Any = model_of(counting.base_url).answer([request("slow"), request("quick")])
    position, _ = next(outcomes)
    start = time.monotonic()
    outcomes.close()
    assert time.monotonic() - start < 10
    assert position == 1


def answer_in(body: dict[str, Any]) -> ChatAnswer:
    outcome = read_completion(body, json.dumps(body), 0.1, "http://server")
    assert isinstance(outcome, ChatAnswer)
    return outcome


@pytest.mark.vllm
@pytest.mark.slow
def test_a_real_vllm_server_takes_images_and_refuses_long_prompts(
    vllm_server: VllmServer,
) -> None:
    encoded = BytesIO()
    Image.new("RGB", (90, 60), "red").save(encoded, "PNG")
    image = ChatImage(media_type="image/png", data=encoded.getvalue())
    sampling = Sampling(temperature=0, max_tokens=20)
    model = model_of(vllm_server.base_url, name=vllm_server.model, sampling=sampling)
    asked = [request(), request(images=(image,)), request("word " * 5000)]
    outcomes = dict(model.answer(asked))
    plain, seen, too_long = (outcomes[position] for position in range(3))
    assert isinstance(plain, ChatAnswer)
    assert isinstance(seen, ChatAnswer)
    assert (seen.tokens_in or 0) > (plain.tokens_in or 0) > 0  # images are tokens, too
    assert isinstance(too_long, ChatFailure)
    assert (too_long.reason, too_long.retriable) == ("refused_request", False)
    unknown = ask(model_of(vllm_server.base_url, name="no-such-model"))
    assert isinstance(unknown, ChatFailure)
    assert unknown.reason == "misconfigured"
