"""Run functions that may hang or crash in worker processes, with limits on time and memory.

A worker is a separate process, reused between calls and killed when a call exceeds its limits: a
decoder that hangs, crashes or allocates too much memory affects only the file that it was given.
The kernel enforces the limits: a timer of CPU time, so that a busy machine refuses nothing, and
`RLIMIT_DATA`, which Linux enforces and macOS does not. The caller waits ten times as long in
wall-clock time for workers that sleep.

Workers are plain processes. Those of `multiprocessing` (and of pebble, which uses them) run the
caller's main module again, so that a script without `if __name__ == "__main__"` would run twice.

This limits cost and crashes, but is not a sandbox: a worker may read what its user may read. Its
environment has no secrets, unless it runs code of the user.
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
from contextlib import contextmanager, nullcontext, suppress
from types import GeneratorType
from typing import Any, Final, NoReturn, TypeVar

from loupe.schemas.processes import LOCAL_VARIABLES, PYTHON, inherited, processors

T = TypeVar("T")
_CLOCK_PER_PROCESSOR_SECOND: Final = 10
_START_SECONDS: Final = 300.0
_MOST_CALLS: Final = 1000  # then a new process takes over: decoders leak
_ITEM, _END, _ERROR, _OUT_OF_MEMORY = range(4)
# One thread each: thread pools of linear algebra reserve memory for every CPU.
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from loupe.schemas.limited import serve; serve(int(sys.argv[2]))"
)


class LimitExceededError(Exception):
    """A call was ended. `reason` is a word for counting; the message continues «the file …».

    Reasons are `too_slow`, `too_much_memory` and `decoder_crashed`.
    """

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


class WorkerEndedError(RuntimeError):
    """A worker process ended by itself, with an exit code; the message continues «the file …»."""


def run_limited(
    function: Callable[..., T],
    *args: Any,
    seconds: float,
    memory: int | None = None,
    imports: Collection[str] = (),
    inherits: bool = False,
) -> T:
    """Return the result of `function(*args)`, run in a worker process. Thread-safe.

    Args:
        function: a function at module level, without side effects that the caller needs.
        args: arguments, which must be pickleable like the result and exceptions.
        seconds: CPU time limit.
        memory: bytes that the worker may allocate in addition to what it holds before the call
            (None: no limit).
        imports: modules that the worker imports before the time counts, in addition to those of the
            function and `args`.
        inherits: whether the worker has all variables of the environment, keys included: only for
            functions that decode nothing by strangers. It is then never given one that does.

    Raises:
        LimitExceededError: it exceeded its limits, or the process died.
        WorkerEndedError: the process ended by itself, as one does that cannot be set up.
    """
    workers = _own_workers if inherits else _workers
    (result,) = _items(workers, function, args, seconds, memory, imports)
    return result  # type: ignore[no-any-return]


def iterate_limited(
    function: Callable[..., Iterator[T]], *args: Any, seconds: float, memory: int
) -> Iterator[T]:
    """Yield the items of the generator `function(*args)`, which runs in a worker, slightly ahead.

    See `run_limited`; each item may take `seconds`. Arrays are not copied more than needed. Close
    the generator if it is not read to its end.
    """
    return _items(_workers, function, args, seconds, memory)


def _items(
    workers: "_Workers",
    function: Callable[..., Any],
    args: tuple[Any, ...],
    seconds: float,
    memory: int | None,
    imports: Collection[str] = (),
) -> Generator[Any]:
    """Yield the items of a generator, or the result of another function as the only item."""
    worker = workers.take()
    is_reusable = False
    try:
        worker.send((tuple(imports), function, args, seconds, memory))
        kind, value = worker.receive(seconds, memory)
        while kind == _ITEM:
            yield value
            kind, value = worker.receive(seconds, memory)
        is_reusable = kind != _OUT_OF_MEMORY
    finally:
        if is_reusable:
            workers.give_back(worker)
        else:
            worker.kill()
    if kind == _OUT_OF_MEMORY:
        raise _too_much_memory(memory)
    if kind == _ERROR:
        raise unpacked_error(value)


def _too_much_memory(memory: int | None) -> LimitExceededError:
    what = "needs more memory than there is"
    if memory is not None:
        what = f"needs more than {memory:,} bytes of memory"
    return LimitExceededError("too_much_memory", what)


PackedError = tuple[type[Exception], Any, dict[str, Any], str]


def packed_error(error: Exception) -> PackedError:
    """Return the current exception in a pickleable form, independent of its constructor."""
    return type(error), error.args, error.__dict__, traceback.format_exc()


def unpacked_error(packed: PackedError) -> Exception:
    """Return the exception as it was raised in another process."""
    kind, args, attributes, trace = packed
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    error.add_note(trace)
    return error


class _Worker:
    """A process that runs calls one after the other."""

    def __init__(self, *, inherits: bool) -> None:
        environment = dict(os.environ) if inherits else inherited(LOCAL_VARIABLES)
        self._calls = 0
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*PYTHON, "-c", _START, json.dumps(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # decoders repeat there what files tell them
                env=environment | _ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl+C is for the caller
            )

    @property
    def is_fresh(self) -> bool:
        """True if it may be given more calls."""
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
        """Start a call."""
        self._calls += 1
        self._socket.settimeout(_START_SECONDS)
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` reports why
            _send(self._socket, call)

    def receive(self, seconds: float, memory: int | None) -> tuple[int, Any]:
        """Return the next message of the call.

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
    def _raise_death(code: int, seconds: float, memory: int | None) -> NoReturn:
        if code == -signal.SIGPROF:
            what = f"took more than {seconds:g} s of CPU time"
            raise LimitExceededError("too_slow", what) from None
        if code == -signal.SIGKILL and memory is None:
            what = "made its process end by SIGKILL, which is mostly a lack of memory"
            raise LimitExceededError("too_much_memory", what) from None
        if code == -signal.SIGKILL:  # by the kernel, which ran out of memory
            raise _too_much_memory(memory) from None
        if code >= 0:
            what = f"ended the process that worked on it with exit code {code}"
            raise WorkerEndedError(what) from None
        what = f"ended the process that read it by {signal.Signals(-code).name}"
        raise LimitExceededError("decoder_crashed", what) from None

    def kill(self) -> None:
        """End the process in any state."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


class _Workers:
    """The idle workers with the same environment."""

    def __init__(self, *, inherits: bool) -> None:
        self._inherits = inherits
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []

    def take(self) -> _Worker:
        """Return an idle worker, or a new one."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                return _Worker(inherits=self._inherits)
            if worker.is_fresh:
                return worker
            worker.kill()

    def give_back(self, worker: _Worker) -> None:
        """Keep a worker for later, at most as many as there are CPUs."""
        with self._lock:
            if worker.is_fresh and len(self._idle) < processors():
                self._idle.append(worker)
                return
        worker.kill()

    def end(self) -> None:
        """End all idle workers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.kill()

    def forget(self) -> None:
        """Forget the workers, which belong to the process that this one was forked from."""
        self._lock = threading.Lock()
        self._idle = []


def end_workers() -> None:
    """End the idle processes; the next call starts new ones."""
    for workers in (_workers, _own_workers):
        workers.end()


_workers, _own_workers = _Workers(inherits=False), _Workers(inherits=True)
atexit.register(end_workers)
for _kind in (_workers, _own_workers):
    os.register_at_fork(after_in_child=_kind.forget)


def _send(to: socket.socket, value: Any) -> None:
    """Send a value; the memory of arrays is sent separately from the pickle."""
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
    """Main loop of a worker: receive calls and send results until the caller is gone."""
    gc.set_threshold(100_000, 50, 100)  # as in `loupe.flows.cli.main`: workers make little garbage
    with socket.socket(fileno=handle) as caller, suppress(EOFError, OSError):
        while True:
            imports, function, args, seconds, memory = _receive(caller)
            for name in imports:
                with suppress(Exception):  # the call finds out when it needs it
                    importlib.import_module(name)
            _limit_time(seconds)
            with nullcontext() if memory is None else memory_limit(memory):
                is_reusable = _answer(caller, function, args, seconds)
            if not is_reusable:
                return
            signal.setitimer(signal.ITIMER_PROF, 0)


def _answer(
    caller: socket.socket, function: Callable[..., Any], args: tuple[Any, ...], seconds: float
) -> bool:
    """Run a call, and return whether the process can be used again."""
    try:
        result = function(*args)
        for item in result if isinstance(result, GeneratorType) else (result,):
            _send(caller, (_ITEM, item))
            signal.setitimer(signal.ITIMER_PROF, seconds)
        _send(caller, (_END, None))
    except MemoryError:
        _send(caller, (_OUT_OF_MEMORY, None))
        return False
    except BrokenPipeError:
        return False
    except Exception as error:  # noqa: BLE001 - raised again by the caller
        _send(caller, (_ERROR, packed_error(error)))
    return True


def _limit_time(seconds: float) -> None:
    """Have the kernel end this process after `seconds`."""
    import resource

    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def memory_limit(most: int) -> Iterator[None]:
    """Have the kernel refuse this process more than `most` bytes in addition to what it holds.

    Only Linux enforces it.
    """
    import resource

    held = _held_bytes()
    if held is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = held + most
    if before[1] != resource.RLIM_INFINITY:
        allowed = min(allowed, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _held_bytes() -> int | None:
    """Return how many bytes this process holds, as `RLIMIT_DATA` counts them; None if unknown.

    It is read without a file object: each call of a worker asks it.
    """
    import resource

    try:
        handle = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return None
    try:
        return int(os.read(handle, 256).split()[5]) * resource.getpagesize()
    finally:
        os.close(handle)
