"""Build the models and searches that a profile names, and pin their files."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock
from typing import Any, assert_never

from loupe.models.adapter import Adapter
from loupe.models.chat import ChatModel, RemoteModel, RetryingModel, Sender
from loupe.models.content_filter import ContentFilter
from loupe.models.embedding import ImageTextEmbedder
from loupe.models.image_editor import ImageEditor
from loupe.models.image_search import ImageSearch
from loupe.models.tracking.detector import PersonDetector, PoseModel
from loupe.schemas.base import Record
from loupe.schemas.chat import (
    ANSWER_IN_REASONING,
    ChatFailure,
    ChatOutcome,
    ChatRequest,
    NamedModel,
    ServedModel,
)
from loupe.schemas.content_filter import ContentFilterSpec, PluginContentFilter, ServiceFlags
from loupe.schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    MllmEmbedder,
    OpenClipEmbedder,
    PlainModelSpec,
    PluginEmbedder,
    TransformersEmbedder,
)
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.image_edit import ImageEditorSpec, PluginEditor, QwenImageEdit
from loupe.schemas.image_search import GoogleSearch, OpenverseSearch, PluginSearch
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.profile import (
    ChatModelSpec,
    ImportedRewrites,
    OpenAIChat,
    PluginChat,
    VllmChat,
)
from loupe.schemas.tracking import (
    DetectorSpec,
    FairMOTDetector,
    MediaPipePoseModel,
    PluginDetector,
    PluginPoseModel,
    PoseModelSpec,
    SSDLiteDetector,
    ViTPoseModel,
)

_BUILDERS: dict[type[Record], str] = {
    ImportedRewrites: "loupe.models.imported_rewrites.ImportedRewritesModel",
    OpenAIChat: "loupe.models.openai_chat.OpenAIChatModel",
    VllmChat: "loupe.models.vllm_chat.VllmChatModel",
    OpenClipEmbedder: "loupe.models.open_clip_embedder.OpenClipImageTextEmbedder",
    TransformersEmbedder: "loupe.models.transformers_embedder.load_transformers_embedder",
    MllmEmbedder: "loupe.models.transformers_embedder.MllmImageTextEmbedder",
    SSDLiteDetector: "loupe.models.ssdlite.SSDLitePersonDetector",
    FairMOTDetector: "loupe.models.fairmot.detector.FairMOTPersonDetector",
    ViTPoseModel: "loupe.models.pose.TransformersPoseModel",
    MediaPipePoseModel: "loupe.models.pose.MediaPipePoseModel",
    QwenImageEdit: "loupe.models.qwen_image_edit.QwenImageEditor",
    GoogleSearch: "loupe.models.search.google.GoogleImageSearch",
    OpenverseSearch: "loupe.models.search.openverse.OpenverseImageSearch",
    PluginEmbedder: "loupe.models.foreign.ForeignEmbedder",
    PluginChat: "loupe.models.foreign.ForeignChatModel",
    PluginDetector: "loupe.models.foreign.ForeignDetector",
    PluginPoseModel: "loupe.models.foreign.ForeignPoseModel",
    PluginContentFilter: "loupe.models.foreign.ForeignContentFilter",
    PluginEditor: "loupe.models.foreign.ForeignEditor",
    PluginSearch: "loupe.models.foreign.ForeignSearch",
    ServiceFlags: "loupe.models.content_filter.ServiceFlagsFilter",
}
"""What builds the model of a specification; its module is imported when the model is needed.

Those of plugins are wrapped. Other models are entry points (`loupe.models`) that are called as the
provider of a specification.
"""


def has_builder(spec: Any) -> bool:
    """Whether the code of the model is installed, without the libraries that it may need."""
    return type(spec) in _BUILDERS or spec.provider in plugins("models")


def _build(spec: Any) -> Any:
    """The model that `spec` describes, loaded and ready; only its own libraries are imported.

    Raises:
        ConfigurationError: no package adds it, or something that it needs is missing.
        MissingExtraError: the extra that the provider needs is not installed.
        ModelError: the model could not be loaded.
    """
    if not has_builder(spec):
        raise ConfigurationError(
            f"no installed package adds the model provider {spec.provider!r}; choose a profile "
            f"with other models: --profile (docs/profiles.md)"
        )
    if name := _BUILDERS.get(type(spec)):
        return resolve_name(name)(spec)
    return load_plugin("models", spec.provider)(spec)


build_chat_model: Callable[[ChatModelSpec], ChatModel] = _build
build_embedder: Callable[[PlainModelSpec], ImageTextEmbedder] = _build
build_detector: Callable[[DetectorSpec], PersonDetector] = _build
build_pose_model: Callable[[PoseModelSpec], PoseModel] = _build
build_image_editor: Callable[[ImageEditorSpec], ImageEditor] = _build
build_content_filter: Callable[[ContentFilterSpec], ContentFilter] = _build
build_image_search: Callable[[GoogleSearch | OpenverseSearch | PluginSearch], ImageSearch] = _build
"""A folder's search needs its images and their vectors: `loupe.flows.ccd.searching` makes it."""


_loaded: list[tuple[ChatModelSpec, Any]] = []
"""At most one specification with its model, which has weights in this process."""

_loading = Lock()


class OnDemandChatModel(Adapter[ChatModelSpec]):
    """The `ChatModel` of a specification, loaded on first use.

    At most one model with weights is loaded in this process: two may not fit into the memory of a
    GPU, so the previous one is closed first. Equal specifications share a loaded model.
    """

    def __init__(self, spec: ChatModelSpec) -> None:
        super().__init__(spec)
        self._remote: ChatModel | None = None
        self.sender = Sender()

    def answer(self, requests: Iterable[ChatRequest]) -> Iterator[tuple[int, ChatOutcome]]:
        """(position, outcome) of each request: see `ChatModel`."""
        remaining = iter(requests)
        for first in remaining:
            model = self._model()
            if isinstance(model, RetryingModel):
                model.sender = self.sender
            yield from model.answer(chain((first,), remaining))

    def read_again(self, failure: ChatFailure) -> ChatOutcome:
        """The answer among the reasoning of a stored response, if the profile reads it there."""
        is_read = isinstance(self._spec, OpenAIChat) and self._spec.read_reasoning
        if not is_read or failure.reason != ANSWER_IN_REASONING:
            return failure
        read: Callable[[str], ChatOutcome] = resolve_name(
            "loupe.models.chat_answers.read_reasoning"
        )
        return read(failure.raw)

    def served(self) -> ServedModel | None:
        """The server's entry for the model, once it was asked; None without a server."""
        remote: object = self._remote
        return remote.served() if isinstance(remote, RemoteModel) else None

    def _model(self) -> ChatModel:
        if isinstance(self._spec, VllmChat):
            return _load(self._spec)
        if self._remote is None:
            self._remote = build_chat_model(self._spec)
        return self._remote


def _load(spec: VllmChat) -> ChatModel:
    with _loading:
        if not _loaded or _loaded[0][0] != spec:
            while _loaded:
                _loaded.pop()[1].close()
            _loaded.append((spec, build_chat_model(spec)))
        model: ChatModel = _loaded[0][1]
        return model


def pinned(spec: PlainModelSpec) -> PlainModelSpec:
    """The same specification with digests of files, or the commit of a hub's revision.

    So a cached vector belongs to these weights, and no others are loaded under their name.

    Raises:
        MissingExtraError: only a library that is not installed can tell.
        ModelError: files cannot be read, or there is no such model.
    """
    match spec:
        case BuiltinEmbedder() | BuiltinStillsEmbedder() | PluginEmbedder():
            return spec
        case OpenClipEmbedder():
            return spec.model_copy(update=_open_clip_digests(spec))
        case TransformersEmbedder() | MllmEmbedder():
            return spec.model_copy(update=_transformers_revision(spec))
        case _:
            assert_never(spec)


def _open_clip_digests(spec: OpenClipEmbedder) -> dict[str, Any]:
    from loupe.models.weights import checkpoint_digest, folder_digest, local_folder

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
    from loupe.models.weights import configuration_of, folder_digest, hub_commit

    if Path(spec.name).is_dir():
        return {"folder_sha256": spec.folder_sha256 or folder_digest(Path(spec.name))}
    what = f"the embedder {spec.name!r}"
    return {
        "revision": hub_commit(
            spec, "transformers", what, lambda one: configuration_of(one, spec.ref)._commit_hash
        )
    }


def pinned_detector(spec: DetectorSpec) -> DetectorSpec:
    """The same specification with its checkpoint's digest, so that no other one is loaded.

    Raises:
        ModelError: the checkpoint cannot be read.
    """
    if not isinstance(spec, FairMOTDetector) or spec.checkpoint_sha256 is not None:
        return spec
    from loupe.models.weights import checkpoint_digest

    return spec.model_copy(update={"checkpoint_sha256": checkpoint_digest(spec.checkpoint)})


def runs_on_gpu(spec: NamedModel) -> bool:
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
    from loupe.models.weights import torch_device

    return torch_device(spec.device).type == "cuda"
