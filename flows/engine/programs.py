"""Programs: the pure work of a stage, done in this process, in worker processes or on a cluster.

The store stays in this process: it prepares what a program works on, and commits what comes back.
A worker process that ends costs nothing but time. Its items are divided until the one is found that
ends its process whenever it is worked on, and that one is rejected. Worker processes are started
here, or beside actors of Ray (`flows.engine.ray`).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from db.store import Store
from db.work import WorkResult
from models.profiles.settings import Settings
from schemas.errors import ServiceError
from schemas.limited import LimitExceededError, run_limited
from schemas.processes import processors
from schemas.records import Rejection

_WORTH_SECONDS = 10.0
"""Of processor time: work that takes less is done before processes are of use, which take two
seconds to start."""

InputT = TypeVar("InputT")
ItemT = TypeVar("ItemT")


class Program(ABC, Generic[InputT, ItemT]):
    """The work of a stage that needs processors and waits for nobody.

    A program is a frozen dataclass of a module, and its fields and items are values: all are
    pickled.

    Attributes:
        stage: names the stage in rejections.
        seconds: of processor time that an input takes, roughly.
        cpus: processors that a worker of a cluster is given, at least.
        gpus: the same of GPUs; below 1, several workers share one.
    """

    stage: ClassVar[str]
    seconds: ClassVar[float]
    cpus: ClassVar[float] = 1.0
    gpus: ClassVar[float] = 0.0

    @property
    def reads(self) -> str:
        """The URL or folder that `work` reads from; empty where it works on its items alone."""
        return ""

    def prepare(self, inputs: Sequence[InputT], reader: Store) -> Sequence[ItemT]:  # noqa: ARG002
        """What there is to work on, an item for each input in order; by default the inputs."""
        return cast("Sequence[ItemT]", inputs)

    def open(self) -> None:
        """Loads what all items need; once a process, before the first of them."""

    @abstractmethod
    def work(self, items: Sequence[ItemT]) -> list[WorkResult]:
        """The result of each item, in order, which depends on nothing but that item."""

    @abstractmethod
    def refused(self, item: ItemT, rejection: Rejection) -> WorkResult:
        """The result of an item that cannot be worked on."""

    def close(self) -> None:
        """Gives back what `open` took; before another program is opened in the process."""


class Engine(Protocol):
    """Where a program works; safe in threads, of which `threads` keep it busy."""

    threads: int

    def work(self, items: Sequence[Any]) -> list[WorkResult]:
        """What the program makes of `items`.

        Raises:
            LimitExceededError: the process that worked on them ended.
        """
        ...


class _Here:
    """A program in this process."""

    threads = 2

    def __init__(self, program: Program[Any, Any]) -> None:
        self._program = program
        self._opening = threading.Lock()
        self._is_open = False

    def work(self, items: Sequence[Any]) -> list[WorkResult]:
        with self._opening:
            if not self._is_open:
                self._program.open()
                self._is_open = True
        return self._program.work(items)

    def close(self) -> None:
        if self._is_open:
            self._program.close()


class _Processes:
    """A program in worker processes, which are started when they are needed and kept for others."""

    def __init__(self, program: Program[Any, Any], workers: int, seconds: float) -> None:
        self.threads = 2 * workers  # one half prepares and commits while the other waits for work
        self._program = program
        self._seconds = seconds
        self._free = threading.Semaphore(workers)

    def work(self, items: Sequence[Any]) -> list[WorkResult]:
        with self._free:
            return run_limited(work_in_process, self._program, items, seconds=self._seconds)


_opened: list[Program[Any, Any]] = []  # in this worker process: none, or one


def work_in_process(program: Program[Any, Any], items: Sequence[Any]) -> list[WorkResult]:
    """What a program makes of `items` in this worker process, where it is opened once."""
    if _opened != [program]:
        while _opened:
            _opened.pop().close()
        program.open()
        _opened.append(program)
    return _opened[0].work(items)


@contextmanager
def open_engine(
    settings: Settings, program: Program[Any, Any], inputs: int | None
) -> Iterator[Engine]:
    """Where `program` works on so many inputs (None: not known), by the settings.

    Raises:
        UsageError, ServiceError: Ray is not installed, or its cluster cannot be used.
    """
    if settings.engine == "ray" and inputs != 0:
        from flows.engine.ray import open_ray

        with open_ray(settings, program) as engine:
            yield engine
        return
    workers = settings.engine_workers or processors()
    is_worth = workers > 1 and (inputs or 0) * program.seconds >= _WORTH_SECONDS
    if settings.engine == "processes" or (settings.engine == "auto" and is_worth):
        yield _Processes(program, workers, settings.engine_seconds)
        return
    here = _Here(program)
    try:
        yield here
    finally:
        here.close()


def work_through(
    engine: Engine, program: Program[Any, ItemT], items: Sequence[ItemT]
) -> list[WorkResult]:
    """The results of all items, in order; those that end their process twice are refused.

    Raises:
        ServiceError: processes end without any item, too.
    """
    try:
        return engine.work(items)
    except LimitExceededError:
        if len(items) > 1:
            half = len(items) // 2
            parts = items[:half], items[half:]
            return [result for part in parts for result in work_through(engine, program, part)]
    try:
        return engine.work(items)
    except LimitExceededError as fault:
        _require_processes(engine, program)
        detail = f"Two processes ended while they worked on it: it {fault}."
        rejection = Rejection(stage=program.stage, reason="ends_its_process", detail=detail)
        return [program.refused(item, rejection) for item in items]


def _require_processes(engine: Engine, program: Program[Any, Any]) -> None:
    try:
        engine.work(())
    except LimitExceededError as fault:
        raise ServiceError(
            f"worker processes for {program.stage} end before they are given any input: the last "
            f"one {fault}; nothing was rejected. LOUPE_ENGINE=threads works without them"
        ) from fault
