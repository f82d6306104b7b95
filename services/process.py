"""Servers as detached processes: started once, found again, stopped with their children.

A running server is described by a small JSON file, `<home>/services/<name>.json`. A process id
alone is not sufficient, because the system reuses it. Therefore a record contains the process's
place (`loupe.schemas.processes`), which is unique and independent of clock changes.
"""

import contextlib
import os
import random
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import httpx
import psutil
from pydantic import Field, ValidationError

from loupe.schemas.base import Record
from loupe.schemas.errors import ServiceError
from loupe.schemas.processes import (
    LOCAL_VARIABLES,
    is_on_this_machine,
    is_process_alive,
    place_of,
    write_atomically,
)
from loupe.services.credentials import locked, private_opener, services_folder

LOOPBACK = "127.0.0.1"
PLAIN_HTTP = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""TLS context for our own servers, which have no certificates; it trusts no certificate.

By default every client and every single call first loads all CA certificates, which takes twenty
times longer than the call.
"""
SYSTEM_VARIABLES = f"{LOCAL_VARIABLES}|SSL_CERT_.*|(?i:.*_proxy)"
"""The variables of programs that use the network: none is a secret of Loupe or of a service."""
_ANSWER_SECONDS = 5.0
_LOG_LINES_IN_ERRORS = 15
_PORT_RELEASE_SECONDS = 5.0
"""How long a killed server's port may stay in use."""
_FREE_PORTS = range(20_000, 32_000)
"""Below the ephemeral ports, which outgoing connections could take in the meantime."""


class ServiceSpec(Record):
    """How to start a server. Pass secrets in `environment`: command lines are public.

    `port` is None for a process without a port. `health` is the path that answers when the server
    is ready. `port_option` is the option of `loupe up` for another port. Only the owner can read a
    server's files, unless `keeps_umask` is set because it also writes files that users requested.
    """

    name: str
    command: tuple[str, ...]
    working_directory: Path
    environment: Mapping[str, str] = Field(repr=False)
    port: int | None = None
    health: str = "/health"
    port_option: str | None = None
    timeout_seconds: float = Field(default=60.0, gt=0)
    keeps_umask: bool = False


class RunningService(Record):
    """A started server, as described in its record file."""

    name: str
    pid: int
    place: str
    command: tuple[str, ...]
    port: int | None
    url: str | None
    health: str
    log: Path

    @property
    def answers(self) -> bool | None:
        """Whether the server answers within a few seconds; None if it has no URL to ask."""
        return None if self.url is None else self._answers(_ANSWER_SECONDS)

    def hangs(self, patience_seconds: float) -> bool:
        """Tell whether the server does not answer, however often and long it is asked."""
        deadline = time.monotonic() + patience_seconds
        while self.url is not None and not self._answers(patience_seconds):
            if time.monotonic() >= deadline:
                return True
            time.sleep(0.2)
        return False

    def _answers(self, timeout_seconds: float) -> bool:
        url = f"{self.url}{self.health}"
        try:
            answer = httpx.get(url, timeout=timeout_seconds, trust_env=False, verify=PLAIN_HTTP)
        except httpx.HTTPError:
            return False
        return answer.is_success


class ServiceState(StrEnum):
    """The state of a server according to its record and process."""

    RUNNING = "running"
    CRASHED = "crashed"
    STOPPED = "stopped"


def start(
    home: Path, spec: ServiceSpec, is_ready: Callable[[], bool] | None = None
) -> RunningService:
    """Start the server and wait until it is ready; a running server is not changed.

    It is ready if it answers, or as `is_ready` says.

    Processes left by a crashed predecessor are ended first. Concurrent callers wait for each other.

    Raises:
        ServiceError: the port is taken, the server ended, or it was not ready in time.
    """
    folder = services_folder(home)
    with locked(folder / f"{spec.name}.lock"):
        if found := running(home, spec.name):
            return found
        had_predecessor = recorded(home, spec.name) is not None
        stop(home, spec.name)
        if spec.port is not None:
            patience = _PORT_RELEASE_SECONDS if had_predecessor else 0.0
            require_free_port(spec.port, spec.port_option, patience)
        service, process = _spawn(folder, spec)
        write_atomically(record_path(home, spec.name), service.model_dump_json(indent=2).encode())
        try:
            ready = is_ready or (lambda: bool(service.answers))
            _wait_until_ready(service, process, ready, spec.timeout_seconds)
        except BaseException:
            stop(home, spec.name)
            raise
        return service


def running(home: Path, name: str) -> RunningService | None:
    """Return the server's record if exactly that process is alive, else None."""
    service = recorded(home, name)
    return service if service is not None and is_process_alive(service.place) else None


def state(home: Path, name: str) -> ServiceState:
    """Return whether the server runs, was stopped, or ended without being stopped."""
    if recorded(home, name) is None:
        return ServiceState.STOPPED
    return ServiceState.RUNNING if running(home, name) else ServiceState.CRASHED


def stop(home: Path, name: str, grace_seconds: float = 10.0) -> bool:
    """Stop the server and all its processes by id: TERM, then KILL. True if any was alive.

    The server is stopped first, so that it can end its children itself.
    """
    service = recorded(home, name)
    if service is None:
        return False
    members = _members(service)
    leader = [process for process in members if process.pid == service.pid]
    _signal(leader, psutil.Process.terminate)
    psutil.wait_procs(leader, timeout=grace_seconds)
    rest = _members(service) or members
    _signal(rest, psutil.Process.terminate)
    _, stubborn = psutil.wait_procs(rest, timeout=grace_seconds / 2)
    _signal(stubborn, psutil.Process.kill)
    psutil.wait_procs(stubborn, timeout=grace_seconds)
    record_path(home, name).unlink(missing_ok=True)
    return bool(members)


def recorded(home: Path, name: str) -> RunningService | None:
    """Return the content of the record file, alive or not; None without one.

    A copy of a home also has a copy of the record, but the server belongs to the original.
    """
    path = record_path(home, name)
    try:
        service = RunningService.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ServiceError(
            f"{path} is not the record of a server ({error.error_count()} problems): "
            "end the server by hand if it still runs, then remove the file"
        ) from None
    original = service.log.parent
    is_copy = original.resolve() != path.parent.resolve() and original.is_dir()
    return None if is_copy else service


def require_free_port(port: int, option: str | None = None, patience_seconds: float = 0.0) -> None:
    """Raise unless `port` can be listened on now or within `patience_seconds`.

    Raises:
        ServiceError: the port is taken; the message names the process if known.
    """
    deadline = time.monotonic() + patience_seconds
    while not _can_listen(port):
        if time.monotonic() > deadline:
            advice = f"; choose another with {option}" if option else ""
            raise ServiceError(f"port {port} is taken by {_holder_of(port)}{advice}")
        time.sleep(0.1)


def free_port() -> int:
    """Return a free port of the loopback interface.

    Raises:
        ServiceError: no port is free.
    """
    for port in random.SystemRandom().sample(_FREE_PORTS, len(_FREE_PORTS)):
        if _can_listen(port):
            return port
    raise ServiceError(f"no port from {_FREE_PORTS.start} to {_FREE_PORTS.stop - 1} is free")


def record_path(home: Path, name: str) -> Path:
    """The file that describes a running server."""
    return home / "services" / f"{name}.json"


def _spawn(folder: Path, spec: ServiceSpec) -> tuple[RunningService, subprocess.Popen[bytes]]:
    """Start the process in a new session, so that it survives us and can be found by it."""
    log = folder / f"{spec.name}.log"
    if log.exists():
        log.replace(log.with_suffix(".previous.log"))
    with open(log, "wb", opener=private_opener) as output:
        try:
            process = subprocess.Popen(
                spec.command,
                cwd=spec.working_directory,
                env=dict(spec.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=-1 if spec.keeps_umask else 0o077,
            )
        except OSError as error:
            raise ServiceError(f"{spec.name} could not be started: {error}") from error
    place = place_of(process.pid)  # before it is reaped, in case it ended immediately
    # A parent has to wait for its child, or the child stays a zombie.
    threading.Thread(target=process.wait, name=f"reap-{spec.name}", daemon=True).start()
    url = None if spec.port is None else f"http://{LOOPBACK}:{spec.port}"
    same = spec.model_dump(include={"name", "command", "port", "health"})
    return RunningService(pid=process.pid, place=place, url=url, log=log, **same), process


def _wait_until_ready(
    service: RunningService,
    process: subprocess.Popen[bytes],
    is_ready: Callable[[], bool],
    timeout_seconds: float,
) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not is_ready():
        fault = None
        if process.poll() is not None:
            fault = f"ended with exit status {process.returncode} while starting"
        elif time.monotonic() > deadline:
            fault = f"was not ready after {timeout_seconds:.0f} s"
        if fault is not None:
            lines = service.log.read_text(encoding="utf-8", errors="replace").splitlines()
            last = "".join(f"\n  {line}" for line in lines[-_LOG_LINES_IN_ERRORS:])
            end = f"the end of {service.log}:{last or ' (it is empty)'}"
            raise ServiceError(f"{service.name} {fault}; {end}")
        time.sleep(0.1)


def _members(service: RunningService) -> list[psutil.Process]:
    """Return the server and its descendants, including those that survived it.

    Orphans still have the server's session id. The system does not assign that number to a new
    process while the session has members: if an unrelated process has it, none of ours is left.
    After a restart of the machine, or in another container, all numbers belong to unrelated
    processes.
    """
    if not is_on_this_machine(service.place):
        return []
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        leader = psutil.Process(service.pid)
        if place_of(service.pid) not in {service.place, ""}:
            return []
        found = {process.pid: process for process in [leader, *leader.children(recursive=True)]}
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == service.pid:
                found[process.pid] = process
    alive = []
    for process in found.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def _signal(processes: list[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            send(process)


def _can_listen(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        if client.connect_ex((LOOPBACK, port)) == 0:
            return False
    with socket.socket() as probe:
        # Connections that a stopped server left in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _holder_of(port: int) -> str:
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,)
            if listens and connection.pid:
                command = " ".join(psutil.Process(connection.pid).cmdline())
                return f"pid {connection.pid} ({command[:80]})"
    return "another process"
