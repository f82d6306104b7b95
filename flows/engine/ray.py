"""Computations on a cluster: actors of Ray. This is the only module that imports Ray.

An actor passes its chunks to a worker process on its node, and survives that process. Therefore an
input that ends its process results in an answer of the actor. The loss of an actor or a node says
nothing about its chunk, which is processed elsewhere. The driver is this process, which alone uses
the store.
"""

import atexit
import os
import pickle
import queue
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from loupe.db.blobs import BlobStore
from loupe.flows.engine.programs import Computation, work_in_process
from loupe.flows.engine.ray_actor import Actor, revision
from loupe.models.profiles.settings import Settings, make_home
from loupe.schemas.errors import ConfigurationError, LoupeError, MissingExtraError, ServiceError
from loupe.schemas.limited import LimitExceededError, unpacked_error
from loupe.schemas.processes import PYTHON, processors

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
_START_SECONDS = 300.0  # for the first actor: a cluster may have to start a machine
_CLOCK_PER_PROCESSOR_SECOND = 12  # a worker process is ended after ten times its expected duration
_GRACE_SECONDS = 400.0  # a worker process may take 300 to start
_MOST_LOSSES = 3
_KEPT_SECONDS = 60.0  # actors that nobody uses, with the model that they have loaded
_LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107  # bytes of a path
_SOCKET_BYTES = len(
    "/ray-12345678/s/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store.123"
)


class _Ray(Generic[ItemT, ResultT]):
    """Runs a computation in actors, which are started on demand.

    Attributes:
        threads: how many threads keep the actors busy.
        users: how many blocks of `open_ray` use them.
        is_usable: whether another may: none of them has ended with an error.
        left_at: when the last block ended, by the monotonic clock.
    """

    def __init__(self, ray: Any, program: Computation[ItemT, ResultT], settings: Settings) -> None:
        cpus = program.cpus if settings.engine_cpus is None else settings.engine_cpus
        gpus = program.gpus if settings.engine_gpus is None else settings.engine_gpus
        self.users = 0
        self.is_usable = True
        self.left_at = 0.0
        self._ray = ray
        self._program = program
        self._settings = settings
        self._module = type(program).__module__
        self._seconds = settings.engine_seconds
        self._workers = settings.engine_workers or _room(ray, cpus, gpus)
        self.threads = 2 * self._workers  # per actor two chunks: one waits or is committed
        self._new = ray.remote(Actor).options(num_cpus=cpus, num_gpus=gpus, max_restarts=0)
        self._has_gpus = gpus > 0
        self._asked_for = f"{cpus:g} CPUs and {gpus:g} GPUs"
        self._lock = threading.Lock()
        self._actors: set[Any] = set()
        self._busy = 0
        self._failed_starts = 0
        # Idle actors, each with its answer about which code it runs if that has not been read, or
        # the error that prevents starting actors.
        self._idle: queue.SimpleQueue[tuple[Any, Future[str] | None] | LoupeError]
        self._idle = queue.SimpleQueue()

    def work(self, items: Sequence[ItemT]) -> list[ResultT]:
        """Return the result of each item, in order. Thread-safe.

        Raises:
            LimitExceededError: the items exceeded their time, ended their process, or were being
                processed by three actors that were lost.
        """
        chunk = pickle.dumps((work_in_process, self._program, items))
        loss: Exception | None = None
        for _ in range(_MOST_LOSSES):
            actor = self._take()
            is_lost = True
            try:
                answer = actor.work.remote(self._module, chunk, self._seconds)
                patience = _CLOCK_PER_PROCESSOR_SECOND * self._seconds + _GRACE_SECONDS
                results, failure = self._ray.get(answer, timeout=patience)
                is_lost = False
            except self._ray.exceptions.RayTaskError:
                is_lost = False
                raise
            except self._ray.exceptions.RayError as error:
                loss = error  # the actor, its node or the answer is lost, or it never answers
                continue
            finally:
                self._give_back(actor, is_lost=is_lost)
            if failure is not None:
                raise unpacked_error(failure)
            return cast("list[ResultT]", pickle.loads(results))  # noqa: S301 - of our own actor
        what = f"lost {_MOST_LOSSES} actors of Ray that processed it, or their nodes"
        raise LimitExceededError("actors_lost", what) from loss

    def _take(self) -> Any:
        """Return an idle actor, or a new one if all are busy.

        Raises:
            ServiceError: no actor can be started.
            ConfigurationError: the actors run different code than this process.
        """
        with self._lock:
            if self._idle.empty() and len(self._actors) < self._workers:
                self._start()
        while True:
            try:
                found = self._idle.get(timeout=_START_SECONDS)
            except queue.Empty:
                if self._busy:
                    continue
                raise ServiceError(
                    f"Ray has started no worker with {self._asked_for} for {_START_SECONDS:g} s: "
                    f"its cluster has {_shown(self._ray.cluster_resources())}"
                ) from None
            if isinstance(found, LoupeError):
                self._idle.put(found)  # for the other threads
                raise found
            actor, answer = found
            with self._lock:
                if answer is None or self._has_started(actor, answer):
                    self._busy += 1
                    return actor

    def _give_back(self, actor: Any, *, is_lost: bool) -> None:
        with self._lock:
            self._busy -= 1
            if not is_lost:
                self._idle.put((actor, None))
                return
            self._discard(actor)
            self._start()

    def _start(self) -> None:
        """Start an actor and ask it which code it runs; it becomes idle when it has answered."""
        actor = self._new.remote(has_gpus=self._has_gpus)
        self._actors.add(actor)
        self._ask(actor)

    def _ask(self, actor: Any) -> None:
        """Ask an actor which code it runs.

        The callback runs in a thread that Ray needs for everything else, so it only enqueues the
        actor.
        """
        answer = actor.revision.remote(self._module).future()
        answer.add_done_callback(lambda answer: self._idle.put((actor, answer)))

    def _has_started(self, actor: Any, answer: "Future[str]") -> bool:
        """Tell whether the actor can be given work; a lost actor is replaced by another."""
        fault = answer.exception()
        if fault is None:
            self._failed_starts = 0
            own = revision(self._module)
            if (found := answer.result()) != own:
                message = "a node of the Ray cluster runs different code than this run"
                install = "install the same on all"
                self._idle.put(ConfigurationError(f"{message}: {found}, not {own}; {install}"))
            return found == own
        self._discard(actor)
        self._failed_starts += 1
        if self._failed_starts < _MOST_LOSSES:
            self._start()
        else:
            reason = str(fault).strip().splitlines()[-1]
            self._idle.put(ServiceError(f"Ray cannot start a worker: {reason}"))
        return False

    def _discard(self, actor: Any) -> None:
        self._actors.discard(actor)
        self._ray.kill(actor)

    def is_for(self, program: Computation[Any, Any], settings: Settings) -> bool:
        """Tell whether the actors run an equal program under the same settings."""
        return self.is_usable and program == self._program and settings == self._settings

    def check_idle(self) -> None:
        """Ask idle actors again before they are given work: they may have been lost since."""
        with self._lock:
            for _ in range(self._idle.qsize()):
                found = self._idle.get()
                if not isinstance(found, LoupeError):
                    self._ask(found[0])

    def close(self) -> None:
        with self._lock:
            for actor in list(self._actors):
                self._discard(actor)


class _Pools:
    """The actors of this process, by program.

    Those that nobody uses are kept for a minute: a stage may open its program for every chunk, and
    loading a model takes long. They end earlier if another program needs their place, and after an
    error as soon as nobody uses them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[_Ray[Any, Any]] = []

    @contextmanager
    def opened(
        self, ray: Any, program: Computation[ItemT, ResultT], settings: Settings
    ) -> Iterator[_Ray[ItemT, ResultT]]:
        """Open the actors of a program."""
        with self._lock:
            fitting = (one for one in self._known if one.is_for(program, settings))
            actors: _Ray[ItemT, ResultT] | None = next(fitting, None)
            if actors is None:
                self._close_unused(0.0)
                actors = _Ray(ray, program, settings)
                self._known.append(actors)
            elif not actors.users:
                actors.check_idle()
            actors.users += 1
        try:
            yield actors
        except BaseException:
            actors.is_usable = False
            raise
        finally:
            with self._lock:
                actors.users -= 1
                actors.left_at = time.monotonic()
            self.close_unused()
            timer = threading.Timer(_KEPT_SECONDS, self.close_unused)
            timer.daemon = True
            timer.start()

    def close_unused(self, seconds: float = _KEPT_SECONDS) -> None:
        """End the actors that nobody has used for so long, or that nobody may use."""
        with self._lock:
            self._close_unused(seconds)

    def _close_unused(self, seconds: float) -> None:
        now = time.monotonic()
        for actors in list(self._known):
            is_old = now - actors.left_at >= seconds or not actors.is_usable
            if is_old and not actors.users:
                self._known.remove(actors)
                actors.close()


_pools = _Pools()


@contextmanager
def open_ray(
    settings: Settings, program: Computation[ItemT, ResultT]
) -> Iterator[_Ray[ItemT, ResultT]]:
    """Open an engine that runs `program` on the cluster of the settings.

    Its actors, with the model that they have loaded, are kept for the next block (`_Pools`).

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigurationError: the address is not safe, or nodes cannot access the data of the program.
        ServiceError: the cluster does not exist or has no resources left.
    """
    ray = _connected(settings)
    nodes = sum(node["Alive"] for node in ray.nodes())
    if nodes > 1 and program.reads and BlobStore(program.reads).is_local:
        raise ConfigurationError(
            f"{program.stage} reads from {program.reads}, which the {nodes} nodes of the Ray "
            "cluster do not share; keep blobs in a bucket (LOUPE_BLOBS_URL=s3://bucket/path), or "
            "use LOUPE_ENGINE=processes"
        )
    with _pools.opened(ray, program, settings) as actors:
        yield actors


def _connected(settings: Settings) -> Any:
    """Return Ray, connected to the cluster of the settings for the rest of this process."""
    address = settings.ray_address
    make_home(settings.home)
    where = _existing(address) if address else _on_this_machine(settings)
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingExtraError("LOUPE_ENGINE=ray", "ray") from error
    if ray.is_initialized():
        return ray
    if address:
        _refuse_open_cluster(address)
    try:
        # Ray lets its workers import from the folder in which it is started.
        with _signals_kept(), chdir(settings.home):
            ray.init(**where, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray also raises this
        name = f"the Ray cluster at {address}" if address else "Ray on this machine"
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ServiceError(f"{name} cannot be used: {reason}") from error
    return ray


def _on_this_machine(settings: Settings) -> dict[str, Any]:
    """Return the options that start Ray on this machine, only on 127.0.0.1, with a new token.

    Without the first variable, Ray takes 127.0.0.1 as the address of this machine in its network,
    and listens on all interfaces for any other address.
    """
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    os.environ.setdefault("RAY_worker_niceness", "0")  # of this process, not of the idle
    return {
        "address": "local",
        "num_cpus": max(processors(), settings.engine_workers or 0),
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": str(_session_folder(settings.home) / "s"),  # Ray opens it to everybody
    }


def _session_folder(home: Path) -> Path:
    """Return a new folder in the home, which only this user can enter, for Ray's sockets and logs.

    By default Ray takes `/tmp/ray`, which another user may have made. If the home's path is too
    long for sockets, the folder is in `/tmp`. It is removed when this process ends.
    """
    is_short = len(os.fsencode(home)) + _SOCKET_BYTES <= _LONGEST_SOCKET
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir=home if is_short else "/tmp"))  # noqa: S108
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after Ray, which registers later
    return folder


def _existing(address: str) -> dict[str, Any]:
    """Return the options that connect to an existing cluster.

    Raises:
        ConfigurationError: the address is invalid, or no token may be sent to it.
    """
    if not re.fullmatch(r"[^/\s]+:\d+", address):
        raise ConfigurationError(
            "LOUPE_RAY_ADDRESS must be HOST:PORT of a cluster that includes this machine; "
            f"got {address!r}"
        )
    if os.environ.get("RAY_AUTH_MODE") != "token":
        raise ConfigurationError(
            f"the Ray cluster at {address} must require a token, as anyone who reaches it can run "
            "code there: set RAY_AUTH_MODE=token here and on all its nodes"
        )
    return {"address": address}


def _refuse_open_cluster(address: str) -> None:
    """Connect without a token in another process, as Ray has already read a token in this one.

    Raises:
        ConfigurationError: the cluster answers.
    """
    command = [*PYTHON, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    asked = subprocess.run(
        command, env=os.environ | {"RAY_AUTH_MODE": "disabled"}, capture_output=True, check=False
    )
    if asked.returncode == 0:
        raise ConfigurationError(
            f"the Ray cluster at {address} answers without a token, so anyone who reaches it can "
            "run code there: start its nodes with RAY_AUTH_MODE=token"
        )


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the signal handlers that Ray replaces: at SIGTERM a run must stop first."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _room(ray: Any, cpus: float, gpus: float) -> int:
    """Return how many workers fit on the nodes.

    Raises:
        ServiceError: no worker fits.
    """
    asked = {"CPU": cpus, "GPU": gpus}
    room = sum(
        min(int(node["Resources"].get(name, 0) // count) for name, count in asked.items() if count)
        for node in ray.nodes()
        if node["Alive"]
    )
    if not room:
        raise ServiceError(
            f"no node of the Ray cluster has room for a worker with {cpus:g} CPUs and {gpus:g} "
            f"GPUs: all of them have {_shown(ray.cluster_resources())}"
        )
    return room


def _shown(resources: dict[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPUs and {resources.get('GPU', 0):g} GPUs"
