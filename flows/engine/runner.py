"""The stage runner: divides pending inputs into chunks, runs the stage and commits each chunk."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

from loupe.db.entities import (
    AgentRef,
    NewEntity,
    StoredEntity,
    WorkResult,
    entities_numbered,
    new_entity,
)
from loupe.db.store import claimed, drop_claims, pauses
from loupe.db.work import (
    ClaimedChunk,
    Mark,
    Pending,
    claim_chunk,
    commit_chunk,
    count_pending,
    count_plans,
    finish_stream,
    live_claims,
    low_water,
    register_plan,
    stream_mark,
    worked_inputs,
)
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.engines import open_engine, work_through
from loupe.flows.engine.programs import Program
from loupe.flows.engine.report import StageReport, StageResult
from loupe.schemas.base import EntityRecord
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rejection
from loupe.schemas.video import StageSettings


@contextmanager
def sole_run(context: RunContext, dataset: str, work: str) -> Iterator[None]:
    """Prevent other runs from doing `work` on the dataset at the same time; wait if one does.

    Use it for a computation that cannot be divided into chunks.
    """
    subject = f"{work} of {dataset}"
    message = f"another run is working on {subject}; waiting for it"
    with claimed(context.store, subject, lambda: context.progress.say(message)):
        yield


VERSION = "1"


def get_or_create_entity(
    context: RunContext,
    record: EntityRecord,
    dataset: str,
    parents: Sequence[tuple[Role, str]] = (),
) -> NewEntity:
    """Return `record` as an entity of `dataset`, stored if it is missing, outside any chunk."""
    entity = new_entity(record, dataset, parents=parents)
    configuration = {"dataset": dataset, "id": entity.id}
    plan_id = register_plan(context.store, f"register_{record.kind}", VERSION, configuration)
    if worked_inputs(context.store, plan_id, [0]):
        return entity
    activity = context.activity(plan_id, dataset)
    commit_chunk(context.store, activity, [WorkResult(0, entities=(entity,))])
    return entity


def store_settings(
    context: RunContext, dataset: str, stage: str, version: str, values: dict[str, Any]
) -> NewEntity:
    """Return the settings of a stage as an entity of `dataset`, stored if it is missing."""
    record = StageSettings(stage=stage, version=version, values=values)
    return get_or_create_entity(context, record, dataset)


# A chunk's entities, derivations, decisions and work rows are one transaction: a killed run loses
# at most the chunks in flight, and the next run continues with inputs without a work row.

_MANY_CHUNKS = 1000
_MOST_INPUTS = 2000
_CHUNKS_OF_PROGRAM = 16
_MOST_SECONDS = 4.0  # of processor time of a program
T = TypeVar("T")


@dataclass(frozen=True)
class Stage:
    """A stage, as the runner needs it.

    `configuration` contains everything that determines the results besides the input; it is part of
    the key of the work. `chunk_size` is the minimum number of inputs in a chunk. With many inputs,
    chunks grow: to at most 2,000 inputs, or to four seconds of a program.

    `independent` is for inputs that take long and fail independently, such as videos: chunks do not
    grow, and a deferred input is not retried in this run and does not stop the stage.
    """

    name: str
    version: str
    dataset: str
    configuration: dict[str, Any]
    agents: tuple[AgentRef, ...] = ()
    chunk_size: int = 200
    workers: int = 2
    independent: bool = False
    label: str = ""

    @property
    def title(self) -> str:
        """The name shown in progress."""
        return self.label or self.name


Work = Callable[[Sequence[T]], Sequence[StageResult]]
"""Returns one result per input, in order. Deferred inputs stay pending and are reported."""


def run_stage(
    context: RunContext,
    stage: Stage,
    pending: Pending,
    work: Work[StoredEntity] | Program[Any],
) -> StageReport:
    """Run `work` over all pending entities, shared with concurrent runs."""
    plan_id = register_plan(context.store, stage.name, stage.version, stage.configuration)
    total = count_pending(context.store, plan_id, pending)
    grown = min(total // _MANY_CHUNKS, _MOST_INPUTS)
    if isinstance(work, Program):
        grown = min(total // _CHUNKS_OF_PROGRAM, int(_MOST_SECONDS / work.seconds))
    size = stage.chunk_size if stage.independent else max(stage.chunk_size, grown)

    def chunks(report: StageReport) -> Iterator[ClaimedChunk]:
        waiting = pauses()
        while total and not report.stalled:
            before, claimed = report.finished, 0
            # Queried before claiming, so that the claims include inputs that others release from
            # here on.
            in_flight = live_claims(context.store, plan_id, pending.dataset)
            after = low_water(context.store, plan_id, pending)
            while not report.stalled:
                passed_over = report.left if stage.independent else ()
                chunk = claim_chunk(context.store, plan_id, pending, size, after, passed_over)
                if chunk is None:
                    break
                after = chunk.inputs[-1]
                claimed += 1
                yield chunk
            if report.finished > before:
                waiting = pauses()
            elif in_flight or claimed or live_claims(context.store, plan_id, pending.dataset):
                with context.progress.waits.on(report.waits_elsewhere):
                    report.wait_for_more(next(waiting))
            else:
                return

    opened = _opened(context, stage, work, total)
    return _run(context, stage, plan_id, total, chunks, opened)


def run_stream(
    context: RunContext,
    stage: Stage,
    items: Iterable[tuple[int, T]],
    work: Work[tuple[int, T]] | Program[Any],
    total: int | None = None,
    *,
    fixed: bool = False,
) -> StageReport:
    """Run `work` over numbered items that are not entities yet: an import or a draw.

    Items that were processed under the plan before are skipped; the numbers must be the same every
    time. If the plan determines the items (`fixed`), they are not read again after all are
    processed.

    The numbers of the items of a program are those of entities, from which it makes its own.
    """
    plan_id = register_plan(context.store, stage.name, stage.version, stage.configuration)
    mark = stream_mark(context.store, plan_id) if fixed else Mark()
    if mark.seq:
        items, total = (), mark.seq
    read = 0

    def chunks(report: StageReport) -> Iterator[ClaimedChunk]:
        nonlocal read
        report.already_done = mark.seq
        remaining = iter(items)
        while not report.stalled and (chunk := list(islice(remaining, stage.chunk_size))):
            done = worked_inputs(context.store, plan_id, [number for number, _ in chunk])
            read += len(chunk)
            report.already_done += len(done)
            if done:
                context.progress.advance(stage.title, len(done))
            if new := [item for item in chunk if item[0] not in done]:
                yield ClaimedChunk(None, new)

    opened = _opened_stream(context, stage, work, total)
    report = _run(context, stage, plan_id, total, chunks, opened)
    if fixed and read and report.already_done + report.finished == read:
        finish_stream(context.store, plan_id, mark._replace(seq=read))
    return report


def run_each(
    context: RunContext,
    stage: Stage,
    items: Collection[tuple[int, T]],
    result: Callable[[int, T], StageResult],
) -> StageReport:
    """Run `run_stream` with work that takes a single item: its number and the item."""

    def work(chunk: Sequence[tuple[int, T]]) -> list[StageResult]:
        return [result(number, item) for number, item in chunk]

    return run_stream(context, stage, items, work, total=len(items))


def quarantine(
    context: RunContext, stage: Stage, refused: Sequence[tuple[int, Rejection]]
) -> StageReport:
    """Store numbered rejections of items that are not inputs of a stage."""
    return run_each(context, stage, refused, lambda number, one: WorkResult(number, rejection=one))


def count_attempts(
    context: RunContext, dataset: str, stage: str, period: str, inputs: Sequence[int]
) -> dict[int, int]:
    """Store that these inputs failed in a period; return in how many periods each has failed."""
    if not inputs:
        return {}
    plan_id = register_plan(context.store, stage, VERSION, {"period": period})
    results = [WorkResult(one) for one in inputs]
    commit_chunk(context.store, context.activity(plan_id, dataset), results)
    return count_plans(context.store, stage, inputs)


def worked_items(context: RunContext, stage: Stage, numbers: Sequence[int]) -> set[int]:
    """Return the numbered items that `run_stream` would skip, which need no preparation."""
    plan_id = register_plan(context.store, stage.name, stage.version, stage.configuration)
    return worked_inputs(context.store, plan_id, numbers)


def _run(
    context: RunContext,
    stage: Stage,
    plan_id: int,
    total: int | None,
    chunks: Callable[[StageReport], Iterator[ClaimedChunk]],
    opened: AbstractContextManager[tuple[Work[Any], int]],
) -> StageReport:
    """Run every chunk on the stage's threads; a chunk that fails or finds no thread is released.

    While all threads are busy, one more chunk is prepared. The first error is raised after the
    other chunks have ended, as later errors mostly follow from it.
    """
    report = StageReport(stage.title, may_stall=not stage.independent, plan_id=plan_id)

    def process(chunk: ClaimedChunk, function: Work[Any]) -> None:
        started_at = datetime.now(UTC)
        with _given_back(context, chunk):
            results = function(chunk.inputs)
            if len(results) != len(chunk.inputs):
                raise RuntimeError(
                    f"stage {stage.name} gave {len(results)} results for {len(chunk.inputs)} inputs"
                )
            report.add(results)  # before others may claim deferred inputs
            finished = [result for result in results if isinstance(result, WorkResult)]
            activity = context.activity(plan_id, stage.dataset, started_at, *stage.agents)
            commit_chunk(context.store, activity, finished, chunk.claim_id)
        context.progress.advance(stage.title, len(finished))

    def run() -> StageReport:
        with (
            context.progress.shown(report, total),
            context.store.claims.renewed(),
            opened as (function, threads),
            ThreadPoolExecutor(threads, thread_name_prefix=stage.title) as pool,
            context.stopped_by_interruption(),
        ):
            running: set[Future[None]] = set()
            for chunk in chunks(report):
                with _given_back(context, chunk):
                    running = _wait_for(running, threads - 1)
                    context.budget.stop.check()
                    report.begin()
                    future = pool.submit(copy_context().run, process, chunk, function)
                    future.add_done_callback(report.end_wait)
                    running.add(future)
            _wait_for(running, 0)
            context.budget.stop.check()
        return report

    return context.as_task(stage.title, run)


def _wait_for(running: set[Future[None]], most: int) -> set[Future[None]]:
    """Wait until at most so many futures are left, and return them; raise the first error."""
    while True:
        timeout = 0 if len(running) <= most else None
        done, running = wait(running, timeout, FIRST_COMPLETED)
        for one in done:
            one.result()
        if len(running) <= most:
            return running


@contextmanager
def _opened(
    context: RunContext, stage: Stage, work: Work[StoredEntity] | Program[Any], total: int
) -> Iterator[tuple[Work[int], int]]:
    """Yield the function that computes the results of numbered inputs, and the count of threads."""
    store = context.store
    if isinstance(work, Program):
        with open_engine(context.settings, work, total, store) as engine:
            yield lambda numbers: work_through(engine, work, numbers, store), engine.threads
    else:
        yield lambda numbers: work(entities_numbered(store, numbers)), stage.workers


@contextmanager
def _opened_stream(
    context: RunContext,
    stage: Stage,
    work: Work[tuple[int, T]] | Program[Any],
    total: int | None,
) -> Iterator[tuple[Work[tuple[int, T]], int]]:
    if not isinstance(work, Program):
        yield work, stage.workers
        return
    with _opened(context, stage, work, total or 0) as (function, threads):
        yield lambda items: function([number for number, _ in items]), threads


@contextmanager
def _given_back(context: RunContext, chunk: ClaimedChunk) -> Iterator[None]:
    """Release the claim of `chunk` if the block fails, as it would otherwise be renewed forever."""
    try:
        yield
    except BaseException:
        if chunk.claim_id is not None:
            drop_claims(context.store, chunk.claim_id)
        raise
