"""Where chunks run: on threads of this process, or as tasks of a Prefect flow run."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar

T = TypeVar("T")


class ChunkExecutor(Protocol):
    """Runs functions side by side, `workers` at a time.

    `submit` blocks while all workers are busy, so that at most one chunk is cut ahead; it raises
    the error of an earlier function.
    """

    def submit(self, function: Callable[[], T]) -> None:
        """Starts a function."""
        ...

    def close(self) -> None:
        """Waits for all functions and raises the first of their errors."""
        ...


class ThreadExecutor:
    """Chunks on a thread pool of this process."""

    def __init__(self, name: str, workers: int) -> None:
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._running: set[Future[object]] = set()

    def submit(self, function: Callable[[], T]) -> None:
        """Starts a function; raises the error of an earlier one instead, where there was one."""
        self._collect({future for future in self._running if future.done()})
        while len(self._running) >= self._workers:
            self._collect(wait(self._running, return_when=FIRST_COMPLETED).done)
        self._running.add(self._pool.submit(function))

    def close(self) -> None:
        """Waits for all functions and raises the first of their errors."""
        try:
            self._collect(wait(self._running).done)
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _collect(self, done: set[Future[object]]) -> None:
        self._running -= done
        for future in done:
            future.result()


@contextmanager
def open_executor(
    executor: ChunkExecutor, interrupted: Callable[[BaseException], None]
) -> Iterator[ChunkExecutor]:
    """Closes `executor` at the end, waiting for what runs also when there was an error.

    The first error is the one that is raised: later ones mostly follow from it. `interrupted` gets
    what a signal raised here, before the waiting.
    """
    try:
        yield executor
        executor.close()
    except BaseException as error:
        if not isinstance(error, Exception):
            interrupted(error)
        with suppress(Exception, SystemExit):
            executor.close()
        raise
