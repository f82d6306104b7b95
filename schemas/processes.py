"""Files on disk, work in threads, and whether a process is alive, as far as another can tell.

Host names, process ids and wall clocks are unreliable: containers share host names, every PID
namespace has its own process ids, and clocks are adjusted. A *place* is a machine (one boot of it
and the namespaces of a process), a process id there, and the clock tick at which the process
started.

The machine is empty if `/proc` does not provide it (macOS, a `/proc` of another PID namespace).
Such places are compared on one machine only. Without `/proc` they contain a creation time instead
of a tick.
"""

import fcntl
import os
import re
import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

PYTHON: Final = (sys.executable, "-P")
"""How to start Python: it imports nothing from the working folder."""

LOCAL_VARIABLES: Final = (
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH|VIRTUAL_ENV"
    "|PYTHON.*|XDG_.*"
)
"""The variables of programs that handle what strangers made: none is a secret, nor an address."""

_PROC = Path("/proc")
_MOST_WORKERS = 8
_DEAD = frozenset("ZX")  # a zombie was killed; its parent has not noticed yet


def processors() -> int:
    """Return how many CPUs this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def inherited(names: str) -> dict[str, str]:
    """Return those variables of this process that a new one gets; `names` is a pattern."""
    pattern = re.compile(names)
    return {name: value for name, value in os.environ.items() if pattern.fullmatch(name)}


def usual_workers() -> int:
    """Return the number of CPUs of this process, at most 8: each worker needs memory of its own."""
    return min(_MOST_WORKERS, processors())


def own_place() -> str:
    """Return the place of this process."""
    return _own_place_of(os.getpid())


@cache
def _own_place_of(pid: int) -> str:
    return place_of(pid)


def place_of(pid: int, proc: Path = _PROC) -> str:
    """Return the place of the process `pid` of this PID namespace; empty if it does not exist."""
    stat = _stat_of(pid, proc)
    return f"{_machine(proc)}/{pid}/{stat.start}" if stat else ""


def is_on_this_machine(place: str, proc: Path = _PROC) -> bool:
    """Tell whether the place has this boot and these namespaces, as far as `/proc` tells."""
    return place.partition("/")[0] == _machine(proc)


def is_process_alive(place: str, proc: Path = _PROC) -> bool:
    """Tell whether the process of that place is known to be alive.

    False for an empty place and for processes of other machines, other boots and other namespaces.
    """
    if not place or not is_on_this_machine(place, proc):
        return False
    _, pid, start = place.split("/")
    stat = _stat_of(int(pid), proc)
    return stat is not None and stat.start == start and stat.state not in _DEAD


def is_process_dead(place: str) -> bool:
    """Tell whether the process of that place is known to have ended.

    False for a place without a machine and for processes of other machines, other boots and other
    namespaces, about which nothing can be known from here.
    """
    if not place.partition("/")[0] or not is_on_this_machine(place):
        return False
    _, pid, start = place.split("/")
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it runs as another user
    stat = _stat_of(int(pid), _PROC)
    return stat is not None and (stat.state in _DEAD or stat.start != start)


def is_stopped(pid: int, proc: Path = _PROC) -> bool:
    """Tell whether the process `pid` is stopped, by a signal or a debugger."""
    stat = _stat_of(pid, proc)
    return stat is not None and stat.state.upper() == "T"


class _Stat(NamedTuple):
    state: str
    start: str


def _stat_of(pid: int, proc: Path) -> _Stat | None:
    try:
        text = (proc / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return _stat_without_proc(pid)
    fields = text.rpartition(")")[2].split()  # the name in parentheses may contain anything
    return _Stat(fields[0], fields[19])


def _stat_without_proc(pid: int) -> _Stat | None:
    import psutil  # slow to import, and rarely needed here

    try:
        process = psutil.Process(pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return _Stat("Z" if is_zombie else "", str(process.create_time()))
    except psutil.Error:
        return None


def _machine(proc: Path) -> str:
    return _machine_of(os.getpid(), proc)


@cache
def _machine_of(pid: int, proc: Path) -> str:
    """Return the boot and namespaces in which ids and ticks of this process are valid.

    Empty if `/proc` is missing or belongs to another PID namespace. `pid` is that of the caller: a
    forked child may be in other namespaces.
    """
    try:
        if (proc / "self").readlink().name != str(pid):
            return ""
        boot = (proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
        links = [proc / "self/ns" / kind for kind in ("pid", "time")]
        # Kernels before 5.6 have no time namespaces.
        namespaces = [link.readlink().name for link in links if link.is_symlink()]
    except OSError:
        return ""
    return "~".join([boot, *namespaces])


# Files that survive a power failure.


def flush_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk, for example after a renaming."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(
    path: Path | str, data: bytes, folder: Path | None = None, prefix: str = "."
) -> None:
    """Replace `path` by a complete and flushed file, which only its owner can read.

    It is written in `folder`, by default that of `path`, under a name that starts with `prefix`.
    """
    folder = folder or Path(path).parent
    temporary = os.path.join(folder, f"{prefix}{uuid4().hex}")  # noqa: PTH118 - fast
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)  # noqa: PTH105 - fast
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def locked_folder(folder: Path, *, waits: bool = True) -> Iterator[None]:
    """Lock a folder against other processes; the lock ends with the process.

    Raises:
        BlockingIOError: another process holds the lock, and this one does not wait for it.
        OSError: there is no such folder.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


# Functions in threads, with results in order and bounded read-ahead.

A = TypeVar("A")
B = TypeVar("B")
_END = object()
_THREADS = min(32, (os.cpu_count() or 1) + 4)


def read_ahead(items: Iterator[A]) -> Iterator[A]:
    """Iterate over `items`, with the next one computed by another thread."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, _END)
        while (item := waiting.result()) is not _END:
            waiting = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]


def ordered_map(
    function: Callable[[A], B], items: Iterable[A], threads: int = _THREADS
) -> Iterator[B]:
    """Apply `function` to each item, in order; at most twice `threads` results are buffered."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[B]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def scratch_database(tables: str, file: Path | str = "") -> sqlite3.Connection:
    """Open a private database, which spills to disk as it grows and need not survive a crash.

    `file` must be new; without one, it is a temporary file, which the system removes.
    """
    database = sqlite3.connect(file, check_same_thread=False)
    database.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {tables}")
    return database


def sqlite_temporary_folder() -> Path:
    """Return SQLite's folder for temporary files, by its own rules: the first writable one."""
    named = (os.environ.get(name) for name in ("SQLITE_TMPDIR", "TMPDIR"))
    for folder in filter(None, (*named, "/var/tmp", "/usr/tmp", "/tmp")):  # noqa: S108
        if Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    return Path.cwd()
