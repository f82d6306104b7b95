import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from loupe.schemas.errors import ServiceError
from loupe.services.process import (
    LOOPBACK,
    RunningService,
    ServiceSpec,
    ServiceState,
    free_port,
    recorded,
    require_free_port,
    running,
    start,
    state,
    stop,
)

HTTP_SERVER = "-m", "http.server", "--bind", LOOPBACK
CHILD_THAT_IGNORES_TERM = """
import signal, subprocess, sys, time
if len(sys.argv) > 1:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("child ready", flush=True)
else:
    subprocess.Popen([sys.executable, __file__, "child"])
time.sleep(60)
"""


@pytest.fixture
def home(stopping: Callable[[str], Path]) -> Path:
    return stopping("web")


def web_spec(home: Path, port: int, *command: str, timeout_seconds: float = 300) -> ServiceSpec:
    return ServiceSpec(
        name="web",
        command=(sys.executable, *(command or (*HTTP_SERVER, str(port)))),
        working_directory=home,
        environment=dict(os.environ),
        port=port,
        health="/",
        port_option="--web-port",
        timeout_seconds=timeout_seconds,
    )


def start_web(home: Path) -> RunningService:
    return start(home, web_spec(home, free_port()))


def test_a_server_is_started_recorded_and_stopped(home: Path) -> None:
    service = start_web(home)
    assert service.answers
    assert running(home, "web") == recorded(home, "web") == service
    assert state(home, "web") is ServiceState.RUNNING
    assert os.getsid(service.pid) == service.pid != os.getsid(0), (
        "it outlives the process that started it"
    )
    assert start_web(home) == service, "the second start returns the running service"
    path = home / "services" / "web.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "environment" not in path.read_text()
    assert service == RunningService.model_validate_json(path.read_text())
    assert stop(home, "web")
    assert not service.answers
    assert state(home, "web") is ServiceState.STOPPED
    assert not stop(home, "web")


def test_the_server_of_a_home_is_not_that_of_its_copy(home: Path) -> None:
    service = start_web(home)
    copy = home.with_name("copy")
    shutil.copytree(home, copy)
    assert recorded(copy, "web") is None
    assert not stop(copy, "web")
    assert running(home, "web") == service
    home.rename(moved := home.with_name("moved"))
    assert running(moved, "web") == service
    assert stop(moved, "web")


def test_concurrent_starts_start_one_server(home: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        services = set(pool.map(lambda _: start_web(home).pid, range(4)))
    assert len(services) == 1


def test_the_error_for_a_port_in_use_names_its_process(home: Path) -> None:
    for address in (LOOPBACK, "0.0.0.0"):  # noqa: S104  # the case under test
        with socket.create_server((address, 0)) as taken:
            port = taken.getsockname()[1]
            message = rf"port {port} is taken by pid {os.getpid()} \(.*; choose .* with --web-port"
            with pytest.raises(ServiceError, match=message):
                start(home, web_spec(home, port), lambda: True)
        assert recorded(home, "web") is None


def test_a_failed_start_is_reported_with_the_end_of_the_log(home: Path) -> None:
    for word in ("no database", "no disk"):
        spec = web_spec(home, free_port(), "-c", f"import sys; print({word!r}); sys.exit(3)")
        with pytest.raises(ServiceError, match=rf"web ended with exit status 3 while .*\n  {word}"):
            start(home, spec, lambda: False)
        assert state(home, "web") is ServiceState.STOPPED
    assert "no disk" in (home / "services" / "web.log").read_text()
    assert "no database" in (home / "services" / "web.previous.log").read_text()


def test_a_server_that_is_not_ready_in_time_is_ended(home: Path) -> None:
    port = free_port()
    spec = web_spec(home, port, timeout_seconds=1)
    with pytest.raises(ServiceError, match="web was not ready after 1 s"):
        start(home, spec, lambda: False)
    require_free_port(port)


def test_a_program_that_does_not_exist_is_reported(home: Path) -> None:
    spec = web_spec(home, free_port()).model_copy(update={"command": ("/no/such/program",)})
    with pytest.raises(ServiceError, match=r"web could not be started: .*/no/such/program"):
        start(home, spec, lambda: True)


def test_a_crashed_server_is_started_again_once_its_port_is_free(home: Path) -> None:
    port = free_port()
    spec = web_spec(home, port)
    crashed = start(home, spec)
    os.kill(crashed.pid, signal.SIGKILL)
    wait_until(lambda: state(home, "web") is ServiceState.CRASHED)
    assert running(home, "web") is None
    require_free_port(port, patience_seconds=10)
    with socket.create_server((LOOPBACK, port)) as late:
        threading.Timer(0.5, late.close).start()
        service = start(home, spec)
    assert service.pid != crashed.pid
    assert state(home, "web") is ServiceState.RUNNING


def test_a_process_with_a_reused_id_is_neither_trusted_nor_ended(home: Path) -> None:
    service = start_web(home)
    stop(home, "web")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as unrelated:
        machine, _, start = service.place.split("/")
        write_record(home, service, pid=unrelated.pid, place=f"{machine}/{unrelated.pid}/{start}")
        assert running(home, "web") is None
        assert state(home, "web") is ServiceState.CRASHED
        assert not stop(home, "web")
        assert unrelated.poll() is None
        unrelated.kill()


def test_a_server_is_recognised_after_a_change_of_the_clock(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    service = start_web(home)
    before = psutil.Process(service.pid).create_time()
    with clock_changed_by(3600, tmp_path_factory.mktemp("proc")):
        assert psutil.Process(service.pid).create_time() == before + 3600
        assert running(home, "web") == start_web(home) == service
        assert stop(home, "web")
    assert not psutil.pid_exists(service.pid)


def test_after_a_reboot_no_process_of_an_old_record_is_ended(home: Path) -> None:
    """An unrelated session has the recorded id by chance; its first process has ended."""
    parent_program = "import subprocess; subprocess.Popen(['sleep', '60'])"
    with subprocess.Popen([sys.executable, "-c", parent_program], start_new_session=True) as ended:
        pass
    (unrelated,) = [
        process for process in psutil.process_iter() if session_of(process) == ended.pid
    ]
    place = f"another-boot~pid:[1]/{ended.pid}/1"
    service = RunningService(
        name="web",
        pid=ended.pid,
        place=place,
        command=(),
        port=None,
        url=None,
        health="/",
        log=home / "services" / "web.log",
    )
    write_record(home, service)
    assert state(home, "web") is ServiceState.CRASHED
    assert not stop(home, "web")
    assert unrelated.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    unrelated.kill()


def test_stopping_ends_the_whole_process_tree_even_if_it_ignores_term(home: Path) -> None:
    child = start_stubborn_tree(home)
    stop(home, "web", grace_seconds=1)
    assert not psutil.pid_exists(child.pid) or child.status() == psutil.STATUS_ZOMBIE


def test_child_processes_of_a_crashed_server_are_ended(home: Path) -> None:
    orphan = start_stubborn_tree(home)
    service = recorded(home, "web")
    assert service is not None
    os.kill(service.pid, signal.SIGKILL)
    wait_until(lambda: state(home, "web") is ServiceState.CRASHED)
    assert orphan.is_running()
    assert stop(home, "web", grace_seconds=1)
    assert not psutil.pid_exists(orphan.pid) or orphan.status() == psutil.STATUS_ZOMBIE


def test_a_damaged_record_is_reported(home: Path) -> None:
    record = home / "services" / "web.json"
    record.parent.mkdir()
    record.write_text('{"name": "web"')
    with pytest.raises(ServiceError, match=r"web\.json is not the record of a server"):
        running(home, "web")
    record.unlink()


def write_record(home: Path, service: RunningService, **changes: object) -> None:
    record = home / "services" / "web.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text(service.model_copy(update=changes).model_dump_json())


def session_of(process: psutil.Process) -> int | None:
    with suppress(ProcessLookupError):
        return os.getsid(process.pid)
    return None


@contextmanager
def clock_changed_by(seconds: int, folder: Path) -> Iterator[None]:
    """Make psutil see the machine after a change of the clock, which also moves the boot time."""
    for entry in Path("/proc").iterdir():
        (folder / entry.name).symlink_to(entry)
    lines = Path("/proc/stat").read_text().splitlines()
    (folder / "stat").unlink()
    moved = [
        f"btime {int(line.split()[1]) + seconds}" if line.startswith("btime ") else line
        for line in lines
    ]
    (folder / "stat").write_text("\n".join(moved))
    psutil.PROCFS_PATH = str(folder)
    try:
        yield
    finally:
        psutil.PROCFS_PATH = "/proc"


def start_stubborn_tree(home: Path) -> psutil.Process:
    """Start a server whose child ignores TERM, and return the child."""
    program = home / "tree.py"
    program.write_text(CHILD_THAT_IGNORES_TERM)
    log = home / "services" / "web.log"
    spec = web_spec(home, free_port(), str(program))
    service = start(home, spec, lambda: "child ready" in log.read_text())
    (child,) = psutil.Process(service.pid).children()
    return child


def wait_until(condition: Callable[[], bool], timeout_seconds: float = 300) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)
