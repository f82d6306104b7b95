"""Engines: a program is run in this process, in worker processes or on a cluster.

This process claims inputs and commits results. Worker processes on this machine read the inputs
from the store; those beside actors of Ray (`loupe.flows.engine.ray`), which cannot access it, are
sent theirs. If a worker process dies, only time is lost: its inputs are divided until the one that
reproducibly ends its process is found, and that input is rejected.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from loupe.db.entities import WorkResult, entities_numbered
from loupe.db.store import Store
from loupe.flows.engine.programs import Program, items_of, read_and_work_in_process
from loupe.flows.engine.ray import open_ray
from loupe.models.profiles.settings import Settings
from loupe.schemas.errors import ServiceError
from loupe.schemas.limited import LimitExceededError, WorkerEndedError, run_limited
from loupe.schemas.processes import processors
from loupe.schemas.records import Rejection

_WORTH_SECONDS = 10.0
"""CPU seconds below which work is done in this process; starting workers takes two seconds."""


ENDS_ITS_PROCESS = "ends_its_process"
_ENDED = (LimitExceededError, WorkerEndedError)


class Engine(NamedTuple):
    """Where a program runs.

    Attributes:
        work: returns the results of the program for numbered inputs, or raises
            `LimitExceededError` or `WorkerEndedError` if the worker process died. Thread-safe.
        threads: how many threads keep it busy.
    """

    work: Callable[[Sequence[int]], list[WorkResult]]
    threads: int


@contextmanager
def open_engine(
    settings: Settings, program: Program[Any], count: int, store: Store
) -> Iterator[Engine]:
    """Open the engine for `program` and its `count` inputs in `store`: its own, or the settings'.

    Raises:
        UsageError, ServiceError: Ray is not installed, or its cluster cannot be used.
    """
    wanted = program.engine or settings.engine
    if wanted == "ray" and count != 0:
        with open_ray(settings, program) as actors:
            yield Engine(
                lambda numbers: actors.work(items_of(program, numbers, store)), actors.threads
            )
        return
    workers = settings.engine_workers or processors()
    is_worth = workers > 1 and count * program.seconds >= _WORTH_SECONDS
    if wanted == "processes" or (wanted == "auto" and is_worth):
        free = threading.Semaphore(workers)
        url = store.engine.url.render_as_string(hide_password=False)

        def work(numbers: Sequence[int]) -> list[WorkResult]:
            with free:
                return run_limited(
                    read_and_work_in_process,
                    *(program, numbers, url),
                    seconds=settings.engine_seconds,
                    inherits=True,
                )

        # Half of the threads commit while the others wait for worker processes.
        yield Engine(work, 2 * workers)
        return
    if count != 0:
        program.open()
    yield Engine(lambda numbers: program.work(items_of(program, numbers, store)), 2)


def work_through(
    engine: Engine, program: Program[Any], numbers: Sequence[int], store: Store
) -> list[WorkResult]:
    """Return the results of all inputs, in order; those that end their process twice are refused.

    Raises:
        ServiceError: worker processes die even without an input.
    """
    try:
        return engine.work(numbers)
    except _ENDED:
        if len(numbers) > 1:
            half = len(numbers) // 2
            parts = numbers[:half], numbers[half:]
            return [
                result for part in parts for result in work_through(engine, program, part, store)
            ]
    try:
        return engine.work(numbers)
    except _ENDED as fault:
        _require_processes(engine, program)
        detail = f"Two processes ended while they worked on it: it {fault}."
        rejection = Rejection(stage=program.stage, reason=ENDS_ITS_PROCESS, detail=detail)
        return [program.refused(one, rejection) for one in entities_numbered(store, numbers)]


def _require_processes(engine: Engine, program: Program[Any]) -> None:
    try:
        engine.work(())
    except _ENDED as fault:
        instead = 'parallel="thread"' if program.engine else "LOUPE_ENGINE=threads"
        raise ServiceError(
            f"worker processes for {program.stage} end before they get any input: the last "
            f"one {fault}; nothing was rejected. {instead} works without them"
        ) from fault
