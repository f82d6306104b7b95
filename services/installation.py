"""Start, stop and survey all servers of one installation."""

import hashlib
import os
from collections.abc import Callable, Collection
from pathlib import Path
from urllib.parse import urlsplit

from loupe.models.profiles.settings import SECRETS_OF_BUILDS, Settings
from loupe.schemas.base import Record
from loupe.schemas.processes import PYTHON, write_atomically
from loupe.services import blob_server, caddy, label_studio, prefect_server
from loupe.services.blob_server import without_keys
from loupe.services.components import Component
from loupe.services.credentials import services_folder
from loupe.services.environments import ensure_environment, is_installed
from loupe.services.label_studio import WATCHER
from loupe.services.oidc import oidc_variables
from loupe.services.process import (
    LOOPBACK,
    RunningService,
    ServiceSpec,
    ServiceState,
    free_port,
    recorded,
    running,
    start,
    stop,
)
from loupe.services.process import state as state_of
from loupe.services.public import PublicSite, public_site, save_public_site

BUILD = "build-"
"""How the names of builds begin that the queue watcher started again."""
_START_SECONDS = 120.0


def _start_queue_watcher(settings: Settings) -> RunningService:
    """Start `loupe queue watch` as a detached process; Label Studio posts answers to its port.

    Raises:
        ServiceError: it could not be started.
    """
    port = free_port()
    program = (*PYTHON, "-m", "loupe.flows.cli.main")
    # it runs builds again, with what the Prefect worker's runs have
    keys = prefect_server.worker_variables(settings)
    spec = ServiceSpec(
        name=WATCHER,
        command=(*program, "queue", "watch", "--webhook-port", str(port)),
        working_directory=settings.home,
        environment={
            **without_keys(os.environ),
            **keys,
            **settings.environment(*SECRETS_OF_BUILDS, "notify_urls"),
        },
        port=port,
        timeout_seconds=_START_SECONDS,
    )
    return start(settings.home, spec)


Report = Callable[[str], None]


# The worker is stopped before its server, so that it can still sign off.
_STOP_ORDER = (
    caddy.NAME,
    WATCHER,
    prefect_server.WORKER,
    prefect_server.SERVER,
    blob_server.NAME,
    label_studio.NAME,
)


class ServiceReport(Record):
    """The status of one server. `answers` is None if it has no URL to check."""

    name: str
    state: ServiceState
    answers: bool | None
    url: str | None
    pid: int | None
    log: Path | None

    @property
    def is_healthy(self) -> bool:
        """True if it behaves as its state requires; a stopped server is healthy."""
        return self.state is not ServiceState.CRASHED and self.answers is not False


def bring_up(
    settings: Settings,
    components: Collection[Component],
    working_directory: Path,
    report: Report,
    patience_seconds: float = 20.0,
) -> None:
    """Start servers that are not running, one after the other; can be called repeatedly.

    A server that runs but does not answer is ended by its process id and started again.

    Args:
        settings: the installation.
        components: what to start.
        working_directory: where flows run; relative paths in their parameters start here.
        report: called with a message for each step.
        patience_seconds: how long a running server may be silent; a busy one is slow.

    Raises:
        ServiceError: a server could not be started; those started before it keep running.
    """

    def is_up(name: str) -> bool:
        return _is_up(settings.home, name, report, patience_seconds)

    if Component.LABEL_STUDIO in components:
        _bring_up_label_studio(settings, is_up, report)
    if Component.BLOBS in components and not is_up(blob_server.NAME):
        report(f"{blob_server.NAME}: starting")
        origins = _label_studio_origins(settings)
        blob_server.start_blob_server(settings, settings.blobs_port, origins)
    if Component.WATCHER in components and not is_up(WATCHER):
        report(f"{WATCHER}: starting")
        _start_queue_watcher(settings)
    if Component.PREFECT in components:
        _bring_up_prefect(settings, working_directory, is_up, report)
    if (site := public_site(settings.home)) is not None:
        _bring_up_caddy(settings.home, site, is_up, report)


def publish(home: Path, site: PublicSite | None) -> None:
    """Set the public address of an installation, or end it; servers with another are stopped."""
    if site == public_site(home):
        return
    for name in (caddy.NAME, prefect_server.SERVER, blob_server.NAME, label_studio.NAME):
        stop(home, name)
    save_public_site(home, site)


_PARTS = {"": label_studio.NAME, "images": blob_server.NAME, "prefect": prefect_server.SERVER}
"""The server of each host name of a public address."""


def _bring_up_caddy(
    home: Path, site: PublicSite, is_up: Callable[[str], bool], report: Report
) -> None:
    """Start Caddy in front of the servers that run, again if they have other ports now."""
    ports = {}
    for part, name in _PARTS.items():
        service = running(home, name)
        if service is not None and service.port is not None:
            ports[part] = service.port
    if not ports:
        return
    config = caddy.caddyfile(home / "caddy", site, ports)
    written = home / "caddy" / "Caddyfile"
    if not written.exists() or written.read_text(encoding="utf-8") != config:
        stop(home, caddy.NAME)
    if not is_up(caddy.NAME):
        report(f"{caddy.NAME}: starting for {site.url}")
        caddy.start_caddy(home, site, ports)


def take_down(home: Path) -> list[str]:
    """Stop every server and build of the installation, with children; return those that ran."""
    # the watcher would start builds again
    names = dict.fromkeys((WATCHER, *builds_started(home), *_STOP_ORDER))
    return [name for name in names if stop(home, name)]


def builds_started(home: Path) -> list[str]:
    """Return the names of the builds that the queue watcher started again, ended or not."""
    return sorted(path.stem for path in (home / "services").glob(f"{BUILD}*.json"))


def survey(home: Path) -> tuple[ServiceReport, ...]:
    """Return the status of every server of the installation; of Caddy if there is a public address.

    The URLs of servers behind it are the public ones.
    """
    site = public_site(home)
    names = [name for name in reversed(_STOP_ORDER) if site or name != caddy.NAME]
    reports = [_report_on(home, name) for name in names]
    if site is None:
        return tuple(reports)
    origins = {name: site.origin(part) for part, name in _PARTS.items()}
    return tuple(one.model_copy(update={"url": origins.get(one.name, one.url)}) for one in reports)


def _report_on(home: Path, name: str) -> ServiceReport:
    state, record = state_of(home, name), recorded(home, name)
    return ServiceReport(
        name=name,
        state=state,
        answers=record.answers if record and state is ServiceState.RUNNING else None,
        url=record.url if record else None,
        pid=record.pid if record else None,
        log=record.log if record else None,
    )


def _bring_up_label_studio(
    settings: Settings, is_up: Callable[[str], bool], report: Report
) -> None:
    home, root = settings.home, settings.environments
    if settings.label_studio_url:
        report(
            f"{label_studio.NAME}: using the one at {settings.label_studio_url}; it has no lead's "
            "page: loupe queue stats --names --html FILE"
        )
    elif not is_up(label_studio.NAME):
        if not is_installed("label-studio", root):
            report(f"{label_studio.NAME}: installing it once, about 1 GB, under {root}")
        environment = ensure_environment("label-studio", root)
        report(f"{label_studio.NAME}: starting (the first time takes half a minute or more)")
        service = label_studio.start_label_studio(
            home,
            settings.label_studio_port,
            environment,
            settings.label_studio_database_url,
            oidc_variables(settings),
        )
        label_studio.label_studio_token(home, str(service.url))


def _label_studio_origins(settings: Settings) -> list[str]:
    """Return the origins of Label Studio's pages in a browser's address bar."""
    if settings.label_studio_url:
        parts = urlsplit(settings.label_studio_url)
        return [f"{parts.scheme}://{parts.netloc}"]
    review = running(settings.home, label_studio.NAME)
    port = (review.port if review else None) or settings.label_studio_port
    return [f"http://{host}:{port}" for host in (LOOPBACK, "localhost")]


def _bring_up_prefect(
    settings: Settings, working_directory: Path, is_up: Callable[[str], bool], report: Report
) -> None:
    home = settings.home
    if not is_up(prefect_server.SERVER):
        report(f"{prefect_server.SERVER}: starting")
    server = prefect_server.start_prefect_server(home, settings.prefect_port)
    if not is_up(prefect_server.WORKER):
        report(f"{prefect_server.WORKER}: starting")
    deployments = prefect_server.deployments_of(home)
    worker = running(home, prefect_server.WORKER)
    if worker is not None and str(deployments.absolute()) not in worker.command:
        report(f"{prefect_server.WORKER}: starting again, for other deployments")
        stop(home, prefect_server.WORKER)
    worker = prefect_server.start_prefect_worker(
        settings, str(server.url), working_directory, deployments
    )
    if str(working_directory) not in worker.command:
        report(f"runs keep working in {worker.command[-1]}; to change it: loupe down, loupe up")
    registered = services_folder(home) / "deployments.registered"
    digest = hashlib.sha256(deployments.read_bytes()).hexdigest()
    # a restarted server may have been updated
    fingerprint = f"{digest}\n{server.place}\n"
    if not registered.exists() or registered.read_text(encoding="utf-8") != fingerprint:
        report("deployments: registering")
        prefect_server.register_deployments(home, str(server.url), deployments)
        write_atomically(registered, fingerprint.encode())


def _is_up(home: Path, name: str, report: Report, patience_seconds: float) -> bool:
    """Tell whether the server runs and answers; one that hangs is ended."""
    service = running(home, name)
    if service is None:
        return False
    if service.hangs(patience_seconds):
        silent = f"does not answer for {patience_seconds:.0f} s"
        report(f"{name}: {silent}; ending it (pid {service.pid}) to start it again")
        stop(home, name)
        return False
    where = f" at {service.url}" if service.url else ""
    report(f"{name}: already running{where} (pid {service.pid})")
    return True
