"""Chat models that vLLM loads into this process: no server, one machine, its own GPUs."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from models.messages import chat_messages
from schemas.chat import ChatAnswer, ChatFailure, ChatOutcome, ChatRequest, ModelRef
from schemas.errors import MissingExtraError, ModelError
from schemas.profile import VllmChat

# As many as vLLM runs at once unless `max_num_seqs` says otherwise.
_DEFAULT_BATCH_SIZE = 256

# JSON allows any number of spaces: a model that wanders could fill its whole answer with them. And
# of vLLM's backends, xgrammar lets raw control characters into strings, which is not JSON.
STRICT_JSON = {"backend": "guidance", "disable_any_whitespace": True}


class VllmChatModel:
    """Answers in batches of `max_num_seqs` requests, all of which are in flight at once.

    JSON schemas are enforced while the answer is written, by vLLM's structured outputs. The seconds
    of an answer are its share of its batch's time.

    Raises:
        MissingExtraError: vLLM is not installed.
        ModelError: the model could not be loaded.
    """

    def __init__(self, spec: VllmChat) -> None:
        try:
            import vllm
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"the model {spec.name!r} (provider 'vllm')", "gpu") from error
        self._spec = spec
        self._batch_size: int = spec.engine_arguments.get("max_num_seqs", _DEFAULT_BATCH_SIZE)
        arguments = {"structured_outputs_config": STRICT_JSON, **spec.engine_arguments}
        try:
            self._engine = vllm.LLM(model=spec.name, revision=spec.revision, **arguments)
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"vLLM could not load {spec.ref}: {error}") from error

    @property
    def ref(self) -> ModelRef:
        """Name and revision as the profile states them; the revision is what is loaded."""
        return self._spec.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The sampling parameters."""
        return self._spec.parameters

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request, batch by batch: see `ChatModel`."""
        numbered = enumerate(requests)
        while batch := list(islice(numbered, self._batch_size)):
            yield from self._answer_batch(batch)

    def close(self) -> None:
        """Ends the engine and frees its memory; the model answers nothing more."""
        self._engine.llm_engine.engine_core.shutdown()
        del self._engine

    def _answer_batch(
        self, batch: list[tuple[int, ChatRequest]]
    ) -> Iterator[tuple[int, ChatOutcome]]:
        # Nothing is yielded before the engine is empty again: a caller may close us at any yield.
        start = time.perf_counter()
        refused: list[tuple[int, ChatOutcome]] = []
        waiting: list[int] = []
        for position, request in batch:
            if failure := self._enqueue(request):
                refused.append((position, failure))
            else:
                waiting.append(position)
        outputs = self._engine.wait_for_completion(use_tqdm=False)
        seconds = (time.perf_counter() - start) / len(batch)
        yield from refused
        # The engine gives outputs in the order in which it was given the requests.
        for position, output in zip(waiting, outputs, strict=True):
            yield position, _read_output(output, seconds)

    def _enqueue(self, request: ChatRequest) -> ChatFailure | None:
        """None, or why the engine does not take the request (too long, bad image …)."""
        from vllm.exceptions import VLLMClientError

        try:
            self._engine.enqueue_chat(
                chat_messages(request), self._sampling(request), use_tqdm=False
            )
        except (VLLMClientError, ValueError, OSError) as error:
            return ChatFailure(reason="refused_request", detail=f"vLLM: {error}", retriable=False)
        return None

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
