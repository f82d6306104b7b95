"""Build the chat model, embedder or person detector that a profile names, and pin its files."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock
from typing import Any, Protocol, assert_never, runtime_checkable

from models.adapter import Adapter
from models.chat import ChatModel, RemoteModel, RetryingModel, always
from models.embedding import ImageTextEmbedder
from models.tracking.detector import PersonDetector
from schemas.base import Record
from schemas.chat import ChatOutcome, ChatRequest, ServedModel
from schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    MllmEmbedder,
    OpenClipEmbedder,
    PlainModelSpec,
    TransformersEmbedder,
)
from schemas.errors import MissingExtraError, ModelError
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
from schemas.tracking import BuiltinDetector, DetectorSpec, FairMOTDetector, SSDLiteDetector

_BUILDERS: dict[type[Record], str] = {
    BuiltinRewriter: "models.builtin.person.composer.RuleRewriter",
    ImportedRewrites: "models.imported_rewrites.ImportedRewritesModel",
    BuiltinDescriber: "models.builtin.describer.ColourDescriber",
    BuiltinCaptioner: "models.builtin.stills.captioner.StillsCaptioner",
    BuiltinContraster: "models.builtin.stills.contraster.StillsContraster",
    OpenAIChat: "models.openai_chat.OpenAIChatModel",
    VllmChat: "models.vllm_chat.VllmChatModel",
    TransformersChat: "models.transformers_chat.TransformersChatModel",
    BuiltinEmbedder: "models.builtin.embedder.ColourLexiconEmbedder",
    BuiltinStillsEmbedder: "models.builtin.embedder.StillsLexiconEmbedder",
    OpenClipEmbedder: "models.open_clip_embedder.OpenClipImageTextEmbedder",
    TransformersEmbedder: "models.transformers_embedder.load_transformers_embedder",
    MllmEmbedder: "models.transformers_embedder.MllmImageTextEmbedder",
    BuiltinDetector: "models.builtin.pedestrians.detector.BuiltinPedestrianDetector",
    SSDLiteDetector: "models.ssdlite.SSDLitePersonDetector",
    FairMOTDetector: "models.fairmot.detector.FairMOTPersonDetector",
}
"""What builds the model of a specification; its module is imported when the model is needed."""


def _build(spec: ChatModelSpec | PlainModelSpec | DetectorSpec) -> Any:
    return resolve_name(_BUILDERS[type(spec)])(spec)


def build_chat_model(spec: ChatModelSpec) -> ChatModel:
    """The model that `spec` describes, loaded and ready; only its own libraries are imported.

    Raises:
        ConfigurationError: something that the model needs from the environment is missing.
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    model: ChatModel = _build(spec)
    return model


@runtime_checkable
class _Local(Protocol):
    """A model with weights in this process."""

    def close(self) -> None: ...


_loaded: list[tuple[ChatModelSpec, ChatModel]] = []
_loading = Lock()


class OnDemandChatModel(Adapter[ChatModelSpec]):
    """The `ChatModel` of a specification, loaded on first use.

    At most one model with weights is loaded in this process: two may not fit into the memory of a
    GPU, so the previous one is closed first. Equal specifications share a loaded model.
    """

    def __init__(self, spec: ChatModelSpec) -> None:
        super().__init__(spec)
        self._remote: ChatModel | None = None
        self.may_retry = always

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


_COMMIT = re.compile(r"[0-9a-f]{40}")


def build_embedder(spec: PlainModelSpec) -> ImageTextEmbedder:
    """The embedder that `spec` describes, loaded; only its own libraries are imported.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    embedder: ImageTextEmbedder = _build(spec)
    return embedder


def pinned(spec: PlainModelSpec) -> PlainModelSpec:
    """The same specification with digests of files, or the commit of a hub's revision.

    So a cached vector belongs to these weights, and no others are loaded under their name.

    Raises:
        MissingExtraError: only a library that is not installed can tell.
        ModelError: files cannot be read, or there is no such model.
    """
    match spec:
        case BuiltinEmbedder() | BuiltinStillsEmbedder():
            return spec
        case OpenClipEmbedder():
            return spec.model_copy(update=_open_clip_digests(spec))
        case TransformersEmbedder() | MllmEmbedder():
            return spec.model_copy(update=_transformers_revision(spec))
        case _:
            assert_never(spec)


def _open_clip_digests(spec: OpenClipEmbedder) -> dict[str, Any]:
    from models.weights import checkpoint_digest, folder_digest, local_folder

    found: dict[str, Any] = {}
    if spec.architecture_file and not spec.architecture_sha256:
        found["architecture_sha256"] = checkpoint_digest(spec.architecture_file)
    if spec.checkpoint_sha256:
        return found
    if spec.checkpoint:
        found["checkpoint_sha256"] = checkpoint_digest(spec.checkpoint)
    elif folder := local_folder(spec):
        found["checkpoint_sha256"] = folder_digest(folder)
    return found


def _transformers_revision(spec: TransformersEmbedder | MllmEmbedder) -> dict[str, Any]:
    from models.torch_batches import loading_faults
    from models.weights import configuration_of, folder_digest

    if Path(spec.name).is_dir():
        return {"folder_sha256": spec.folder_sha256 or folder_digest(Path(spec.name))}
    if _COMMIT.fullmatch(spec.revision):
        return {}
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the embedder {spec.name!r}", "torch") from error
    with loading_faults("transformers", spec.ref):
        commit = configuration_of(transformers, spec.ref)._commit_hash
    if commit is None:
        raise ModelError(f"transformers does not tell which commit {spec.ref} is")
    return {"revision": commit}


def build_detector(spec: DetectorSpec) -> PersonDetector:
    """The detector that `spec` describes, loaded; only its own libraries are imported.

    A detector may keep state between frames, so it processes one video at a time.

    Raises:
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    detector: PersonDetector = _build(spec)
    return detector


def pinned_detector(spec: DetectorSpec) -> DetectorSpec:
    """The same specification with its checkpoint's digest, so that no other one is loaded.

    Raises:
        ModelError: the checkpoint cannot be read.
    """
    if not isinstance(spec, FairMOTDetector) or spec.checkpoint_sha256 is not None:
        return spec
    from models.weights import checkpoint_digest

    return spec.model_copy(update={"checkpoint_sha256": checkpoint_digest(spec.checkpoint)})


def runs_on_gpu(spec: DetectorSpec) -> bool:
    """Whether detectors of `spec` share a GPU, so that running several at once gains nothing.

    Raises:
        ModelError: there is no such device.
    """
    if not isinstance(spec, FairMOTDetector):
        return False
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        return False  # the caller reports it
    from models.torch_batches import torch_device

    return torch_device(spec.device).type == "cuda"
