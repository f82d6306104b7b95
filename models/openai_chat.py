"""Chat models behind an OpenAI-compatible server, such as vLLM's."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from queue import SimpleQueue
from time import monotonic, perf_counter
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus
from uuid import uuid4

import anyio
import httpx
from anyio import create_task_group
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal

from loupe.models.adapter import Adapter, secret_in
from loupe.models.chat import Sender, chat_messages
from loupe.models.chat_answers import (
    BrokenAnswerError,
    SentRequests,
    ServerError,
    read_completion,
    refusal_of,
)
from loupe.models.model_list import list_models, listed_model, listed_models
from loupe.models.retrying import backoff, wait_of
from loupe.models.tls import trusted_authorities
from loupe.schemas.chat import ChatFailure, ChatOutcome, ChatRequest, ServedModel
from loupe.schemas.profile import OpenAIChat

_CONNECT_TIMEOUT_SECONDS = 10.0
_LONGEST_WAIT_SECONDS = 120.0  # that a server may ask for; beyond it, the request is given up
_LONGEST_PAUSE_SECONDS = 8.0
_SECONDS_BETWEEN_LOOKS = 0.2
_MOST_BYTES = 32 * 2**20  # of an answer
_RAW_CHARACTERS = 10_000  # of an answer that is no completion


class _Attempt(NamedTuple):
    """The outcome of sending a request once, and whether and when to send it again."""

    outcome: ChatOutcome
    again: bool = False
    wait_seconds: float | None = None


class OpenAIChatModel(Adapter[OpenAIChat]):
    """Asks a server, with up to `spec.max_in_flight` requests under way at once.

    Requests run on an event loop in a thread of its own; `answer` hands their outcomes over. Faults
    of the transport are asked again, with exponential backoff and jitter or as long as a
    `Retry-After` header says, while `sender` allows it: timeouts, lost connections, 408, 409, 429,
    5xx, and a status of success without a whole completion (a body that breaks off, a page, an
    error, the answer to another request). Each request has a connection of its own: what a broken
    or doubled response leaves on a connection would be read as the answer to the next request.

    Of the sampling, only what the profile states is sent: a server may have defaults of its own for
    the rest (vLLM takes `top_k` and others from the model's `generation_config.json`). And a server
    that keeps answers to a JSON schema may yet let raw control characters into strings, as vLLM
    with xgrammar does.

    Raises:
        ConfigurationError: the environment variable of the API key is not set or holds no key.
    """

    def __init__(self, spec: OpenAIChat) -> None:
        super().__init__(spec)
        self._api_key = _read_api_key(spec)
        self._address = f"{spec.base_url.rstrip('/')}/chat/completions"
        self._sent = SentRequests(spec.name)
        self._served: ServedModel | None = None
        self._has_listed = False
        self.sender = Sender()

    def served(self) -> ServedModel | None:
        """The server's entry for this model; None if it lists none."""
        if not self._has_listed:
            self._has_listed = True
            try:
                answer = list_models(self._spec, self._api_key)
            except httpx.HTTPError:
                return None
            self._served = listed_model(self._spec, listed_models(answer))
        return self._served

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request, as each finishes: see `ChatModel`."""
        # The client is closed last: a connection that a request opens after that would stay open.
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(self._client()) as client,
            portal.wrap_async_context_manager(_in_flight()) as in_flight,
        ):
            yield from _bounded(
                lambda request: self._ask(client, request),
                requests,
                portal,
                in_flight,
                self._spec.max_in_flight,
            )

    def _client(self) -> httpx.AsyncClient:
        seconds = self._spec.timeout_seconds
        headers = {"User-Agent": "loupe-datasets", **self._spec.headers}
        if self._spec.api_key_header is not None:
            headers[self._spec.api_key_header] = self._api_key
        elif self._spec.api_key_variable is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        return httpx.AsyncClient(
            headers=headers,
            params=self._spec.query,
            timeout=httpx.Timeout(seconds, connect=min(seconds, _CONNECT_TIMEOUT_SECONDS)),
            limits=httpx.Limits(max_keepalive_connections=0),
            verify=trusted_authorities(),
            follow_redirects=False,  # another host would get the key
            trust_env=self._spec.may_use_proxy,
        )

    async def _ask(self, client: httpx.AsyncClient, request: ChatRequest) -> ChatOutcome:
        body = json.dumps(_body(self._spec, request)).encode()
        retries = 0
        while await anyio.to_thread.run_sync(self.sender.may_send, request):
            attempt = await self._attempt(client, body)
            if not attempt.again or retries == self._spec.max_retries:
                return self._without_secrets(attempt.outcome)
            if (pause := attempt.wait_seconds) is None:
                pause = backoff(retries, _LONGEST_PAUSE_SECONDS)
            retries += 1
            await self._pause(pause, attempt.outcome)
        return ChatFailure(
            reason="not_asked",
            detail=f"a request to {self._spec.base_url} is not sent for now",
            retriable=True,
        )

    def _without_secrets(self, outcome: ChatOutcome) -> ChatOutcome:
        """Return an outcome in which a failure repeats no key, whatever the server says."""
        if not isinstance(outcome, ChatFailure):
            return outcome
        detail, raw = outcome.detail, outcome.raw
        for secret in filter(None, (self._api_key, *self._spec.query.values())):
            for spelling in {secret, quote(secret, safe=""), quote_plus(secret)}:
                detail, raw = detail.replace(spelling, "***"), raw.replace(spelling, "***")
        return outcome.model_copy(update={"detail": detail, "raw": raw})

    async def _pause(self, seconds: float, outcome: ChatOutcome) -> None:
        """Wait before a request is sent again, as long as the run is not stopped."""
        until = monotonic() + seconds
        masked = self._without_secrets(outcome)
        why = masked.detail if isinstance(masked, ChatFailure) else ""
        with self.sender.waiting(f"to ask again ({why})"):
            while not self.sender.is_stopped and (left := until - monotonic()) > 0:
                await anyio.sleep(min(left, _SECONDS_BETWEEN_LOOKS))

    async def _attempt(self, client: httpx.AsyncClient, body: bytes) -> _Attempt:
        """Send a request once."""
        started = perf_counter()
        number = uuid4().hex
        try:
            with anyio.fail_after(self._spec.timeout_seconds):
                response = await _exchanged(client, self._address, number, body)
            completion = self._sent.checked(response, number, body)
            outcome = read_completion(
                completion,
                response.text,
                perf_counter() - started,
                self._address,
                reasoning_is_answer=self._spec.read_reasoning,
            )
        except ServerError as error:
            return self._refused(error)
        except BrokenAnswerError as error:
            detail = f"{self._address} answered, but {error}"
            return _failed(error.reason, detail, raw=error.raw[:_RAW_CHARACTERS], again=True)
        except (httpx.TimeoutException, TimeoutError) as error:
            within = f"within {self._spec.timeout_seconds} seconds"
            detail = f"{self._spec.base_url} did not answer {within} {_said(error)}"
            return _failed("timeout", detail.strip(), again=True)
        except httpx.HTTPError as error:
            detail = f"no connection to {self._spec.base_url} {_said(error)}"
            if isinstance(error, httpx.ConnectError):
                detail += "; `loupe doctor` says how to start or reach it"
            return _failed("unreachable", detail, again=True)
        return _Attempt(outcome)

    def _refused(self, error: ServerError) -> _Attempt:
        failure = refusal_of(error, self._address, self._spec)
        wait = wait_of(error.response.headers.get("retry-after"))
        again = failure.reason in ("rate_limited", "timeout", "server_error")
        is_near = wait is None or wait <= _LONGEST_WAIT_SECONDS
        return _Attempt(failure, again and is_near, wait)


def _failed(reason: str, detail: str, *, raw: str = "", again: bool = False) -> _Attempt:
    failure = ChatFailure(reason=reason, detail=detail, retriable=True, raw=raw)
    return _Attempt(failure, again)


def _said(error: Exception) -> str:
    """What an exception of the transport says, in brackets."""
    return f"({str(error) or type(error).__name__})"


async def _exchanged(
    client: httpx.AsyncClient, address: str, number: str, body: bytes
) -> httpx.Response:
    """Send a request, with its number as a header, and return the response with its whole body.

    Raises:
        BrokenAnswerError: the body broke off, is too large or not encoded as it says.
        httpx.HTTPError: no response came.
    """
    headers = {"Content-Type": "application/json", "X-Request-Id": number}
    received = bytearray()
    async with client.stream("POST", address, content=body, headers=headers) as response:
        try:
            async for part in response.aiter_bytes():
                received += part
                if len(received) > _MOST_BYTES:
                    raise BrokenAnswerError(f"the body is larger than {_MOST_BYTES:,} bytes")
        except httpx.TimeoutException:
            raise
        except httpx.HTTPError as error:
            raw = received.decode("utf-8", "backslashreplace")
            raise BrokenAnswerError(f"the body broke off {_said(error)}", raw) from error
    decoded = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name not in ("content-encoding", "content-length", "transfer-encoding")
    ]
    return httpx.Response(
        response.status_code, headers=decoded, content=bytes(received), request=response.request
    )


@asynccontextmanager
async def _in_flight() -> AsyncIterator[TaskGroup]:
    """A task group that cancels all tasks on exit, also on GeneratorExit."""
    left_by: BaseException | None = None
    async with create_task_group() as tasks:
        try:
            yield tasks
        except BaseException as error:  # noqa: BLE001  # a task group would wrap it in a group
            left_by = error
        tasks.cancel_scope.cancel()
    if left_by is not None:
        raise left_by


def _bounded(
    ask: Callable[[ChatRequest], Awaitable[ChatOutcome]],
    requests: Iterable[ChatRequest],
    portal: BlockingPortal,
    tasks: TaskGroup,
    max_in_flight: int,
) -> Iterator[tuple[int, ChatOutcome]]:
    """Runs `ask` over `requests` on the portal's loop, at most `max_in_flight` at a time.

    Finished outcomes are returned before the next request is taken, so that a caller that counts
    costs knows all of them.
    """
    finished: SimpleQueue[Future[tuple[int, ChatOutcome]]] = SimpleQueue()

    async def ask_numbered(position: int, request: ChatRequest) -> None:
        done: Future[tuple[int, ChatOutcome]] = Future()
        try:
            done.set_result((position, await ask(request)))
        except Exception as error:  # noqa: BLE001  # raised where the outcome is taken
            done.set_exception(error)
        finished.put(done)

    def begin(position: int, request: ChatRequest) -> None:
        tasks.start_soon(ask_numbered, position, request)

    numbered = enumerate(requests)
    in_flight = 0
    exhausted = False
    while True:
        while finished.empty() and in_flight < max_in_flight and not exhausted:
            if (taken := next(numbered, None)) is None:
                exhausted = True
                break
            portal.call(begin, *taken)
            in_flight += 1
        if in_flight == 0:
            return
        done = finished.get()
        in_flight -= 1
        yield done.result()


def _read_api_key(spec: OpenAIChat) -> str:
    if spec.api_key_variable is None:
        return ""
    taken = f"the model {spec.name!r} at {spec.base_url} takes its API key"
    return secret_in(spec.api_key_variable, taken)


def _body(spec: OpenAIChat, request: ChatRequest) -> dict[str, Any]:
    """The body of a request."""
    sampling = spec.sent_sampling
    if "max_tokens" in sampling:
        sampling[spec.limit_parameter] = sampling.pop("max_tokens")
    body: dict[str, Any] = {"model": spec.name, "messages": chat_messages(request)}
    body |= {name: value for name, value in sampling.items() if value is not None}
    if request.answer_schema is not None and spec.structured == "json_schema":
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": request.answer_schema},
        }
    elif request.answer_schema is not None and spec.structured == "json_object":
        body["response_format"] = {"type": "json_object"}
    return body | spec.body
