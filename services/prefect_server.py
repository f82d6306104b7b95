"""Our own Prefect: a server, a worker for the work pool `loupe`, and deployments.

Prefect is run as a program here and imported only in `flows`: the server is
`loupe.flows.prefect_app`, the worker `loupe.flows.prefect_worker`.
"""

import logging
import re
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from loupe.models.adapter import may_read
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import PREFIX, SECRETS_OF_BUILDS, Settings
from loupe.schemas.errors import ServiceError
from loupe.schemas.processes import PYTHON, inherited, write_atomically
from loupe.services.credentials import load_credentials, private_folder
from loupe.services.process import (
    LOOPBACK,
    PLAIN_HTTP,
    SYSTEM_VARIABLES,
    RunningService,
    ServiceSpec,
    start,
)
from loupe.services.public import public_site

SERVER = "prefect-server"
WORKER = "prefect-worker"
WORK_POOL = "loupe"
DEPLOYMENTS = Path(__file__).with_name("prefect.yaml")
_START_SECONDS = 180.0
_DATABASE_SECONDS = 60  # that a statement waits for SQLite; 10 are too few on a busy disk
_QUERY_SECONDS = 2
"""How often the worker polls for work; with Prefect's default, a run may start ten seconds late."""
_HEARTBEAT_SECONDS = 30
"""The interval of a run's heartbeats: the shortest that Prefect allows."""
_LOST_AFTER_SECONDS = 180.0
"""Time without a heartbeat after which a run counts as crashed; several heartbeats."""
_ANSWER_SECONDS = 30
_BUSY_ATTEMPTS = 20  # a second apart
_PREFECT = (*PYTHON, "-m", "prefect")
_USER = "loupe"
_MODEL_VARIABLES = (
    ".*_NUM_THREADS|TOKENIZERS_PARALLELISM|(CUDA|NVIDIA|NCCL|HF|TRANSFORMERS|TORCH|VLLM)_.*"
    f"|{PREFIX}PROFILE__.*"
)


def deployments_in(home: Path) -> Path:
    """Return the file of the deployments of a home, which has pipelines of its own."""
    return home / "prefect" / "deployments.yaml"


def deployments_of(home: Path) -> Path:
    """Return the file of the deployments that are registered: the shipped one, or the home's."""
    own = deployments_in(home)
    return own if own.exists() else DEPLOYMENTS


def start_prefect_server(home: Path, port: int) -> RunningService:
    """Start a Prefect server on the loopback interface, with its data under `<home>/prefect`.

    Raises:
        ServiceError: it could not be started.
    """
    url = f"http://{LOOPBACK}:{port}"
    data = private_folder(home, "prefect")
    site = public_site(home)
    public = site.origin("prefect") if site is not None else ""
    behind = ("--public", public) if public else ()
    spec = ServiceSpec(
        name=SERVER,
        command=(*PYTHON, "-m", "loupe.flows.prefect_app", "--port", str(port), *behind),
        working_directory=data,
        environment={
            **prefect_environment(home, url),
            "PREFECT_SERVER_API_AUTH_STRING": prefect_auth_string(home),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            # for `prefect deployment run --watch`, which else shows events without messages
            "PREFECT_SERVER_LOGS_STREAM_PUBLISHING_ENABLED": "true",
            "PREFECT_SERVER_LOGS_STREAM_OUT_ENABLED": "true",
            "PREFECT_SERVER_DATABASE_TIMEOUT": str(_DATABASE_SECONDS),
            "PREFECT_UI_API_URL": "/api" if public else f"{url}/api",
            # By default, pages of any origin may read the responses.
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{url},http://localhost:{port}",
        },
        port=port,
        health="/api/health",
        port_option="--prefect-port",
        timeout_seconds=_START_SECONDS,
    )
    service = start(home, spec)
    profile = (
        f'active = "{_USER}"\n\n[profiles.{_USER}]\n'
        f'PREFECT_API_URL = "{url}/api"\n'
        f'PREFECT_API_AUTH_STRING = "{prefect_auth_string(home)}"\n'
    )
    write_atomically(prefect_profiles(home), profile.encode())
    return service


def start_prefect_worker(
    settings: Settings,
    server_url: str,
    working_directory: Path,
    deployments: Path = DEPLOYMENTS,
    lost_after_seconds: float = _LOST_AFTER_SECONDS,
) -> RunningService:
    """Start a worker for the `deployments`, and set up the work pool `loupe`.

    Runs work in `working_directory`. The worker itself does not: Prefect takes settings, which can
    name code, from the files of its folder.

    A run without a heartbeat for `lost_after_seconds` counts as crashed and is run again.

    Raises:
        ServiceError: it could not be started.
        ConfigurationError: the profile of the settings cannot be read.
    """
    home, since = settings.home, datetime.now(UTC)
    options = (
        *("--pool", WORK_POOL, "--deployments", str(deployments.absolute())),
        *("--lost-after", str(lost_after_seconds), "--folder", str(working_directory)),
    )
    spec = ServiceSpec(
        name=WORKER,
        command=(*PYTHON, "-m", "loupe.flows.prefect_worker", *options),
        working_directory=private_folder(home, "prefect"),
        environment={
            **worker_variables(settings),
            **prefect_environment(home, server_url),
            **settings.environment(*SECRETS_OF_BUILDS),
            "PREFECT_WORKER_QUERY_SECONDS": str(_QUERY_SECONDS),
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(_HEARTBEAT_SECONDS),
        },
        timeout_seconds=_START_SECONDS,
        keeps_umask=True,
    )
    return start(home, spec, lambda: _has_polled(home, server_url, since))


def register_deployments(home: Path, server_url: str, deployments: Path = DEPLOYMENTS) -> None:
    """Register every deployment of `deployments`.

    Raises:
        ServiceError: `prefect deploy` failed; the message ends with its output.
    """
    done = subprocess.run(
        (*_PREFECT, "--no-prompt", "deploy", "--all", "--prefect-file", str(deployments)),
        cwd=private_folder(home, "prefect"),
        env=prefect_environment(home, server_url),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ServiceError(
            f"the deployments of {deployments} could not be registered at {server_url}:\n"
            f"{done.stdout.strip()[-2000:]}"
        )


def prefect_profiles(home: Path) -> Path:
    """Return the Prefect profile with our server's URL and password, readable only by its owner."""
    return home / "prefect" / "profiles.toml"


def prefect_auth_string(home: Path) -> str:
    """Return `user:password` of our server's API."""
    return f"{_USER}:{load_credentials(home).prefect_password.get_secret_value()}"


def prefect_login(home: Path) -> httpx.BasicAuth:
    """Return the login for the API of our server."""
    user, _, password = prefect_auth_string(home).partition(":")
    return httpx.BasicAuth(user, password)


def prefect_environment(home: Path, server_url: str) -> dict[str, str]:
    """Return the environment variables with which a Prefect program uses only our server."""
    return {
        **inherited(SYSTEM_VARIABLES),
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": f"{server_url}/api",
        "PREFECT_API_AUTH_STRING": prefect_auth_string(home),
    }


def worker_variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables that runs get: only those that models and stores need.

    Keys are passed on if the profile or `LOUPE_WORKER_VARIABLES` names them.

    Raises:
        ConfigurationError: the profile cannot be read.
    """
    named = filter(may_read, _named_variables(load_profile(settings.profile).model_dump()))
    listed = settings.worker_variables.replace(",", " ").split()
    wanted = [_MODEL_VARIABLES, *map(re.escape, (*named, *listed))]
    if settings.blobs_url.startswith("s3:"):
        wanted.append("AWS_.*")
    if settings.database_url.startswith("postgresql"):
        wanted.append("PG.*")
    return inherited("|".join(wanted))


def _named_variables(profile: object) -> Iterator[str]:
    """Return the environment variables that a profile names, at any depth."""
    if isinstance(profile, dict):
        for key, value in profile.items():
            if str(key).endswith("_variable") and value:
                yield str(value)
            else:
                yield from _named_variables(value)
    elif isinstance(profile, list | tuple):
        for part in profile:
            yield from _named_variables(part)


class PausedRun(NamedTuple):
    """A paused run of a deployment; `state` is its state as Prefect describes it."""

    id: str
    name: str
    tags: tuple[str, ...]
    state: Mapping[str, Any] = {}


def paused_tag(dataset: str) -> str:
    """Return the tag of runs that paused because people must decide items of a dataset."""
    return f"dataset:{dataset}"


def paused_runs(home: Path, server_url: str) -> list[PausedRun]:
    """Return the paused runs of our server, oldest first.

    Raises:
        ServiceError: the server does not answer.
    """
    query = {
        "flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}},
        "sort": "START_TIME_ASC",
    }
    return [
        PausedRun(run["id"], run["name"], tuple(run["tags"]), run["state"])
        for run in _asked(home, server_url, "flow_runs/filter", query)
    ]


def restate_pause(home: Path, server_url: str, run: PausedRun, message: str) -> None:
    """Change the message of a paused run's state, and nothing else of it.

    Raises:
        ServiceError: the server does not answer.
    """
    kept = {name: run.state[name] for name in ("type", "name", "data", "state_details")}
    body = {"state": {**kept, "message": message}, "force": True}
    _asked(home, server_url, f"flow_runs/{run.id}/set_state", body)


def resume_run(home: Path, server_url: str, run: PausedRun, reason: str) -> None:
    """Resume a paused run, and write the reason to its log.

    Raises:
        ServiceError: the server does not answer.
    """
    line = {
        "name": "loupe.queue-watcher",
        "level": logging.INFO,
        "message": reason,
        "timestamp": datetime.now(UTC).isoformat(),
        "flow_run_id": run.id,
    }
    _asked(home, server_url, "logs/", [line])
    _asked(home, server_url, f"flow_runs/{run.id}/resume", {})


class _BusyError(ServiceError):
    """The server's database was locked; nothing was changed."""


@retry(
    retry=retry_if_exception_type(_BusyError),
    wait=wait_fixed(1),
    stop=stop_after_attempt(_BUSY_ATTEMPTS),
    reraise=True,
)
def _asked(home: Path, server_url: str, path: str, body: object) -> Any:
    """Return our server's answer to a request, which is sent again while its database is locked."""
    try:
        answer = httpx.post(
            f"{server_url}/api/{path}",
            json=body,
            auth=prefect_login(home),
            timeout=_ANSWER_SECONDS,
            trust_env=False,
            verify=PLAIN_HTTP,
        )
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            raise _BusyError(f"the database of the Prefect server at {server_url} stays locked")
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise ServiceError(
            f"the Prefect server at {server_url} does not answer: {error}"
        ) from error
    return answer.json() if answer.content else None


def _has_polled(home: Path, server_url: str, since: datetime) -> bool:
    """Tell whether our worker has contacted the server since that time."""
    try:
        workers = _asked(home, server_url, f"work_pools/{WORK_POOL}/workers/filter", {})
    except ServiceError:
        return False
    beats = [worker["last_heartbeat_time"] for worker in workers]
    return any(datetime.fromisoformat(beat) >= since for beat in beats if beat)
