"""Chat models behind an OpenAI-compatible server, such as vLLM's."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

import httpx
import openai
from anyio import create_task_group
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal

from models.adapter import Adapter, always, secret_in
from models.chat import chat_messages
from models.model_list import list_models, listed_model, listed_models
from models.tls import trusted_authorities
from schemas.chat import REFUSED, ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ServedModel
from schemas.profile import OpenAIChat

_UNREADABLE_ANSWER = "unreadable_answer"
"""The reason of an answer that was received, and paid for, but contains no readable text."""

_CONNECT_TIMEOUT_SECONDS = 10.0
_RETRIES_HEADER = "x-stainless-retry-count"  # in which the client counts its attempts
_RAW_CHARACTERS = 10_000  # of a refusal
_SAID_CHARACTERS = 500  # of it, in messages
_MOST_BYTES = 32 * 2**20  # of an answer
_MOST_TOKENS = 100_000_000  # larger counts are implausible
T = TypeVar("T")


class _NotRetriedError(openai.OpenAIError):
    """A request is not retried; the client passes its own errors of a transport on."""


class OpenAIChatModel(Adapter[OpenAIChat]):
    """Asks a server, with up to `spec.max_in_flight` requests under way at once.

    Requests run on an event loop in a thread of its own; `answer` hands their outcomes over. The
    client retries timeouts, lost connections, 408, 409, 429 and 5xx with exponential backoff and
    jitter, and waits as long as a `Retry-After` header says, while `may_retry` allows it. Of the
    sampling, only what the profile states is sent: a server may have defaults of its own for the
    rest (vLLM takes `top_k` and others from the model's `generation_config.json`). And a server
    that keeps answers to a JSON schema may yet let raw control characters into strings, as vLLM
    with xgrammar does.

    Raises:
        ConfigurationError: the environment variable of the API key is not set or holds no key.
    """

    def __init__(self, spec: OpenAIChat) -> None:
        super().__init__(spec)
        self._api_key = _read_api_key(spec)
        self._served: ServedModel | None = None
        self._has_listed = False
        self.may_retry = always

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

    def _client(self) -> openai.AsyncOpenAI:
        timeout = httpx.Timeout(
            self._spec.timeout_seconds,
            connect=min(self._spec.timeout_seconds, _CONNECT_TIMEOUT_SECONDS),
        )
        limits = httpx.Limits(
            max_connections=self._spec.max_in_flight,
            max_keepalive_connections=self._spec.max_in_flight,
        )
        headers = dict(self._spec.headers)
        if self._spec.api_key_header is not None:
            headers[self._spec.api_key_header] = self._api_key
        client = openai.AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._spec.base_url,
            default_headers=headers,
            default_query=self._spec.query,
            max_retries=self._spec.max_retries,
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=timeout,
                limits=limits,
                event_hooks={"request": [self._refuse_retry]},
                verify=trusted_authorities(),
            ),
        )
        # The client takes these from the environment: an account at OpenAI must not be sent to
        # other servers.
        client.organization = client.project = None
        return client

    async def _refuse_retry(self, request: httpx.Request) -> None:
        if request.headers.get(_RETRIES_HEADER, "0") != "0" and not self.may_retry():
            raise _NotRetriedError

    async def _ask(self, client: openai.AsyncOpenAI, request: ChatRequest) -> ChatOutcome:
        try:
            # The body is read here and not by the client, which would send the request again if the
            # body breaks off: an answer that has started is paid for.
            async with client.chat.completions.with_streaming_response.create(
                **_body(self._spec, request)
            ) as response:
                raw, fault = await _read_body(response.http_response)
        except _NotRetriedError:
            return ChatFailure(
                reason="not_asked",
                detail=f"a request to {self._spec.base_url} failed and is not sent again for now",
                retriable=True,
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
        return _read_completion(raw, response.http_response.elapsed.total_seconds(), fault)


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
        # Any value will do, but one is needed: otherwise the client would take OPENAI_API_KEY from
        # the environment and send it to this server.
        return "none"
    taken = f"the model {spec.name!r} at {spec.base_url} takes its API key"
    return secret_in(spec.api_key_variable, taken)


def _body(spec: OpenAIChat, request: ChatRequest) -> dict[str, Any]:
    """The arguments of the client's `create`."""
    sampling = spec.sent_sampling
    if "max_tokens" in sampling:
        sampling[spec.limit_parameter] = sampling.pop("max_tokens")
    body: dict[str, Any] = {"model": spec.name, "messages": chat_messages(request)}
    body |= {name: value for name, value in sampling.items() if value is not None}
    if spec.api_key_header is not None:
        body["extra_headers"] = {"Authorization": openai.omit}
    if spec.body:
        body["extra_body"] = spec.body
    if request.answer_schema is not None and spec.structured == "json_schema":
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": request.answer_schema},
        }
    elif request.answer_schema is not None and spec.structured == "json_object":
        body["response_format"] = {"type": "json_object"}
    return body


def _refused(error: openai.APIStatusError) -> ChatFailure:
    """The failure for a status of 4xx or 5xx, after the client's retries."""
    status = error.status_code
    retriable = True
    if status == httpx.codes.TOO_MANY_REQUESTS:
        reason = "rate_limited"
    elif status == httpx.codes.REQUEST_TIMEOUT:
        reason = "timeout"
    elif status == httpx.codes.CONFLICT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        reason = "server_error"
    elif status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND):
        # A wrong key, right, address or model name: a fault of the settings, not of this input.
        reason = "misconfigured"
    else:
        reason, retriable = REFUSED, False
    said = server_sentence(error.response.text)
    address = error.request.url.copy_with(query=None)
    return ChatFailure(
        reason=reason,
        detail=f"{address} answered with status {status}" + (f": {said}" if said else ""),
        retriable=retriable,
        raw=error.response.text[:_RAW_CHARACTERS],
    )


def server_sentence(body: str) -> str:
    """What a server says in the body of an error, on one line; "" where it says nothing.

    It is looked for where servers put it: in `error.message` (OpenAI, vLLM), `error`, `message` and
    `detail` (FastAPI). Of a page in HTML nothing is shown.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = "" if body.lstrip().startswith("<") else body
    for name in ("error", "message", "detail"):
        if isinstance(found, dict):
            found = found.get(name) or found
    sentence = found if isinstance(found, str) else json.dumps(found) if found else ""
    return " ".join(sentence.split())[:_SAID_CHARACTERS]


async def _read_body(response: httpx.Response) -> tuple[str, str | None]:
    """The body of an answer as far as it came, and what kept it from being whole, if anything."""
    body = bytearray()
    fault = None
    try:
        async for part in response.aiter_raw():
            body += part
            if len(body) > _MOST_BYTES:
                fault = f"the body is larger than {_MOST_BYTES:,} bytes"
                break
    except httpx.HTTPError as error:
        fault = f"the body broke off ({str(error) or type(error).__name__})"
    try:
        text = httpx.Response(200, headers=response.headers, content=bytes(body)).text
    except httpx.DecodingError:
        fault = fault or "the body is not in the encoding that its header names"
        text = body.decode("utf-8", "backslashreplace")
    return text, fault


def _read_completion(raw: str, seconds: float, fault: str | None = None) -> ChatOutcome:
    """The answer in a response with a status of success, whose body may still be anything.

    It was paid for, whatever it is: what cannot be read is a failure that is not asked for again.
    An answer without content is an empty `ChatAnswer` (a model may spend all its tokens on
    reasoning). A refusal is what the model said.
    """
    try:
        body = json.loads(raw.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        return _unreadable(fault or f"the body is not JSON: {error}", raw, {})
    choices = _field(body, "choices", list)
    if not choices:
        return _unreadable("the body holds no list of choices", raw, body)
    message = _field(choices[0], "message", dict)
    if message is None:
        return _unreadable("the first choice holds no message", raw, body)
    text = _text_of(message.get("content"))
    if text is None:
        return _unreadable("the content of the message is neither text nor parts", raw, body)
    tokens_in, tokens_out = _tokens(body)
    return ChatAnswer(
        text=text or _field(message, "refusal", str) or "",
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        seconds=seconds,
        truncated=choices[0].get("finish_reason") == "length",
        raw=raw,
    )


def _unreadable(what: str, raw: str, body: Any) -> ChatFailure:
    tokens_in, tokens_out = _tokens(body)
    return ChatFailure(
        reason=_UNREADABLE_ANSWER,
        detail=f"the server answered, but {what}",
        retriable=False,
        raw=raw,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
    )


def _text_of(content: Any) -> str | None:
    """The text of a message's content: a string, or a list of parts; None where it is neither.

    Parts without text of the answer, such as a model's thoughts, are left out.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return None
    texts = [part if isinstance(part, str) else _text_of_part(part) for part in content]
    readable = [text for text in texts if text is not None]
    return "".join(readable) if readable or not content else None


def _text_of_part(part: Any) -> str | None:
    if _field(part, "type", str) in ("thinking", "reasoning"):
        return ""
    text = _field(part, "text", str)
    return _field(part, "refusal", str) if text is None else text


def _tokens(body: Any) -> tuple[int | None, int | None]:
    """Tokens in and out as the body states them; None for what is no credible count."""
    usage = _field(body, "usage", dict) or {}
    return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))


def _count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= _MOST_TOKENS else None


def _field(value: Any, name: str, kind: type[T]) -> T | None:
    """A field of a JSON object; None where it is missing or of another kind."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None
