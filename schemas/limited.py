"""Runs functions on strangers' files in worker processes with a limit on time and memory.

A worker is a process of its own, reused between calls and killed when a call exceeds its limits:
a decoder that hangs, crashes or asks for all memory costs the one file that it was given. The
kernel holds the limits: a timer of processor time, so that a busy machine refuses nothing, and
`RLIMIT_DATA`, which Linux enforces and macOS does not. The caller waits ten times as long by the
clock for workers that sleep.

It is a fence against cost and crashes, no sandbox: a worker may read what its user may read.
"""

import atexit
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
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import GeneratorType
from typing import Any, Final, NoReturn, TypeVar

T = TypeVar("T")
_CLOCK_PER_PROCESSOR_SECOND: Final = 10
_START_SECONDS: Final = 300.0
_MOST_CALLS: Final = 1000  # then a new process takes over: decoders leak
_ITEM, _RESULT, _ERROR, _OUT_OF_MEMORY = range(4)
# One thread each: the pools of linear algebra reserve memory for every processor.
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from schemas.limited import serve; serve(int(sys.argv[2]))"
)


class LimitExceededError(Exception):
    """A call was ended; `reason` is a word for counting, the text continues «the file …».

    Reasons are `too_slow`, `too_much_memory` and `decoder_crashed`.
    """

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


def run_limited(function: Callable[..., T], *args: Any, seconds: float, memory: int) -> T:
    """What `function(*args)` gives in a worker process. Safe in threads, which get a worker each.

    Args:
        function: a function of a module, without side effects that the caller needs.
        args: as the result, and whatever is raised, of what can be pickled.
        seconds: of processor time.
        memory: bytes that may be allocated beyond what the worker holds before the call.

    Raises:
        LimitExceededError: it took more than its limits, or the process died.
    """
    with closing(_messages(function, args, seconds, memory)) as messages:
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
    function: Callable[..., Any], args: tuple[Any, ...], seconds: float, memory: int
) -> Generator[Any]:
    worker = _workers.take()
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
        raise _rebuilt(*value)
    if not isinstance(value, _End):
        yield value


def _too_much_memory(memory: int) -> LimitExceededError:
    return LimitExceededError("too_much_memory", f"needs more than {memory:,} bytes of memory")


def _rebuilt(kind: type[Exception], args: Any, attributes: dict[str, Any], trace: str) -> Exception:
    """An exception as the worker raised it, whatever its constructor wants."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    error.add_note(trace)
    return error


class _End:
    """The result of a generator."""


class _Worker:
    """A process that runs one call after the other."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
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
        self._calls = 0

    @property
    def is_fresh(self) -> bool:
        """Whether it may be given more calls."""
        return self._calls < _MOST_CALLS and self._process.poll() is None

    def send(self, call: tuple[Any, ...]) -> None:
        """Begins a call."""
        self._calls += 1
        self._socket.settimeout(_START_SECONDS)
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` tells why
            _send(self._socket, call)

    def receive(self, seconds: float, memory: int) -> tuple[int, Any]:
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
            self._raise_death(self._process.wait(), seconds, memory)
        return message

    @staticmethod
    def _raise_death(code: int, seconds: float, memory: int) -> NoReturn:
        if code == -signal.SIGPROF:
            what = f"took more than {seconds:g} s of processor time"
            raise LimitExceededError("too_slow", what) from None
        if code == -signal.SIGKILL:  # by the kernel, whose memory ran out
            raise _too_much_memory(memory) from None
        if code > 0:
            raise RuntimeError(f"the worker for strangers' files ended with exit code {code}")
        what = f"ended the process that read it by {signal.Signals(-code).name}"
        raise LimitExceededError("decoder_crashed", what) from None

    def kill(self) -> None:
        """Ends the process, whatever it does."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


class _Workers:
    """The workers that nobody uses at the moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []

    def take(self) -> _Worker:
        """A worker that waits, or a new one."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return _Worker()
            if worker.is_fresh:
                return worker
            worker.kill()

    def give_back(self, worker: _Worker) -> None:
        """Keeps a worker for later, as many as there are processors."""
        with self._lock:
            if worker.is_fresh and len(self._idle) < (os.cpu_count() or 1):
                self._idle.append(worker)
                return
        worker.kill()

    def end(self) -> None:
        """Ends all that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()

    def forget(self) -> None:
        """Leaves the workers to the process that this one was forked from."""
        self._lock = threading.Lock()
        self._idle = []


_workers = _Workers()
atexit.register(_workers.end)
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
        raised = (type(error), error.args, error.__dict__, traceback.format_exc())
        _send(caller, (_ERROR, raised))
    return True


def _limit(seconds: float, memory: int) -> None:
    """Has the kernel end this process after `seconds`, and refuse it more than `memory`."""
    import resource

    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held = Path("/proc/self/statm")
    if held.exists():
        pages = int(held.read_text().split()[5])
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
