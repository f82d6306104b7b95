"""The protocol of chat models, and requests in the message format of OpenAI's API."""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from loupe.schemas.chat import ChatFailure, ChatOutcome, ChatRequest, ModelRef, ServedModel


class Sender:
    """What a model that sends requests asks its caller, and tells it. This one permits all.

    Thread-safe: `may_send` may be called from any thread.
    """

    @property
    def is_stopped(self) -> bool:
        """Whether no request is sent any more, so that nobody waits to send one."""
        return False

    def may_send(self, request: Any) -> bool:  # noqa: ARG002
        """Tell, before each attempt, whether the request may be sent (again)."""
        return True

    def waiting(self, what: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context in which the model waits for something, "to ask again" for example."""
        return nullcontext()


@runtime_checkable
class RetryingModel(Protocol):
    """A chat model that retries failed requests as its `sender` permits."""

    sender: Sender


@runtime_checkable
class RereadingModel(Protocol):
    """A chat model that may read a stored answer that could not be read before."""

    def read_again(self, failure: ChatFailure) -> ChatOutcome:
        """The answer in what a server sent, or the failure again. Nothing is sent."""
        ...


@runtime_checkable
class RemoteModel(Protocol):
    """A chat model behind a server that may list what it serves."""

    def served(self) -> ServedModel | None:
        """The server's entry for this model; None if it has none. Requested at most once."""
        ...


@runtime_checkable
class ChatModel(Protocol):
    """A model that answers requests made of text and images, in text or in JSON.

    Who owns what:

    - The *model* owns how many requests run at once, retries of the world's faults (timeouts, 429,
      5xx, lost connections) and the clock of each call. It never raises for a single request: what
      failed comes back as a `ChatFailure`. It raises (`ModelError`, `ConfigurationError`) only for
      what concerns all requests, before the first outcome.
    - The *caller* owns the requests, the store, the budget, and the meaning of an answer: it takes
      reasoning and chatter out, validates JSON, and decides what a failure means for its input.

    What is promised:

    - One (position, outcome) pair per request taken, exactly once, as each one finishes and in any
      order. Positions count the requests from 0, in the order in which they were taken.
    - Requests are taken lazily, one by one, and only when there is room in flight: a caller stops
      the flow of requests by ending the iterable, and everything in flight is still answered.
      `requests` is only ever advanced in the caller's own thread, inside `next()` of the result.
    - Closing the iterator before its end cancels what is in flight; its outcomes are lost.
    - An error that `requests` itself raises reaches the caller unchanged.
    - An instance answers one stream of requests at a time, unless it says otherwise.
    """

    @property
    def ref(self) -> ModelRef:
        """Name and revision: what cache keys and provenance say of this model."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """What, beside model and request, determines an answer; JSON values only, never secrets."""
        ...

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request, as each finishes."""
        ...


def chat_messages(request: ChatRequest) -> list[dict[str, Any]]:
    """One user message: the images, if any, as data URLs before the prompt."""
    content: str | list[dict[str, Any]] = request.prompt
    if request.images:
        urls = (
            f"data:{image.media_type};base64,{b64encode(image.data).decode()}"
            for image in request.images
        )
        images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        content = [*images, {"type": "text", "text": request.prompt}]
    return [{"role": "user", "content": content}]
