"""Runs functions that may hang or crash in worker processes, with limits on time and memory.

A worker is a process of its own, reused between calls and killed when a call exceeds its limits: a
decoder that hangs, crashes or asks for all memory costs the one file that it was given. Workers are
forked, not from this process and its threads, but from one that does nothing but import what they
need. The kernel holds the limits: a timer of processor time, so that a busy machine refuses
nothing, and `RLIMIT_DATA`, which Linux enforces and macOS does not. The caller waits ten times as
long by the clock for workers that sleep.

It is a fence against cost and crashes, no sandbox: a worker may read what its user may read.
"""

import atexit
import gc
import importlib
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import GeneratorType
from typing import Any, Final, NoReturn, TypeVar

from schemas.processes import processors

T = TypeVar("T")
_CLOCK_PER_PROCESSOR_SECOND: Final = 10
_START_SECONDS: Final = 300.0
_MOST_CALLS: Final = 1000  # then a new process takes over: decoders leak
_ITEM, _RESULT, _ERROR, _OUT_OF_MEMORY = range(4)
# One thread each: the pools of linear algebra reserve memory for every processor.
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from schemas.limited import serve_forks; serve_forks(int(sys.argv[2]))"
)


class LimitExceededError(Exception):
    """A call was ended; `reason` is a word for counting, the text continues «the file …».

    Reasons are `too_slow`, `too_much_memory` and `decoder_crashed`.
    """

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


def run_limited(
    function: Callable[..., T],
    *args: Any,
    seconds: float,
    memory: int | None = None,
    imports: Collection[str] = (),
) -> T:
    """What `function(*args)` gives in a worker process. Safe in threads, which get a worker each.

    Args:
        function: a function of a module, without side effects that the caller needs.
        args: as the result, and whatever is raised, of what can be pickled.
        seconds: of processor time.
        memory: bytes that may be allocated beyond what the worker holds before the call; None for
            as many as there are.
        imports: modules that a new worker has imported, beside those of the function and of `args`.

    Raises:
        LimitExceededError: it took more than its limits, or the process died.
    """
    with closing(_messages(function, args, seconds, memory, imports)) as messages:
        for message in messages:
            return message  # type: ignore[no-any-return]
    raise RuntimeError(f"{function.__name__} gave nothing")


def iterate_limited(
    function: Callable[..., Iterator[T]], *args: Any, seconds: float, memory: int
) -> Iterator[T]:
    """The items of the generator `function(*args)`, which runs in a worker, a little ahead.

    As `run_limited`; each item may take `seconds`. Arrays are not copied more than needed. To be
    closed where it is not read to its end.
    """
    return _messages(function, args, seconds, memory)


def _messages(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    seconds: float,
    memory: int | None,
    imports: Collection[str] = (),
) -> Generator[Any]:
    worker = _workers.take({*imports, *(one.__module__ for one in (function, *map(type, args)))})
    is_reusable = False
    try:
        worker.send((function, args, seconds, memory))
        while True:
            kind, value = worker.receive(seconds, memory)
            if kind == _ITEM:
                yield value
                continue
            is_reusable = kind != _OUT_OF_MEMORY
            break
    finally:
        if is_reusable:
            _workers.give_back(worker)
        else:
            worker.kill()
    if kind == _OUT_OF_MEMORY:
        raise _too_much_memory(memory)
    if kind == _ERROR:
        raise unpacked_error(value)
    if not isinstance(value, _End):
        yield value


def _too_much_memory(memory: int | None) -> LimitExceededError:
    bytes_ = "there are" if memory is None else f"{memory:,}"
    return LimitExceededError("too_much_memory", f"needs more than {bytes_} bytes of memory")


PackedError = tuple[type[Exception], Any, dict[str, Any], str]


def packed_error(error: Exception) -> PackedError:
    """An exception that is being handled, as what can be pickled whatever its constructor wants."""
    return type(error), error.args, error.__dict__, traceback.format_exc()


def unpacked_error(packed: PackedError) -> Exception:
    """The exception as it was raised in another process."""
    kind, args, attributes, trace = packed
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    error.add_note(trace)
    return error


class _End:
    """The result of a generator."""


class _Origin:
    """The process that workers are forked from; started when the first one is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def fork(self, modules: set[str]) -> tuple[int, socket.socket]:
        """The process id of a new worker that has imported `modules`, and the way to it."""
        with self._lock:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    return self._fork(modules, theirs), ours
                except (OSError, EOFError):  # it was killed
                    self._end()
                    return self._fork(modules, theirs), ours

    def _fork(self, modules: set[str], theirs: socket.socket) -> int:
        if self._process is None:
            self._start()
        _send(self._socket, ("fork", sys.path, sorted(modules)))
        socket.send_fds(self._socket, [b"."], [theirs.fileno()])
        pid: int = _receive(self._socket)
        return pid

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_START_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # decoders repeat there what files tell them
                env=os.environ | _ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the caller
            )

    def wait(self, pid: int) -> int:
        """The exit code of a worker that has ended, as `subprocess` gives it."""
        return self._ask("wait", pid)

    def kill(self, pid: int) -> None:
        """Ends a worker; nobody else can have its process id before."""
        self._ask("kill", pid)

    def _ask(self, request: str, pid: int) -> int:
        with self._lock, suppress(OSError, EOFError):
            _send(self._socket, (request, pid))
            code: int = _receive(self._socket)
            return code
        return -signal.SIGKILL  # the origin was killed; the worker ends when it is let go of

    def end(self) -> None:
        """Ends it; workers end when they are let go of."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._socket.close()
            self._process.kill()
            self._process.wait()
            self._process = None


class _Worker:
    """A process that runs one call after the other."""

    def __init__(self, origin: _Origin, modules: set[str]) -> None:
        self._origin = origin
        self._pid, self._socket = origin.fork(modules)
        self._has_ended = False
        self._calls = 0

    @property
    def is_fresh(self) -> bool:
        """Whether it may be given more calls."""
        return self._calls < _MOST_CALLS and self._is_alive()

    def _is_alive(self) -> bool:
        self._socket.setblocking(False)
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    def send(self, call: tuple[Any, ...]) -> None:
        """Begins a call."""
        self._calls += 1
        self._socket.settimeout(_START_SECONDS)
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` tells why
            _send(self._socket, call)

    def receive(self, seconds: float, memory: int | None) -> tuple[int, Any]:
        """The next message of the call.

        Raises:
            LimitExceededError: it takes too long, or the process died.
        """
        waits = _START_SECONDS * (self._calls == 1) + seconds * _CLOCK_PER_PROCESSOR_SECOND
        self._socket.settimeout(waits)
        try:
            message: tuple[int, Any] = _receive(self._socket)
        except TimeoutError:
            what = f"took more than {waits:g} s of time"
            raise LimitExceededError("too_slow", what) from None
        except (EOFError, ConnectionResetError):
            self._has_ended = True
            self._raise_death(self._origin.wait(self._pid), seconds, memory)
        return message

    @staticmethod
    def _raise_death(code: int, seconds: float, memory: int | None) -> NoReturn:
        if code == -signal.SIGPROF:
            what = f"took more than {seconds:g} s of processor time"
            raise LimitExceededError("too_slow", what) from None
        if code == -signal.SIGKILL:  # by the kernel, whose memory ran out
            raise _too_much_memory(memory) from None
        if code > 0:
            raise RuntimeError(f"a worker process ended with exit code {code}")
        what = f"ended the process that read it by {signal.Signals(-code).name}"
        raise LimitExceededError("decoder_crashed", what) from None

    def kill(self) -> None:
        """Ends the process, whatever it does."""
        self._socket.close()
        if not self._has_ended:
            self._origin.kill(self._pid)


class _Workers:
    """The workers that nobody uses at the moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._origin = _Origin()
        self._idle: list[_Worker] = []

    def take(self, modules: set[str]) -> _Worker:
        """A worker that waits, or a new one that has imported `modules`."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return _Worker(self._origin, modules)
            if worker.is_fresh:
                return worker
            worker.kill()

    def give_back(self, worker: _Worker) -> None:
        """Keeps a worker for later, as many as there are processors."""
        with self._lock:
            if worker.is_fresh and len(self._idle) < processors():
                self._idle.append(worker)
                return
        worker.kill()

    def end(self) -> None:
        """Ends all that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()
        self._origin.end()

    def forget(self) -> None:
        """Leaves the workers to the process that this one was forked from."""
        self._lock = threading.Lock()
        self._origin = _Origin()
        self._idle = []


def end_workers() -> None:
    """Ends the processes that wait for calls; the next call starts new ones."""
    _workers.end()


_workers = _Workers()
atexit.register(end_workers)
os.register_at_fork(after_in_child=_workers.forget)


def _send(to: socket.socket, value: Any) -> None:
    """Sends a value; the memory of arrays goes beside the pickle."""
    arrays: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, 5, buffer_callback=arrays.append)
    parts = [memoryview(pickled), *(array.raw() for array in arrays)]
    to.sendall(struct.pack(f"<Q{len(parts)}Q", len(parts), *(part.nbytes for part in parts)))
    for part in parts:
        to.sendall(part)


def _receive(source: socket.socket) -> Any:
    (count,) = struct.unpack("<Q", _read(source, 8))
    sizes = struct.unpack(f"<{count}Q", _read(source, 8 * count))
    pickled, *arrays = [_read(source, size) for size in sizes]
    return pickle.loads(pickled, buffers=arrays)  # noqa: S301 - of our own process


def _read(source: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = source.recv_into(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return data


def serve_forks(handle: int) -> None:
    """The life of the process that workers are forked from, until the caller is gone."""
    with socket.socket(fileno=handle) as caller, suppress(EOFError, OSError):
        while True:
            match _receive(caller):
                case "fork", paths, modules:
                    _, (theirs,), *_ = socket.recv_fds(caller, 1, 1)
                    sys.path[:] = paths
                    _send(caller, _forked(modules, theirs, caller))
                    os.close(theirs)
                case "wait", pid:
                    _send(caller, _exit_code(pid))
                case "kill", pid:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    _send(caller, _exit_code(pid))


def _exit_code(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # of an origin before this one
        return -signal.SIGKILL


def _forked(modules: list[str], theirs: int, caller: socket.socket) -> int:
    for name in modules:
        with suppress(Exception):  # the worker finds out when it needs it
            importlib.import_module(name)
    gc.freeze()  # what is not looked through is not copied
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            caller.close()
            serve(theirs)
            code = 0
        finally:
            os._exit(code)
    return pid


def serve(handle: int) -> None:
    """The life of a worker: calls come in, results go out, until the caller is gone."""
    with socket.socket(fileno=handle) as caller, suppress(EOFError, OSError):
        while True:
            function, args, seconds, memory = _receive(caller)
            _limit(seconds, memory)
            if not _answer(caller, function, args, seconds):
                return
            signal.setitimer(signal.ITIMER_PROF, 0)


def _answer(
    caller: socket.socket, function: Callable[..., Any], args: tuple[Any, ...], seconds: float
) -> bool:
    """Runs a call; whether the process can be used again."""
    try:
        result = function(*args)
        if isinstance(result, GeneratorType):
            for item in result:
                _send(caller, (_ITEM, item))
                signal.setitimer(signal.ITIMER_PROF, seconds)
            result = _End()
        _send(caller, (_RESULT, result))
    except MemoryError:
        _send(caller, (_OUT_OF_MEMORY, None))
        return False
    except BrokenPipeError:
        return False
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        _send(caller, (_ERROR, packed_error(error)))
    return True


def _limit(seconds: float, memory: int | None) -> None:
    """Has the kernel end this process after `seconds`, and refuse it more than `memory`."""
    import resource

    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held, most = Path("/proc/self/statm"), resource.RLIM_INFINITY
    if held.exists():
        if memory is not None:
            most = int(held.read_text().split()[5]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
