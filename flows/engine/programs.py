"""Programs: the pure work of a stage, and how a worker process runs one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

from loupe.db.blobs import BlobStore
from loupe.db.entities import StoredEntity, WorkResult, entities_numbered
from loupe.db.store import Store
from loupe.db.store import open_engine as open_database
from loupe.schemas.records import Rejection

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Computation(ABC, Generic[ItemT, ResultT]):
    """What worker processes compute, which never waits for people or services.

    It is a frozen dataclass at module level with pickleable fields, items and results.

    Attributes:
        stage: the name of the stage in messages and rejections.
        cpus: minimum number of CPUs of a worker on a cluster.
        gpus: minimum number of GPUs; below 1, several workers share one.
    """

    stage: ClassVar[str]
    cpus: ClassVar[float] = 1.0
    gpus: ClassVar[float] = 0.0

    @property
    def reads(self) -> str:
        """The URL or folder that `work` reads from; empty if it uses only its items."""
        return ""

    def open(self) -> None:
        """Load what all items need, once per process before the first item."""

    @abstractmethod
    def work(self, items: Sequence[ItemT]) -> list[ResultT]:
        """Return the result of each item, in order, which must depend only on that item."""


class Program(Computation[ItemT, WorkResult]):
    """The computation of a stage on entities.

    Attributes:
        seconds: approximate CPU time per input.
        engine: "processes" or "ray" if it must run there; empty if the settings say where.
    """

    seconds: ClassVar[float]
    engine: ClassVar[str] = ""

    def prepare(
        self,
        inputs: Sequence[StoredEntity],
        reader: Store,  # noqa: ARG002
    ) -> Sequence[ItemT]:
        """Return one item to work on for each input, in order; by default the inputs."""
        return cast("Sequence[ItemT]", inputs)

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


_opened: list[Computation[Any, Any]] = []  # in this worker process: one or none


def work_in_process(
    computation: Computation[ItemT, ResultT], items: Sequence[ItemT]
) -> list[ResultT]:
    """Compute the results of `items` in this worker process, opening the computation once."""
    if _opened != [computation]:
        _opened.clear()
        computation.open()
        _opened.append(computation)
    results: list[ResultT] = _opened[0].work(items)
    return results


def read_and_work_in_process(
    program: Program[Any], numbers: Sequence[int], url: str
) -> list[WorkResult]:
    """Run a program on the numbered entities of the store at `url` in this worker process."""
    return work_in_process(program, items_of(program, numbers, _reader(url)))


@cache
def _reader(url: str) -> Store:
    return Store(open_database(url))


def items_of(program: Program[ItemT], numbers: Sequence[int], store: Store) -> Sequence[ItemT]:
    """Return the items that a program makes of the numbered entities of a store."""
    return program.prepare(entities_numbered(store, numbers), store)
