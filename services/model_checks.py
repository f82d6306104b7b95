"""Whether what the models of a profile run on is there."""

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    CfamEmbedder,
    EmbedderSpec,
    OpenClipEmbedder,
    PrecomputedEmbedder,
)
from schemas.image_edit import BuiltinEditor, ImageEditorSpec
from schemas.image_search import (
    GOOGLE_ENDS_ON,
    FolderSearch,
    GoogleSearch,
    ImageSearchSpec,
    OpenverseSearch,
)
from schemas.profile import (
    BuiltinCaptioner,
    BuiltinContraster,
    BuiltinDescriber,
    BuiltinRewriter,
    ChatModelSpec,
    OpenAIChat,
    Profile,
    TransformersChat,
    VllmChat,
)
from schemas.tracking import BuiltinDetector, FairMOTDetector, PoseModel
from services.findings import Finding, Verdict, absent, lacking, missing_modules
from services.process import LOOPBACK

_Model = (
    ChatModelSpec | BuiltinDetector | FairMOTDetector | PoseModel | EmbedderSpec | ImageEditorSpec
)


def check_models(profile: Profile) -> Iterator[Finding]:
    """For each model of the profile: whether what it runs on is there."""
    captioning = profile.captioning
    contrast = profile.contrast
    writers = (*profile.rewrite.models, *profile.describe.models, captioning.model)
    for model in dict.fromkeys((*writers, contrast.strategist, contrast.refiner)):
        yield _check_model(model)
    yield _check_editor(contrast.editor)
    if contrast.search is not None:
        yield _check_search(contrast.search)
    yield _check_detector(profile.tracking.detector)
    if profile.filter.pose_model is not None:
        yield _check_extra_of(profile.filter.pose_model, "torch")
    for embedder in dict.fromkeys(
        (*profile.evaluation.embedders, captioning.embedder, contrast.embedder)
    ):
        yield _check_embedder(embedder)


def _check_editor(editor: ImageEditorSpec) -> Finding:
    """`build-ccd` alone needs an editor."""
    if isinstance(editor, BuiltinEditor):
        return _has(editor, "built in")
    found = _check_extra_of(editor, "torch")
    if found.verdict is Verdict.OK:
        return found
    return absent(found.subject, f"{found.detail}; needed to edit images", found.remedy)


def _check_search(search: ImageSearchSpec) -> Finding:
    """`build-ccd` alone needs a search."""
    subject = f"search {search.ref}"
    variables: tuple[str | None, ...] = ()
    match search:
        case GoogleSearch():
            if date.today() >= date.fromisoformat(GOOGLE_ENDS_ON):  # noqa: DTZ011 - a day is meant
                detail = f"ended on {GOOGLE_ENDS_ON}; Openverse is the other service"
                return absent(
                    subject, detail, "export LOUPE_PROFILE__CONTRAST__SEARCH__PROVIDER=openverse"
                )
            variables = (search.engine_variable, search.api_key_variable)
        case OpenverseSearch():
            variables = (
                search.token_variable,
                search.client_id_variable,
                search.client_secret_variable,
            )
        case FolderSearch():
            if not Path(search.folder).is_dir():
                detail = f"there is no folder {search.folder}; needed to find images"
                return absent(subject, detail, f"ls {Path(search.folder).parent}")
    if missing := [name for name in variables if name and not os.environ.get(name)]:
        detail = f"needs {' and '.join(missing)} in the environment to find images"
        return absent(subject, detail, f"export {missing[0]}=…")
    return Finding(subject=subject, verdict=Verdict.OK, detail="has what it needs")


def _check_embedder(embedder: EmbedderSpec) -> Finding:
    """Evaluation alone needs embedders: what they lack stops nobody who builds a dataset."""
    if isinstance(embedder, BuiltinEmbedder | BuiltinStillsEmbedder):
        return _has(embedder, "built in")
    if missing := [path for path in _files_of(embedder) if not path.exists()]:
        detail = f"there is no {missing[0]}; needed to evaluate releases"
        return absent(_subject(embedder), detail, f"ls {missing[0].parent}")
    if isinstance(embedder, PrecomputedEmbedder):
        return _has(embedder, "its vectors are there")
    found = _check_extra_of(embedder, "torch")
    if found.verdict is Verdict.OK:
        return found
    return absent(found.subject, f"{found.detail}; needed to evaluate releases", found.remedy)


def _files_of(embedder: EmbedderSpec) -> list[Path]:
    match embedder:
        case CfamEmbedder():
            return [embedder.checkpoint / "model.safetensors"]
        case PrecomputedEmbedder():
            return [embedder.images, embedder.texts]
        case OpenClipEmbedder():
            return [path for path in (embedder.architecture_file, embedder.checkpoint) if path]
        case _:
            return []


def _check_detector(detector: BuiltinDetector | FairMOTDetector) -> Finding:
    """Videos alone need a detector: what it lacks stops nobody who has none."""
    if isinstance(detector, BuiltinDetector):
        return _has(detector, "built in")
    if not detector.checkpoint.is_file():
        detail = f"no checkpoint at {detector.checkpoint}; needed to follow people in videos"
        variable = "LOUPE_PROFILE__TRACKING__DETECTOR__CHECKPOINT"
        return absent(_subject(detector), detail, f"export {variable}=/path/to/fairmot_dla34.pth")
    return _check_extra_of(detector, "torch")


def _check_model(model: ChatModelSpec) -> Finding:
    match model:
        case BuiltinRewriter() | BuiltinDescriber() | BuiltinCaptioner() | BuiltinContraster():
            return _has(model, "built in")
        case OpenAIChat():
            return _check_server_of(model)
        case VllmChat():
            return _check_extra_of(model, "gpu")
        case TransformersChat():
            return _check_extra_of(model, "torch")


def _check_extra_of(model: _Model, extra: str) -> Finding:
    if not missing_modules(extra):
        return _has(model, f"the extra {extra} is installed")
    remedy = f"uv pip install -e '.[{extra}]'"
    return lacking(_subject(model), f"needs the extra {extra}", remedy)


def _check_server_of(model: OpenAIChat) -> Finding:
    variable = model.api_key_variable
    key = os.environ.get(variable) if variable else None
    if variable and not key:
        detail = f"needs a key in the environment variable {variable}"
        return lacking(_subject(model), detail, f"export {variable}=…")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(f"{model.base_url.rstrip('/')}/models", headers=headers, timeout=5)
    except httpx.HTTPError as error:
        detail = f"{model.base_url} does not answer ({type(error).__name__})"
        return lacking(_subject(model), detail, _start_command(model))
    if answer.is_success:
        return _has(model, f"{model.base_url} answers")
    return lacking(
        _subject(model),
        f"{model.base_url}/models answers with status {answer.status_code}",
        f"export {variable or 'OPENAI_API_KEY'}=…" if answer.status_code in {401, 403} else "",
    )


def _start_command(model: OpenAIChat) -> str:
    parts = urlsplit(model.base_url)
    if parts.hostname in {LOOPBACK, "localhost"}:
        return f"vllm serve {model.name} --host {LOOPBACK} --port {parts.port or 80}"
    return f"curl -v {model.base_url}/models"


def _subject(model: _Model) -> str:
    return f"model {model.ref}"


def _has(model: _Model, detail: str) -> Finding:
    return Finding(subject=_subject(model), verdict=Verdict.OK, detail=detail)
