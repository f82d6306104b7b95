"""Programs: the pure work of a stage, run in this process, in worker processes or on a cluster.

The store is used only in this process, which prepares the items of a program and commits its
results. If a worker process dies, only time is lost: its items are divided until the one that
reproducibly ends its process is found, and that item is rejected. Worker processes run on this
machine, or beside actors of Ray (`flows.engine.ray`).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from db.blobs import BlobStore
from db.entities import StoredEntity, WorkResult
from db.store import Store
from models.profiles.settings import Settings
from schemas.errors import ServiceError
from schemas.limited import LimitExceededError, run_limited
from schemas.processes import processors
from schemas.records import Rejection

_WORTH_SECONDS = 10.0
"""CPU seconds below which work is done in this process; starting workers takes two seconds."""

InputT = TypeVar("InputT")
ItemT = TypeVar("ItemT")


class Program(ABC, Generic[InputT, ItemT]):
    """The CPU-bound work of a stage, which never waits for people or services.

    A program is a frozen dataclass at module level with pickleable fields and items.

    Attributes:
        stage: the name of the stage in rejections.
        seconds: approximate CPU time per input.
        cpus: minimum number of CPUs of a worker on a cluster.
        gpus: minimum number of GPUs; below 1, several workers share one.
    """

    stage: ClassVar[str]
    seconds: ClassVar[float]
    cpus: ClassVar[float] = 1.0
    gpus: ClassVar[float] = 0.0

    @property
    def reads(self) -> str:
        """The URL or folder that `work` reads from; empty if it uses only its items."""
        return ""

    def prepare(self, inputs: Sequence[InputT], reader: Store) -> Sequence[ItemT]:  # noqa: ARG002
        """Return one item to work on for each input, in order; by default the inputs."""
        return cast("Sequence[ItemT]", inputs)

    def open(self) -> None:
        """Load what all items need, once per process before the first item."""

    @abstractmethod
    def work(self, items: Sequence[ItemT]) -> list[WorkResult]:
        """Return the result of each item, in order, which must depend only on that item."""

    @abstractmethod
    def refused(self, item: ItemT, rejection: Rejection) -> WorkResult:
        """Return the result of an item that cannot be processed."""


@dataclass(frozen=True)
class BlobProgram(Program[StoredEntity, StoredEntity]):
    """A program on entities with files in a blob store."""

    blobs_url: str

    @property
    def reads(self) -> str:
        """The blob store."""
        return self.blobs_url

    @cached_property
    def blobs(self) -> BlobStore:
        """The blob store."""
        return BlobStore(self.blobs_url)

    def refused(self, item: StoredEntity, rejection: Rejection) -> WorkResult:
        """Return a rejection: nothing is computed from the entity."""
        return WorkResult(item.seq, rejection=rejection)


class Engine(NamedTuple):
    """Where a program runs.

    Attributes:
        work: returns the results of the program for items, or raises `LimitExceededError` if the
            worker process died. Thread-safe.
        threads: how many threads keep it busy.
    """

    work: Callable[[Sequence[Any]], list[WorkResult]]
    threads: int


_opened: list[Program[Any, Any]] = []  # in this worker process: one program or none


def work_in_process(program: Program[Any, Any], items: Sequence[Any]) -> list[WorkResult]:
    """Run a program on `items` in this worker process, opening it once."""
    if _opened != [program]:
        _opened.clear()
        program.open()
        _opened.append(program)
    return _opened[0].work(items)


@contextmanager
def open_engine(
    settings: Settings, program: Program[Any, Any], inputs: int | None
) -> Iterator[Engine]:
    """Open the engine of the settings for `program` and so many inputs (None: not known).

    Raises:
        UsageError, ServiceError: Ray is not installed, or its cluster cannot be used.
    """
    if settings.engine == "ray" and inputs != 0:
        from flows.engine.ray import open_ray

        with open_ray(settings, program) as actors:
            yield Engine(actors.work, actors.threads)
        return
    workers = settings.engine_workers or processors()
    is_worth = workers > 1 and (inputs or 0) * program.seconds >= _WORTH_SECONDS
    if settings.engine == "processes" or (settings.engine == "auto" and is_worth):
        free = threading.Semaphore(workers)

        def work(items: Sequence[Any]) -> list[WorkResult]:
            with free:
                return run_limited(work_in_process, program, items, seconds=settings.engine_seconds)

        # Half of the threads prepare and commit while the others wait for worker processes.
        yield Engine(work, 2 * workers)
        return
    if inputs != 0:
        program.open()
    yield Engine(program.work, 2)


def work_through(
    engine: Engine, program: Program[Any, ItemT], items: Sequence[ItemT]
) -> list[WorkResult]:
    """Return the results of all items, in order; items that end their process twice are refused.

    Raises:
        ServiceError: worker processes die even without an item.
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
            f"worker processes for {program.stage} end before they get any input: the last "
            f"one {fault}; nothing was rejected. LOUPE_ENGINE=threads works without them"
        ) from fault
