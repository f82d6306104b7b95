"""Programs: the pure work of a stage, run in this process, in worker processes or on a cluster.

This process claims inputs and commits results. Worker processes on this machine read the inputs
from the store; those beside actors of Ray (`loupe.flows.engine.ray`), which cannot access it, are
sent theirs. If a worker process dies, only time is lost: its inputs are divided until the one that
reproducibly ends its process is found, and that input is rejected.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from loupe.db.blobs import BlobStore
from loupe.db.entities import StoredEntity, WorkResult, entities_numbered
from loupe.db.store import Store
from loupe.db.store import open_engine as open_database
from loupe.models.profiles.settings import Settings
from loupe.schemas.errors import ServiceError
from loupe.schemas.limited import LimitExceededError, run_limited
from loupe.schemas.processes import processors
from loupe.schemas.records import Rejection

_WORTH_SECONDS = 10.0
"""CPU seconds below which work is done in this process; starting workers takes two seconds."""

ItemT = TypeVar("ItemT")


class Program(ABC, Generic[ItemT]):
    """The CPU-bound work of a stage on entities, which never waits for people or services.

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

    def prepare(
        self,
        inputs: Sequence[StoredEntity],
        reader: Store,  # noqa: ARG002
    ) -> Sequence[ItemT]:
        """Return one item to work on for each input, in order; by default the inputs."""
        return cast("Sequence[ItemT]", inputs)

    def open(self) -> None:
        """Load what all items need, once per process before the first item."""

    @abstractmethod
    def work(self, items: Sequence[ItemT]) -> list[WorkResult]:
        """Return the result of each item, in order, which must depend only on that item."""

    def refused(self, input_: StoredEntity, rejection: Rejection) -> WorkResult:
        """Return the result of an input that cannot be processed; by default, a rejection."""
        return WorkResult(input_.seq, rejection=rejection)


@dataclass(frozen=True)
class BlobProgram(Program[StoredEntity]):
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


class Engine(NamedTuple):
    """Where a program runs.

    Attributes:
        work: returns the results of the program for numbered inputs, or raises
            `LimitExceededError` if the worker process died. Thread-safe.
        threads: how many threads keep it busy.
    """

    work: Callable[[Sequence[int]], list[WorkResult]]
    threads: int


_opened: list[Program[Any]] = []  # in this worker process: one program or none


def work_in_process(program: Program[Any], items: Sequence[Any]) -> list[WorkResult]:
    """Run a program on `items` in this worker process, opening it once."""
    if _opened != [program]:
        _opened.clear()
        program.open()
        _opened.append(program)
    return _opened[0].work(items)


def read_and_work_in_process(
    program: Program[Any], numbers: Sequence[int], url: str
) -> list[WorkResult]:
    """Run a program on the numbered entities of the store at `url` in this worker process."""
    return work_in_process(program, _items_of(program, numbers, _reader(url)))


@cache
def _reader(url: str) -> Store:
    return Store(open_database(url))


def _items_of(program: Program[ItemT], numbers: Sequence[int], store: Store) -> Sequence[ItemT]:
    return program.prepare(entities_numbered(store, numbers), store)


@contextmanager
def open_engine(
    settings: Settings, program: Program[Any], count: int, store: Store
) -> Iterator[Engine]:
    """Open the engine of the settings for `program` and its `count` inputs in `store`.

    Raises:
        UsageError, ServiceError: Ray is not installed, or its cluster cannot be used.
    """
    if settings.engine == "ray" and count != 0:
        from loupe.flows.engine.ray import open_ray

        with open_ray(settings, program) as actors:
            yield Engine(
                lambda numbers: actors.work(_items_of(program, numbers, store)), actors.threads
            )
        return
    workers = settings.engine_workers or processors()
    is_worth = workers > 1 and count * program.seconds >= _WORTH_SECONDS
    if settings.engine == "processes" or (settings.engine == "auto" and is_worth):
        free = threading.Semaphore(workers)
        url = store.engine.url.render_as_string(hide_password=False)

        def work(numbers: Sequence[int]) -> list[WorkResult]:
            with free:
                return run_limited(
                    read_and_work_in_process,
                    *(program, numbers, url),
                    seconds=settings.engine_seconds,
                )

        # Half of the threads commit while the others wait for worker processes.
        yield Engine(work, 2 * workers)
        return
    if count != 0:
        program.open()
    yield Engine(lambda numbers: program.work(_items_of(program, numbers, store)), 2)


def work_through(
    engine: Engine, program: Program[Any], numbers: Sequence[int], store: Store
) -> list[WorkResult]:
    """Return the results of all inputs, in order; those that end their process twice are refused.

    Raises:
        ServiceError: worker processes die even without an input.
    """
    try:
        return engine.work(numbers)
    except LimitExceededError:
        if len(numbers) > 1:
            half = len(numbers) // 2
            parts = numbers[:half], numbers[half:]
            return [
                result for part in parts for result in work_through(engine, program, part, store)
            ]
    try:
        return engine.work(numbers)
    except LimitExceededError as fault:
        _require_processes(engine, program)
        detail = f"Two processes ended while they worked on it: it {fault}."
        rejection = Rejection(stage=program.stage, reason="ends_its_process", detail=detail)
        return [program.refused(one, rejection) for one in entities_numbered(store, numbers)]


def _require_processes(engine: Engine, program: Program[Any]) -> None:
    try:
        engine.work(())
    except LimitExceededError as fault:
        raise ServiceError(
            f"worker processes for {program.stage} end before they get any input: the last "
            f"one {fault}; nothing was rejected. LOUPE_ENGINE=threads works without them"
        ) from fault
