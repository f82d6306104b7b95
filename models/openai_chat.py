"""Chat models behind an OpenAI-compatible server, such as vLLM's."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import Any

import httpx
import openai
from anyio import create_task_group
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal
from pydantic import BaseModel, Field, ValidationError

from models.messages import chat_messages
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from schemas.errors import ConfigurationError
from schemas.profile import OpenAIChat

_CONNECT_TIMEOUT_SECONDS = 10.0
_RAW_CHARACTERS = 10_000  # of a failed response, kept for the quarantine


class OpenAIChatModel:
    """Asks a server, with up to `spec.max_in_flight` requests under way at once.

    Requests run on an event loop in a thread of its own; `answer` hands their outcomes over. The
    client retries timeouts, lost connections, 408, 409, 429 and 5xx with exponential backoff and
    jitter, and waits as long as a `Retry-After` header says. Of the sampling, only what the profile
    states is sent: a server may have defaults of its own for the rest (vLLM takes `top_k` and
    others from the model's `generation_config.json`). And a server that keeps answers to a JSON
    schema may yet let raw control characters into strings, as vLLM with xgrammar does.

    Raises:
        ConfigurationError: the environment variable that should hold the API key is not set.
    """

    def __init__(self, spec: OpenAIChat) -> None:
        self._spec = spec
        self._api_key = _read_api_key(spec)

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the profile states them; the server's word is not asked for."""
        return self._spec.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The sampling parameters."""
        return self._spec.parameters

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request, as each finishes: see `ChatModel`."""
        # The client is closed last: a connection that a request opens after that stays open.
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

    def _client(self) -> openai.AsyncOpenAI:
        timeout = httpx.Timeout(
            self._spec.timeout_seconds,
            connect=min(self._spec.timeout_seconds, _CONNECT_TIMEOUT_SECONDS),
        )
        limits = httpx.Limits(
            max_connections=self._spec.max_in_flight,
            max_keepalive_connections=self._spec.max_in_flight,
        )
        client = openai.AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._spec.base_url,
            max_retries=self._spec.max_retries,
            http_client=openai.DefaultAsyncHttpxClient(timeout=timeout, limits=limits),
        )
        # The client takes these from the environment: an account at OpenAI is not to be told to
        # whatever server this is.
        client.organization = client.project = None
        return client

    async def _ask(self, client: openai.AsyncOpenAI, request: ChatRequest) -> ChatOutcome:
        try:
            response = await client.chat.completions.with_raw_response.create(
                **_body(self._spec, request)
            )
        except openai.APITimeoutError as error:
            return ChatFailure(
                reason="timeout",
                detail=f"{self._spec.base_url} did not answer within "
                f"{self._spec.timeout_seconds} seconds: {error}",
                retriable=True,
            )
        except openai.APIConnectionError as error:
            return ChatFailure(
                reason="unreachable",
                detail=f"no connection to {self._spec.base_url}: {error.__cause__ or error}",
                retriable=True,
            )
        except openai.APIStatusError as error:
            return _refused(error)
        return _read_completion(response.text, response.elapsed.total_seconds())


@asynccontextmanager
async def _in_flight() -> AsyncIterator[TaskGroup]:
    """Tasks of which none is left when it is left, by whatever way (GeneratorExit included)."""
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
    """Run `ask` over `requests` as `tasks` on the portal's loop, at most `max_in_flight` at a time.

    What is finished is handed over before a next request is taken: a caller that counts costs knows
    all that is to be known when it is asked for more.
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
        # Any value will do, but one must be given: without it the client would take OPENAI_API_KEY
        # from the environment and send it to whatever server this is.
        return "none"
    if key := os.environ.get(spec.api_key_variable):
        return key
    raise ConfigurationError(
        f"the model {spec.name!r} at {spec.base_url} takes its API key from the environment "
        f"variable {spec.api_key_variable}, which is not set"
    )


def _body(spec: OpenAIChat, request: ChatRequest) -> dict[str, Any]:
    """The arguments of the client's `create`: what the server will be sent."""
    body: dict[str, Any] = {
        "model": spec.name,
        "messages": chat_messages(request),
        "temperature": spec.sampling.temperature,
        "top_p": spec.sampling.top_p,
        "max_tokens": spec.sampling.max_tokens,
    }
    if spec.sampling.seed is not None:
        body["seed"] = spec.sampling.seed
    if request.answer_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": request.answer_schema},
        }
    return body


def _refused(error: openai.APIStatusError) -> ChatFailure:
    """What a status of 4xx or 5xx means, once the client has retried what it retries."""
    status = error.status_code
    retriable = True
    if status == httpx.codes.TOO_MANY_REQUESTS:
        reason = "rate_limited"
    elif status == httpx.codes.REQUEST_TIMEOUT:
        reason = "timeout"
    elif status == httpx.codes.CONFLICT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        reason = "server_error"
    elif status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND):
        # Key, rights, address or model name: our settings are at fault, not this one input.
        reason = "misconfigured"
    else:
        reason, retriable = "refused_request", False
    return ChatFailure(
        reason=reason,
        detail=f"{error.request.url} answered with status {status}",
        retriable=retriable,
        raw=error.response.text[:_RAW_CHARACTERS],
    )


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int | None = Field(default=0, ge=0)


class _Completion(BaseModel):
    """The part of a completion that we read; servers add fields of their own as they like."""

    choices: list[_Choice]
    usage: _Usage | None = None


def _read_completion(text: str, seconds: float) -> ChatOutcome:
    """The answer in a response of status 200, whose body may still be anything.

    An answer without content was paid for (a model may spend all its tokens on reasoning): it is an
    empty `ChatAnswer`, so that its tokens are counted. A refusal is what the model said.
    """
    try:
        completion = _Completion.model_validate_json(text)
    except ValidationError as error:
        return ChatFailure(
            reason="server_error",
            detail=f"the body is not a chat completion: {error.errors()[0]['msg']}",
            retriable=True,
            raw=text[:_RAW_CHARACTERS],
        )
    if not completion.choices:
        return ChatFailure(
            reason="empty_answer",
            detail="the completion holds no choice",
            retriable=False,
            raw=text[:_RAW_CHARACTERS],
        )
    choice = completion.choices[0]
    usage = completion.usage or _Usage()
    return ChatAnswer(
        text=choice.message.content or choice.message.refusal or "",
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens or 0,
        seconds=seconds,
        truncated=choice.finish_reason == "length",
    )
