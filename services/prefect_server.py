"""Our own Prefect: a server, a worker for the work pool `loupe`, and the registered deployments.

Prefect is run as a program here and imported nowhere but in `flows`.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx

from profiles.settings import Settings
from schemas.errors import ServiceError
from services.process import (
    LOOPBACK,
    PLAIN_HTTP,
    RunningService,
    ServiceSpec,
    answers,
    running,
    start,
)

SERVER = "prefect-server"
WORKER = "prefect-worker"
WORK_POOL = "loupe"
DEPLOYMENTS = Path(__file__).parents[1] / "prefect.yaml"
_START_SECONDS = 180.0
_QUERY_SECONDS = 2
"""How often the worker asks for work; by default whoever starts a run may wait for ten seconds."""
_PREFECT = (sys.executable, "-m", "prefect")


def start_prefect_server(home: Path, port: int) -> RunningService:
    """A Prefect server on the loopback interface, with its data under `<home>/prefect`.

    Raises:
        ServiceError: it could not be started.
    """
    url = f"http://{LOOPBACK}:{port}"
    data = home / "prefect"
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    spec = ServiceSpec(
        name=SERVER,
        command=(*_PREFECT, "server", "start", "--host", LOOPBACK, "--port", str(port)),
        working_directory=data,
        environment={
            **prefect_environment(home, url),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_UI_API_URL": f"{url}/api",
            # By default any web page may talk to the server, which can start programs.
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{url},http://localhost:{port}",
        },
        url=url,
        port=port,
        port_option="--prefect-port",
        timeout_seconds=_START_SECONDS,
    )
    return start(home, spec, lambda: answers(f"{url}/api/health"))


def start_prefect_worker(
    settings: Settings, server_url: str, working_directory: Path
) -> RunningService:
    """A process worker; makes the work pool `loupe` where it is absent, and shares our settings.

    Raises:
        ServiceError: it could not be started.
    """
    home, since = settings.home, datetime.now(UTC)
    options = ("--type", "process", "--pool", WORK_POOL, "--name", WORK_POOL)
    spec = ServiceSpec(
        name=WORKER,
        command=(*_PREFECT, "worker", "start", *options),
        working_directory=working_directory,
        environment={
            **prefect_environment(home, server_url),
            **settings.environment(),
            "PREFECT_WORKER_QUERY_SECONDS": str(_QUERY_SECONDS),
        },
        timeout_seconds=_START_SECONDS,
    )
    return start(home, spec, lambda: _has_polled(server_url, since))


def register_deployments(
    home: Path, server_url: str, working_directory: Path, deployments: Path = DEPLOYMENTS
) -> None:
    """Register every deployment of `deployments`; runs will work in `working_directory`.

    Raises:
        ServiceError: `prefect deploy` failed; ends with what it said.
    """
    done = subprocess.run(
        (*_PREFECT, "--no-prompt", "deploy", "--all", "--prefect-file", str(deployments)),
        cwd=working_directory,
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


def prefect_api_url(home: Path) -> str | None:
    """The API of the Prefect server of this installation, or None if it does not run."""
    service = running(home, SERVER)
    return f"{service.url}/api" if service else None


def prefect_environment(home: Path, server_url: str) -> dict[str, str]:
    """Environment variables with which a Prefect program works with our server and nothing else."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")
    }
    return {
        **inherited,
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_API_URL": f"{server_url}/api",
    }


def _has_polled(server_url: str, since: datetime) -> bool:
    """Whether our worker has spoken to the server since that moment."""
    pool = f"{server_url}/api/work_pools/{WORK_POOL}/workers/filter"
    try:
        answer = httpx.post(pool, json={}, timeout=5, trust_env=False, verify=PLAIN_HTTP)
    except httpx.HTTPError:
        return False
    beats = [worker["last_heartbeat_time"] for worker in answer.json()] if answer.is_success else []
    return any(datetime.fromisoformat(beat) >= since for beat in beats if beat)
