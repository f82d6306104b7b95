"""Builds the chat model that a profile names."""

from collections.abc import Iterable, Iterator
from itertools import chain
from threading import Lock
from typing import Any, Protocol, assert_never, runtime_checkable

from models.chat import ChatModel, RemoteModel, RetryingModel, always
from schemas.chat import ChatOutcome, ChatRequest, ModelRef, ServedModel
from schemas.profile import (
    BuiltinCaptioner,
    BuiltinContraster,
    BuiltinDescriber,
    BuiltinRewriter,
    ChatModelSpec,
    ImportedRewrites,
    OpenAIChat,
    TransformersChat,
    VllmChat,
)


def build_chat_model(spec: ChatModelSpec) -> ChatModel:
    """The model that `spec` describes, loaded and ready; only its own libraries are imported.

    Raises:
        ConfigurationError: something that the model needs from the environment is missing.
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    match spec:
        case BuiltinRewriter():
            from models.builtin.rule_rewriter import RuleRewriter

            return RuleRewriter(spec)
        case ImportedRewrites():
            from models.imported_rewrites import ImportedRewritesModel

            return ImportedRewritesModel(spec)
        case BuiltinDescriber():
            from models.builtin.describer import ColourDescriber

            return ColourDescriber(spec)
        case BuiltinCaptioner():
            from models.builtin.stills.captioner import StillsCaptioner

            return StillsCaptioner(spec)
        case BuiltinContraster():
            from models.builtin.stills.contraster import StillsContraster

            return StillsContraster(spec)
        case OpenAIChat():
            from models.openai_chat import OpenAIChatModel

            return OpenAIChatModel(spec)
        case VllmChat():
            from models.vllm_chat import VllmChatModel

            return VllmChatModel(spec)
        case TransformersChat():
            from models.transformers_chat import TransformersChatModel

            return TransformersChatModel(spec)
        case _:
            assert_never(spec)


@runtime_checkable
class _Local(Protocol):
    """A model with weights in this process."""

    def close(self) -> None: ...


_loaded: list[tuple[ChatModelSpec, ChatModel]] = []
_loading = Lock()


class OnDemandChatModel:
    """The `ChatModel` of a specification, loaded on first use.

    At most one model with weights is loaded in this process: two may not fit into the memory of a
    GPU, so the previous one is closed first. Equal specifications share a loaded model.
    """

    def __init__(self, spec: ChatModelSpec) -> None:
        self._spec = spec
        self._remote: ChatModel | None = None
        self.may_retry = always

    @property
    def ref(self) -> ModelRef:
        """Name and revision."""
        return self._spec.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The values that, with model and request, determine an answer."""
        return self._spec.parameters

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request: see `ChatModel`."""
        remaining = iter(requests)
        for first in remaining:
            model = self._model()
            if isinstance(model, RetryingModel):
                model.may_retry = self.may_retry
            yield from model.answer(chain((first,), remaining))

    def served(self) -> ServedModel | None:
        """The server's entry for the model, once it was asked; None without a server."""
        remote: object = self._remote
        return remote.served() if isinstance(remote, RemoteModel) else None

    def _model(self) -> ChatModel:
        if isinstance(self._spec, VllmChat | TransformersChat):
            return _load(self._spec)
        if self._remote is None:
            self._remote = build_chat_model(self._spec)
        return self._remote


def _load(spec: VllmChat | TransformersChat) -> ChatModel:
    with _loading:
        if _loaded and _loaded[0][0] == spec:
            return _loaded[0][1]
        while _loaded:
            _, before = _loaded.pop()
            if isinstance(before, _Local):
                before.close()
        model = build_chat_model(spec)
        _loaded.append((spec, model))
        return model
