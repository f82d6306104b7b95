"""Chat models loaded by vLLM in this process: no server, one machine with its own GPUs."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Any, Protocol

from loupe.models.adapter import Adapter
from loupe.models.chat import chat_messages
from loupe.schemas.chat import REFUSED, ChatAnswer, ChatFailure, ChatOutcome, ChatRequest
from loupe.schemas.errors import ModelError
from loupe.schemas.extras import needs_extra
from loupe.schemas.profile import VllmChat

# JSON allows any number of spaces, so a weak model could fill its whole answer with them. And of
# vLLM's backends, xgrammar allows raw control characters in strings, which is not JSON.
STRICT_JSON = {"backend": "guidance", "disable_any_whitespace": True}


class Engine(Protocol):
    """Works on many requests at once, step by step; one thread at a time calls it."""

    def add(self, request: ChatRequest) -> str | ChatFailure:
        """Queues a request and returns its id, or why it is refused (too long, bad image …)."""
        ...

    def step(self) -> Iterable[tuple[str, ChatAnswer]]:
        """Advances all requests, of which there is at least one; returns those that finished."""
        ...

    def abort(self, ids: Sequence[str]) -> None:
        """Drops requests that have not finished."""
        ...


class _Stream:
    """The requests of one caller: not in the engine yet, in it (by id), and finished."""

    def __init__(self) -> None:
        self.has_more = True
        self.taken: deque[tuple[int, ChatRequest]] = deque()
        self.positions: dict[str, int] = {}
        self.finished: deque[tuple[int, ChatOutcome]] = deque()

    @property
    def is_over(self) -> bool:
        return not (self.has_more or self.taken or self.positions or self.finished)


class SharedEngine:
    """Keeps an engine full with requests of several threads.

    As soon as a quarter of the places is free, the next requests take them: of the same stream or,
    if that has no more, of another. So the engine does not drain to the slowest answers of a
    stream. Requests enter in groups because the engine's steps that read prompts are slower (see
    `benchmarks/vllm_feeding.py`). Any thread that waits for an answer steps the engine for all.
    """

    def __init__(self, engine: Engine, most_in_flight: int) -> None:
        self._engine = engine
        self._room = most_in_flight
        self._group = max(1, most_in_flight // 4)
        self._streams: list[_Stream] = []
        self._is_in_use = False
        self._changed = Condition()  # guards the three above; notified when they change

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request, as each finishes: see `ChatModel`."""
        stream, numbered = _Stream(), enumerate(requests)
        with self._changed:
            self._streams.append(stream)
        try:
            while not stream.is_over:
                while stream.finished:
                    yield stream.finished.popleft()
                if self._room >= self._group:
                    while stream.has_more and self._changed_room(-1):
                        self._take(stream, numbered)
                self._advance(stream)
        finally:
            self._close(stream)

    def _take(self, stream: _Stream, numbered: Iterator[tuple[int, ChatRequest]]) -> None:
        """Takes the next request of a stream into the reserved place."""
        taken = None
        try:
            taken = next(numbered, None)
        finally:
            if taken is None:
                self._changed_room(1)
        if taken is None:
            stream.has_more = False
        else:
            stream.taken.append(taken)

    def _changed_room(self, change: int) -> bool:
        """Frees or takes places; False if none is free."""
        with self._changed:
            if self._room + change < 0:
                return False
            self._room += change
            self._changed.notify_all()
            return True

    def _advance(self, stream: _Stream) -> None:
        """Steps the engine until there is something to do for the stream."""

        def has_news() -> bool:
            may_take = stream.has_more and self._room >= self._group
            return bool(stream.is_over or stream.finished or may_take)

        with self._in_use(unless=has_news) as is_ours:
            if not is_ours:
                return
            for one in list(self._streams):
                self._add_taken(one)
            owners = {id_: one for one in list(self._streams) for id_ in one.positions}
            for id_, answer in self._engine.step() if owners else ():
                owner = owners[id_]
                owner.finished.append((owner.positions.pop(id_), answer))
                self._changed_room(1)

    def _add_taken(self, stream: _Stream) -> None:
        while stream.taken:
            position, request = stream.taken.popleft()
            added = self._engine.add(request)
            if isinstance(added, ChatFailure):
                stream.finished.append((position, added))
                self._changed_room(1)
            else:
                stream.positions[added] = position

    def _close(self, stream: _Stream) -> None:
        """Removes a stream with its running requests."""
        with self._in_use():
            self._streams.remove(stream)
            if stream.positions:
                self._engine.abort([*stream.positions])
            self._changed_room(len(stream.positions) + len(stream.taken))

    @contextmanager
    def _in_use(self, unless: Callable[[], bool] = lambda: False) -> Iterator[bool]:
        """Yields True with exclusive use of the engine, or False as soon as `unless` holds."""
        with self._changed:
            self._changed.wait_for(lambda: unless() or not self._is_in_use)
            if unless():
                is_ours = False
            else:
                is_ours = self._is_in_use = True
        try:
            yield is_ours
        finally:
            if is_ours:
                with self._changed:
                    self._is_in_use = False
                    self._changed.notify_all()


class VllmChatModel(Adapter[VllmChat]):
    """Answers with vLLM's engine, up to `max_num_seqs` requests at once; thread-safe.

    JSON schemas are enforced by vLLM's structured outputs. The seconds of an answer are its time in
    the engine.

    Raises:
        MissingExtraError: vLLM is not installed.
        ModelError: the model could not be loaded.
    """

    def __init__(self, spec: VllmChat) -> None:
        super().__init__(spec)
        self._engine = VllmEngine(spec)
        self._shared = SharedEngine(self._engine, spec.max_in_flight)

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request, as each finishes: see `ChatModel`."""
        return self._shared.answer(requests)

    def close(self) -> None:
        """Shuts the engine down and frees its memory; the model cannot be used any more."""
        self._engine.close()


class VllmEngine:
    """vLLM's offline engine as an `Engine`."""

    def __init__(self, spec: VllmChat) -> None:
        with needs_extra(f"the model {spec.name!r} (provider 'vllm')", "gpu"):
            import vllm
        self._spec = spec
        self._started: dict[str, float] = {}
        arguments = {"structured_outputs_config": STRICT_JSON, **spec.engine_arguments}
        arguments["trust_remote_code"] = False
        try:
            self._llm = vllm.LLM(model=spec.name, revision=spec.revision, **arguments)
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"vLLM could not load {spec.ref}: {error}") from error

    def add(self, request: ChatRequest) -> str | ChatFailure:
        """Renders a request and queues it."""
        from vllm.exceptions import VLLMClientError

        try:
            [internal] = self._llm.enqueue_chat(
                chat_messages(request), self._sampling(request), use_tqdm=False
            )
        except (VLLMClientError, ValueError, OSError) as error:
            return ChatFailure(reason=REFUSED, detail=f"vLLM: {error}", retriable=False)
        id_: str = internal.partition("-")[0]  # outputs name a request without the random part
        self._started[id_] = time.perf_counter()
        return id_

    def step(self) -> Iterator[tuple[str, ChatAnswer]]:
        """One step of the engine; returns the answers that finished."""
        for output in self._llm.llm_engine.step():
            if output.finished:
                seconds = time.perf_counter() - self._started.pop(output.request_id)
                yield output.request_id, _read_output(output, seconds)

    def abort(self, ids: Sequence[str]) -> None:
        """Removes requests from the engine."""
        self._llm.llm_engine.abort_request([*ids])
        for id_ in ids:
            del self._started[id_]

    def close(self) -> None:
        """Shuts the engine down and frees its memory."""
        self._llm.llm_engine.engine_core.shutdown()
        del self._llm

    def _sampling(self, request: ChatRequest) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        schema = request.answer_schema
        return SamplingParams(
            **self._spec.sampling.model_dump(),
            structured_outputs=None if schema is None else StructuredOutputsParams(json=schema),
        )


def _read_output(output: Any, seconds: float) -> ChatAnswer:
    completion = output.outputs[0]
    return ChatAnswer(
        text=completion.text,
        tokens_in=len(output.prompt_token_ids or ()),
        tokens_out=len(completion.token_ids),
        seconds=seconds,
        truncated=completion.finish_reason == "length",
    )
