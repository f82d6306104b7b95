"""Where chunks run: on threads of this process."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context


class ThreadExecutor:
    """Runs functions side by side on threads, in the context of the caller."""

    def __init__(self, name: str, workers: int) -> None:
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self._running: set[Future[object]] = set()

    def submit(self, function: Callable[[], object]) -> None:
        """Starts a function; raises the error of an earlier one instead, where there was one.

        It blocks while all workers are busy, so that at most one chunk is cut ahead.
        """
        self._collect({future for future in self._running if future.done()})
        while len(self._running) >= self._workers:
            self._collect(wait(self._running, return_when=FIRST_COMPLETED).done)
        self._running.add(self._pool.submit(copy_context().run, function))

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
    name: str, workers: int, interrupted: Callable[[BaseException], None]
) -> Iterator[ThreadExecutor]:
    """An executor that is closed at the end, waiting for what runs also when there was an error.

    The first error is the one that is raised: later ones mostly follow from it. `interrupted` gets
    what a signal raised here, before the waiting.
    """
    executor = ThreadExecutor(name, workers)
    try:
        yield executor
        executor.close()
    except BaseException as error:
        if not isinstance(error, Exception):
            interrupted(error)
        with suppress(Exception, SystemExit):
            executor.close()
        raise
