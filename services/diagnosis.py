"""What this installation has, what is missing, and the command that fixes it."""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import shutil
import socket
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from loupe.annotate.queues import load_queues
from loupe.db.blob_check import sampled_faults
from loupe.db.blobs import BlobStore
from loupe.db.reviews import annotators
from loupe.db.store import Store, is_there
from loupe.models.adapter import may_read, secret_in
from loupe.models.imported_rewrites import read_pairs_of
from loupe.models.model_list import list_models, listed_model, listed_models
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import Settings
from loupe.models.registry import has_builder
from loupe.models.weights import is_place, refuse_hidden_folder
from loupe.schemas.base import Record
from loupe.schemas.chat import UNPINNED
from loupe.schemas.checkout import DISTRIBUTION, install_command
from loupe.schemas.content_filter import ContentFilterSpec, PluginContentFilter
from loupe.schemas.embedding import (
    CfamEmbedder,
    EmbedderSpec,
    MllmEmbedder,
    PrecomputedEmbedder,
    TorchEmbedderSpec,
    TransformersEmbedder,
)
from loupe.schemas.errors import ConfigurationError, FormatError, LoupeError, ModelError
from loupe.schemas.extras import EXTRAS, missing_modules
from loupe.schemas.image_edit import ImageEditorSpec, QwenImageEdit
from loupe.schemas.image_search import (
    GOOGLE_ENDS_ON,
    FolderSearch,
    GoogleSearch,
    ImageSearchSpec,
    OpenverseSearch,
    PluginSearch,
)
from loupe.schemas.plugins import foreign_plugins, load_plugin, plugins, survey_plugins
from loupe.schemas.profile import (
    ChatModelSpec,
    EntailmentModel,
    ImportedRewrites,
    Launch,
    OpenAIChat,
    Profile,
    VllmChat,
)
from loupe.schemas.tracking import (
    DetectorSpec,
    FairMOTDetector,
    MediaPipePoseModel,
    PoseModelSpec,
    SSDLiteDetector,
    ViTPoseModel,
)
from loupe.schemas.wording import first_of, many
from loupe.services.environments import (
    EnvironmentName,
    environment_folder,
    found_uv,
    is_installed,
    lock_file,
)
from loupe.services.installation import survey
from loupe.services.process import LOOPBACK, ServiceState


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


# Check the requirements of the models of a profile.

ModelSpec = (
    ChatModelSpec
    | DetectorSpec
    | PoseModelSpec
    | EmbedderSpec
    | EntailmentModel
    | ImageEditorSpec
    | ImageSearchSpec
    | ContentFilterSpec
)
_Listings = dict[tuple[str, str | None], httpx.Response | httpx.HTTPError]
_PROMPT_TOKENS = 1000  # minimum for a request in addition to its answer
_SHOWN_MODELS = 5
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MANY_ANNOTATORS = 5
_TO_SEARCH, _TO_EVALUATE = "to find images", "to evaluate releases"
_TO_TRACK = "to find people in videos"
_NEEDS: dict[type[Any], tuple[str, str]] = {
    VllmChat: ("gpu", ""),
    ViTPoseModel: ("torch", ""),
    QwenImageEdit: ("torch", "to edit images"),
    SSDLiteDetector: ("vision", _TO_TRACK),
    MediaPipePoseModel: ("vision", _TO_TRACK),
    FairMOTDetector: ("torch", _TO_TRACK),
    GoogleSearch: ("web", _TO_SEARCH),
    OpenverseSearch: ("web", _TO_SEARCH),
    FolderSearch: ("", _TO_SEARCH),
    PrecomputedEmbedder: ("", _TO_EVALUATE),
    TorchEmbedderSpec: ("torch", _TO_EVALUATE),
    EntailmentModel: ("torch", "by builds with the check 'entailment'"),
}
"""The extra of each model or service that is not built in, and its use if not every build has it.

Besides, it needs the files and environment variables that its specification names.
"""


def check_models(profile: Profile) -> Iterator[Finding]:
    """Check for each model of the profile whether its requirements are met."""
    return check_specs(specs_of(profile))


def plugin_filters(profile: Profile) -> tuple[PluginContentFilter, ...]:
    """Return the content filter of the profile if it is a plugin's; another needs nothing."""
    found = profile.contrast.content_filter
    return (found,) if isinstance(found, PluginContentFilter) else ()


def specs_of(profile: Profile) -> tuple[ModelSpec, ...]:
    """Return the models and services of the profile."""
    captioning = profile.captioning
    contrast = profile.contrast
    return (
        *(*profile.rewrite.models, *profile.describe.models, captioning.model),
        *(one.model for one in (profile.judge, profile.caption_judge) if one is not None),
        *((profile.faithfulness.entailment,) if profile.faithfulness.entailment else ()),
        *(contrast.strategist, contrast.refiner, contrast.editor),
        *((contrast.search,) if contrast.search is not None else ()),
        *plugin_filters(profile),
        profile.tracking.detector,
        *((profile.filter.pose_model,) if profile.filter.pose_model is not None else ()),
        *(*profile.evaluation.embedders, captioning.embedder, contrast.embedder),
    )


def keys_sent(specs: Iterable[ModelSpec]) -> list[str]:
    """Return which environment variables are sent, and to which hosts, one sentence each."""
    sent: dict[str, None] = {}
    for spec in specs:
        if isinstance(spec, OpenAIChat | GoogleSearch | OpenverseSearch):
            host = urlsplit(spec.base_url).netloc.rpartition("@")[2]
            for variable in filter(may_read, _variables_of(spec)):
                sent[f"{variable} is sent to {host}"] = None
    return list(sent)


def _remedy_of(variable: str) -> str:
    if may_read(variable):
        return f"export {variable}=…"
    return f"export LOUPE_WORKER_VARIABLES={variable}   # if its value is meant for that server"


def _variables_of(spec: ModelSpec) -> list[str]:
    return [value for name, value in spec if name.endswith("_variable") and value]


def check_specs(specs: Iterable[ModelSpec], *, of_build: bool = False) -> Iterator[Finding]:
    """Check for each model or service, once, whether its requirements are met.

    Only `build-ccd` needs an editor and a search, only videos need a detector, and only evaluation
    needs embedders; a build needs all of its own (`of_build`).
    """
    listings: _Listings = {}
    found: list[Finding] = []
    for spec in specs:
        finding = _with_revision(spec, _check_spec(spec, listings, of_build=of_build))
        if finding not in found:  # models that differ only in sampling
            found.append(finding)
            yield finding


def _with_revision(spec: ModelSpec, finding: Finding) -> Finding:
    """Return the finding, which says of a usable model that its revision may change.

    The commits of embedders and of the editor are looked up when they are loaded.
    """
    is_kept = isinstance(spec, OpenAIChat | VllmChat | ViTPoseModel)
    if not is_kept or finding.verdict is not Verdict.OK or spec.revision not in UNPINNED:
        return finding
    said = f"revision {spec.revision!r} is not pinned: name the commit in the profile"
    return finding.model_copy(update={"detail": f"{finding.detail}; {said}"})


def _check_spec(spec: ModelSpec, listings: _Listings, *, of_build: bool) -> Finding:
    is_search = isinstance(spec, GoogleSearch | OpenverseSearch | FolderSearch | PluginSearch)
    subject = f"{'search' if is_search else 'model'} {spec.ref}"
    if spec.provider == "plugin":
        return _check_plugin(subject, spec.name)
    if isinstance(spec, ImportedRewrites):
        return _check_rewrites(subject, spec)
    if isinstance(spec, OpenAIChat):
        return _check_server_of(subject, spec, listings)
    if isinstance(spec, GoogleSearch) and date.today() >= date.fromisoformat(GOOGLE_ENDS_ON):  # noqa: DTZ011 - a day is meant
        detail = f"ended on {GOOGLE_ENDS_ON}; Openverse is the other service"
        return absent(subject, detail, "export LOUPE_PROFILE__CONTRAST__SEARCH__PROVIDER=openverse")
    needs = next((needs for kind, needs in _NEEDS.items() if isinstance(spec, kind)), None)
    if needs is None:
        if not has_builder(spec):
            detail = f"no installed package adds the provider {spec.provider!r}"
            return lacking(subject, detail, "choose a profile with other models")
        return fine(subject, _origin_of(spec))
    extra, use = needs
    report, needed = (absent, f"; needed {use}") if use and not of_build else (lacking, "")
    files = [value for _, value in spec if isinstance(value, Path)]
    if isinstance(spec, TransformersEmbedder | MllmEmbedder):
        try:
            refuse_hidden_folder(spec.ref)
        except ModelError as error:
            return report(subject, f"{error}{needed}", "correct the name in the profile")
        if is_place(spec.name):
            files.append(Path(spec.name))
    if isinstance(spec, CfamEmbedder):
        files = [spec.checkpoint / "model.safetensors"]
    elif isinstance(spec, FolderSearch):
        files = [Path(spec.folder)]
    if missing := [path for path in files if not path.exists()]:
        remedy = f"ls {missing[0].parent}"
        if isinstance(spec, FairMOTDetector):
            remedy = "export LOUPE_PROFILE__TRACKING__DETECTOR__CHECKPOINT=/path/to/checkpoint.pth"
        return report(subject, f"{missing[0]} does not exist{needed}", remedy)
    variables = _variables_of(spec)
    for variable in variables:
        if os.environ.get(variable):
            try:
                secret_in(variable, "it takes a value")
            except ConfigurationError as error:
                return report(subject, f"{error}{needed}", _remedy_of(variable))
    if unset := [name for name in variables if not os.environ.get(name)]:
        detail = f"needs {' and '.join(unset)} in the environment{needed}"
        return report(subject, detail, f"export {unset[0]}=…")
    if extra and missing_modules(extra):
        detail, remedy = f"needs the extra {extra}{needed}", install_command(extra)
        return report(subject, detail, remedy)
    if isinstance(spec, VllmChat) and (lack := gpu_lack(spec)) is not None:
        return lacking(subject, lack, "choose a smaller model, or a profile with a server")
    return fine(subject, f"the extra {extra} is installed" if extra else "is complete")


def _check_plugin(subject: str, name: str) -> Finding:
    try:
        load_plugin("models", name)
    except LoupeError as error:
        remedy = "name one of `loupe plugins` in the profile"
        return lacking(subject, str(error), remedy)
    return fine(subject, f"plugin {plugins('models')[name].named}")


def _origin_of(spec: ModelSpec) -> str:
    """Return where a model comes from that needs nothing more: a plugin, or Loupe itself."""
    plugin = next(iter(foreign_plugins("models", [spec.provider])), None)
    return "built in" if plugin is None else f"plugin {plugin.named}"


def gpu_lack(spec: VllmChat) -> str | None:
    """Return what the GPUs of this machine lack for a model that is loaded here, or None."""
    wanted_gpus = spec.engine_arguments.get("tensor_parallel_size", 1)
    memories = sorted(_gpu_memories_gib(), reverse=True)[:wanted_gpus]
    if len(memories) < wanted_gpus:
        return f"needs {many(wanted_gpus, 'NVIDIA GPU')}; this machine shows {len(memories)}"
    if spec.gpu_memory_gib is not None and memories[-1] < spec.gpu_memory_gib:
        return f"needs a GPU with {spec.gpu_memory_gib:g} GiB; this one has {memories[-1]:.0f} GiB"
    return None


def _gpu_memories_gib() -> list[float]:
    """Return the memory of each NVIDIA GPU, as its driver states it."""
    query = ("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
    if shutil.which(query[0]) is None:
        return []
    done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    return [float(line) / 1024 for line in done.stdout.splitlines() if line.strip().isdigit()]


def _check_rewrites(subject: str, spec: ImportedRewrites) -> Finding:
    """Check the file by reading it, since every line of it must be a pair."""
    try:
        count = sum(1 for _ in read_pairs_of(spec.path))
    except FormatError as error:
        return lacking(subject, str(error), f"ls {spec.path.parent}")
    return fine(subject, f"{count:,} rewrites in a file")


def _check_server_of(subject: str, model: OpenAIChat, listings: _Listings) -> Finding:
    """Check whether a server answers, accepts the key and offers the model; each is asked once."""
    variable = model.api_key_variable
    try:
        key = secret_in(variable, "takes its API key") if variable else None
    except ConfigurationError as error:
        return lacking(subject, str(error), _remedy_of(str(variable)))
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
        served = first_of(sorted(listed), _SHOWN_MODELS)
        detail = f"{model.base_url} does not serve it; it serves {served}"
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
    commit = ["--revision", model.revision] if _COMMIT.fullmatch(model.revision) else []
    return shlex.join([*program, "vllm", "serve", model.name, *commit, *address, *flags, *length])


_SAMPLED_FILES = 50
_INSTALLED_BY: Final[dict[EnvironmentName, str]] = {
    "label-studio": "loupe up",
    "lightly-studio": "loupe explore DATASET",
}
"""The environments of servers, and the commands that install them."""


def diagnose(settings: Settings) -> list[Finding]:
    """Return all findings, in reading order."""
    return [finding for check in _CHECKS for finding in check(settings)]


def _check_python(settings: Settings) -> Iterator[Finding]:
    version = importlib.metadata.version(DISTRIBUTION)
    detail = f"loupe {version}, Python {platform.python_version()}, home {settings.home}"
    yield fine("loupe", detail)


def _check_extras(_: Settings) -> Iterator[Finding]:
    for extra in EXTRAS:
        if missing := missing_modules(extra):
            detail = f"{', '.join(missing)} not installed"
            yield absent(f"extra {extra}", detail, install_command(extra))
        else:
            yield fine(f"extra {extra}", "installed")


def _check_plugins(_: Settings) -> Iterator[Finding]:
    """Check whether what installed packages add can be imported; broken ones are left out."""
    added: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in survey_plugins():
        if one.fault:
            subject = f"plugin {one.plugin.name}"
            yield absent(subject, one.fault, f"update or uninstall {one.plugin.package}")
        else:
            added[one.plugin.named][one.plugin.kind].append(one.plugin.name)
    for package, kinds in added.items():
        said = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
        yield fine(f"plugins of {package}", said)


def _check_engine(settings: Settings) -> Iterator[Finding]:
    """Check where CPU-bound stages run: for Ray, whether something listens at its address."""
    subject, address = f"engine {settings.engine}", settings.ray_address
    if settings.engine != "ray":
        yield fine(subject, "runs on this machine")
    elif missing_modules("ray"):
        yield lacking(subject, "needs the extra ray", install_command("ray"))
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


def _check_environments(settings: Settings) -> Iterator[Finding]:
    """Check what installs the servers with environments of their own, and which are installed."""
    if uv := found_uv(settings.environments):
        yield fine("uv", uv)
    else:
        yield absent("uv", "not found; installs Label Studio and LightlyStudio", "pip install uv")
    for name, installed_by in _INSTALLED_BY.items():
        subject = f"environment {name}"
        if is_installed(name, settings.environments):
            yield fine(subject, str(environment_folder(name, settings.environments)))
        else:
            yield absent(subject, f"not installed under {settings.environments}", installed_by)


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


def _check_label_studio(settings: Settings) -> Iterator[Finding]:
    """Check that the database of our Label Studio suits the number of annotators."""
    try:
        if settings.label_studio_url or not is_there(settings.database_url):
            return
        with closing(Store.open_existing(settings.database_url, settings.home)) as store:
            people = sum(one.state == "active" for one in annotators(store))
    except LoupeError:  # a finding on the blob store
        return
    subject = "database of Label Studio"
    if settings.label_studio_database_url:
        yield fine(subject, "PostgreSQL")
    elif people < _MANY_ANNOTATORS:
        yield fine(subject, f"SQLite, enough for {many(people, 'annotator')}")
    else:
        detail = f"SQLite, on which {people} annotators wait for each other"
        remedy = "export LOUPE_LABEL_STUDIO_DATABASE_URL=postgresql://USER:PASSWORD@HOST:5432/NAME"
        yield absent(subject, detail, remedy)


def _check_profile(settings: Settings) -> Iterator[Finding]:
    subject = f"profile {settings.profile}"
    try:
        profile = load_profile(settings.profile)
    except LoupeError as error:
        yield lacking(subject, str(error), "export LOUPE_PROFILE=builtin")
        return
    yield fine(subject, profile.description)
    yield from check_models(profile)


def _check_queues(settings: Settings) -> Iterator[Finding]:
    """Check the user's file of queues."""
    subject = "queues file"
    try:
        warnings = load_queues(settings.queues_file).warnings
    except ConfigurationError as error:
        yield lacking(subject, str(error), "correct the file, see docs/review.md")
        return
    for warning in warnings:
        yield absent(subject, warning, "loupe queue list")


def _check_blobs(settings: Settings) -> Iterator[Finding]:
    """Check the files of the blob store quickly; `loupe store check` checks all of them."""
    subject = "blob store"
    try:
        if not is_there(settings.database_url):
            yield fine(subject, "nothing is stored yet")
            return
        store = Store.open(settings.database_url, settings.home)
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


_CHECKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _check_python,
    _check_profile,
    _check_queues,
    _check_blobs,
    _check_engine,
    _check_servers,
    _check_label_studio,
    _check_environments,
    _check_extras,
    _check_plugins,
)
