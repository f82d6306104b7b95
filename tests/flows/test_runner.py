"""The stage runner: results do not depend on chunks, and none is lost or duplicated."""

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from loupe.db.entities import StoredEntity, WorkResult, find, new_entity
from loupe.db.store import Store
from loupe.db.tables import Claim, Entity, Work
from loupe.db.work import Pending, claim_chunk, count_pending, drop_rejections, register_plan
from loupe.flows.engine.context import RunContext, sync_active
from loupe.flows.engine.report import Deferred, StageReport, StageResult
from loupe.flows.engine.runner import Stage, run_stage, run_stream
from loupe.schemas.errors import ServiceError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rejection, Rewrite
from tests.db.samples import DATASET, caption, hand_over_claims, row_count, store_entities
from tests.flows.runs import context_of

CAPTIONS = Pending(DATASET, "caption", ("proposed",))
STAGE = Stage("rewrite", "1", DATASET, {"model": "m"}, chunk_size=2)


def fill(store: Store, count: int = 5) -> None:
    store_entities(store, [caption(number) for number in range(count)])


@pytest.fixture
def context(sqlite_store: Store, tmp_path: Path) -> RunContext:
    """A run over five captions."""
    fill(sqlite_store)
    return context_of(sqlite_store, tmp_path)


@pytest.fixture
def either_context(store: Store, tmp_path: Path) -> RunContext:
    """A run over five captions, on either database: for runs that meet."""
    fill(store)
    return context_of(store, tmp_path)


def upper_case(captions: Sequence[StoredEntity]) -> list[StageResult]:
    """Reject every third caption and put the others in capitals."""
    return [_upper_case_one(one) for one in captions]


def _upper_case_one(one: StoredEntity) -> WorkResult:
    text = one.record(Caption).text
    if int(text.rsplit(" ", 1)[1]) % 3 == 2:
        return WorkResult(one.seq, rejection=Rejection(stage="x", reason="third", detail=text))
    record = Rewrite(source="test", text=text.upper(), author="m@1")
    return WorkResult(one.seq, (new_entity(record, DATASET, parents=[(Role.REWRITE_OF, one.id)]),))


def rewrites(store: Store) -> list[str]:
    return sorted(one.id for one in find(store, DATASET, "rewrite"))


def test_every_input_gets_one_result(context: RunContext) -> None:
    report = run_stage(context, STAGE, CAPTIONS, upper_case)
    assert (report.done, dict(report.rejected), dict(report.deferred)) == (4, {"third": 1}, {})
    texts = [one.record(Rewrite).text for one in find(context.store, DATASET, "rewrite")]
    assert sorted(texts) == [f"A PERSON IN COAT {number}" for number in (0, 1, 3, 4)]
    assert row_count(context.store, Claim) == 0


def test_a_second_run_does_no_work(context: RunContext) -> None:
    run_stage(context, STAGE, CAPTIONS, upper_case)
    before = rewrites(context.store)

    def refuse(_: Sequence[StoredEntity]) -> list[StageResult]:
        raise AssertionError("there is nothing to work on")

    assert run_stage(context, STAGE, CAPTIONS, refuse).finished == 0
    assert rewrites(context.store) == before


def test_a_different_configuration_is_different_work(context: RunContext) -> None:
    run_stage(context, STAGE, CAPTIONS, upper_case)
    other = replace(STAGE, configuration={"model": "other"})
    assert run_stage(context, other, CAPTIONS, upper_case).finished == 5


def run_on_copy(template: Path, folder: Path, chunk_size: int, workers: int) -> list[str]:
    folder.mkdir()
    shutil.copy(template, folder / "loupe.db")
    store = Store.open(f"sqlite:///{folder / 'loupe.db'}")
    fill(store, 9)
    stage = replace(STAGE, chunk_size=chunk_size, workers=workers)
    report = run_stage(context_of(store, folder), stage, CAPTIONS, upper_case)
    assert (report.done, report.rejected.total()) == (6, 3)
    results = rewrites(store)
    store.close()
    return results


def test_results_do_not_depend_on_chunk_size_or_workers(
    migrated_sqlite: Path, tmp_path: Path
) -> None:
    expected = run_on_copy(migrated_sqlite, tmp_path / "expected", 1, 1)
    for chunk_size, workers in ((2, 4), (5, 2), (12, 3)):
        folder = tmp_path / f"{chunk_size}-{workers}"
        found = run_on_copy(migrated_sqlite, folder, chunk_size, workers)
        assert found == expected, (chunk_size, workers)


def waiting_event(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set once a run waits for chunks in flight."""
    waits, wait_for_more = threading.Event(), StageReport.wait_for_more

    def notified(report: StageReport, seconds: float) -> None:
        waits.set()
        wait_for_more(report, seconds)

    monkeypatch.setattr(StageReport, "wait_for_more", notified)
    return waits


def test_a_deferred_input_stays_pending(context: RunContext) -> None:
    def defer_the_first(captions: Sequence[StoredEntity]) -> list[StageResult]:
        return [
            Deferred(one.seq, "timeout") if one.seq == 1 else WorkResult(one.seq)
            for one in captions
        ]

    report = run_stage(context, STAGE, CAPTIONS, defer_the_first)
    assert (report.done, dict(report.deferred)) == (4, {"timeout": 1})
    assert pending(context) == 1
    assert run_stage(context, STAGE, CAPTIONS, upper_case).finished == 1


def pending(context: RunContext, stage: Stage = STAGE) -> int:
    plan_id = register_plan(context.store, stage.name, stage.version, stage.configuration)
    return count_pending(context.store, plan_id, CAPTIONS)


def test_a_chunk_deferred_as_a_whole_stops_the_stage(context: RunContext) -> None:
    tried: list[int] = []

    def defer(captions: Sequence[StoredEntity]) -> list[StageResult]:
        tried.extend(one.seq for one in captions)
        return [Deferred(one.seq, "unreachable") for one in captions]

    report = run_stage(context, replace(STAGE, workers=1, chunk_size=1), CAPTIONS, defer)
    assert report.stalled
    assert len(tried) < 5, "an unreachable server is not asked for every input"
    assert report.deferred.total() == len(tried)
    assert pending(context) == 5
    assert row_count(context.store, Claim) == 0


@pytest.mark.timeout(60)
def test_an_independent_input_that_is_deferred_is_tried_once_and_stops_nothing(
    context: RunContext,
) -> None:
    tried: list[int] = []

    def work(captions: Sequence[StoredEntity]) -> list[StageResult]:
        (one,) = captions
        assert one.seq not in tried, "it is left for another run"
        tried.append(one.seq)
        return [Deferred(one.seq, "unreachable") if len(tried) == 1 else _upper_case_one(one)]

    stage = replace(STAGE, chunk_size=1, workers=1, independent=True)
    report = run_stage(context, stage, CAPTIONS, work)
    assert (len(tried), report.finished, dict(report.deferred)) == (5, 4, {"unreachable": 1})


def test_a_disk_that_becomes_full_ends_the_stage_although_claims_cannot_be_returned(
    context: RunContext,
) -> None:
    """The claims do not count as those of a live run, and are gone once there is room."""
    is_full = threading.Event()
    is_started = threading.Barrier(2)

    def refuse_writes(connection: Connection) -> None:
        if is_full.is_set() and connection.get_execution_options().get("writes"):
            raise ServiceError("the disk is full")

    def fill_disk(captions: Sequence[StoredEntity]) -> list[StageResult]:
        is_started.wait()  # both chunks are claimed
        is_full.set()
        return upper_case(captions)

    event.listen(context.store.engine, "begin", refuse_writes)
    with pytest.raises(ServiceError, match="the disk is full"):
        run_stage(context, replace(STAGE, chunk_size=3), CAPTIONS, fill_disk)
    is_full.clear()
    assert run_stage(context, STAGE, CAPTIONS, upper_case).finished == 5
    assert row_count(context.store, Claim) == 0


def test_an_error_releases_all_claims_and_keeps_finished_work(context: RunContext) -> None:
    """With one worker, the next chunk is already claimed when the error is raised."""

    def fail_at_the_third(captions: Sequence[StoredEntity]) -> list[StageResult]:
        if any(one.seq == 3 for one in captions):
            raise ZeroDivisionError
        return upper_case(captions)

    stage = replace(STAGE, chunk_size=1, workers=1)
    with pytest.raises(ZeroDivisionError):
        run_stage(context, stage, CAPTIONS, fail_at_the_third)
    assert row_count(context.store, Claim) == 0
    left = pending(context)
    assert 1 <= left <= 3
    assert run_stage(context, stage, CAPTIONS, upper_case).finished == left


def test_a_stage_waits_for_its_other_chunks_before_it_raises(context: RunContext) -> None:
    started = threading.Event()

    def work(items: Sequence[tuple[int, str]]) -> list[StageResult]:
        if items[0][0] == 10:
            started.wait()
            raise ZeroDivisionError
        started.set()
        threading.Event().wait(0.05)
        return store_item(items)

    stage = Stage("import", "9", DATASET, {}, chunk_size=1)
    with pytest.raises(ZeroDivisionError):
        run_stream(context, stage, number_stream(10, 11), work)
    assert row_count(context.store, Entity) == 5 + 1


def test_one_chunk_is_prepared_while_all_threads_are_busy_and_the_rest_is_left_to_others(
    context: RunContext,
) -> None:
    claimed: list[int] = []

    def work(captions: Sequence[StoredEntity]) -> list[StageResult]:
        time.sleep(0.2)  # long enough to claim all of them
        claimed.append(row_count(context.store, Claim))
        return upper_case(captions)

    run_stage(context, replace(STAGE, chunk_size=1, workers=1), CAPTIONS, work)
    assert max(claimed) == 2
    assert len(claimed) == 5


def test_too_few_results_are_an_error(context: RunContext) -> None:
    """An input without a result would stay pending forever."""
    with pytest.raises(RuntimeError, match="rewrite gave 1 results for 2 inputs"):
        run_stage(context, STAGE, CAPTIONS, lambda captions: upper_case(captions)[:1])
    assert pending(context) == 5


def test_two_parallel_runs_share_the_work(either_context: RunContext) -> None:
    context, together = either_context, threading.Barrier(2)
    worked: list[int] = []

    def work(captions: Sequence[StoredEntity]) -> list[StageResult]:
        worked.extend(one.seq for one in captions)
        return upper_case(captions)

    def run(reports: list[StageReport]) -> None:
        together.wait()
        stage = replace(STAGE, chunk_size=1, workers=1)
        reports.append(run_stage(context, stage, CAPTIONS, work))

    reports: list[StageReport] = []
    threads = [threading.Thread(target=run, args=(reports,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(worked) == sorted(set(worked))
    assert sum(report.finished for report in reports) == 5
    assert row_count(context.store, Work) == 5 + 5, "imports and rewrites"
    assert len(rewrites(context.store)) == 4


def test_a_run_waits_for_the_chunks_of_another(
    either_context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage does not end while another process holds a claim on one of its inputs."""
    context = either_context
    plan_id = register_plan(context.store, STAGE.name, STAGE.version, STAGE.configuration)
    claim_chunk(context.store, plan_id, CAPTIONS, 2)
    waits = waiting_event(monkeypatch)
    hand_over_claims(context.store)

    def end_lease() -> None:
        waits.wait()
        context.store.claims.lease_seconds = 0

    thread = threading.Thread(target=end_lease)
    thread.start()
    report = run_stage(context, STAGE, CAPTIONS, upper_case)
    thread.join()
    assert report.finished == 5


def number_stream(*numbers: int) -> Iterator[tuple[int, str]]:
    return ((number, f"item {number}") for number in numbers)


def store_item(items: Sequence[tuple[int, str]]) -> list[StageResult]:
    return [WorkResult(number, (caption(number),)) for number, _ in items]


def test_a_stream_skips_finished_items(context: RunContext) -> None:
    stage = Stage("import", "9", DATASET, {}, chunk_size=2)
    first = run_stream(context, stage, number_stream(10, 11, 12), store_item)
    assert (first.done, first.already_done) == (3, 0)
    worked: list[int] = []

    def work(items: Sequence[tuple[int, str]]) -> list[StageResult]:
        worked.extend(number for number, _ in items)
        return store_item(items)

    again = run_stream(context, stage, number_stream(10, 11, 12, 13), work, total=4)
    assert (again.done, again.already_done, worked) == (1, 3, [13])
    assert row_count(context.store, Entity) == 5 + 4


def test_a_finished_fixed_stream_is_not_read_again(context: RunContext) -> None:
    stage = Stage("import", "9", DATASET, {}, chunk_size=2)
    refused = Rejection(stage="import", reason="bad_row", detail="it is bad")

    def store_one(items: Sequence[tuple[int, str]]) -> list[StageResult]:
        return [
            WorkResult(number, rejection=refused) if number == 11 else WorkResult(number)
            for number, _ in items
        ]

    def reading(*numbers: int) -> StageReport:
        return run_stream(context, stage, number_stream(*numbers), store_one, fixed=True)

    def unread() -> Iterator[tuple[int, str]]:
        raise AssertionError("the stream must not be read")
        yield

    with pytest.raises(AssertionError):
        run_stream(context, stage, unread(), store_one, fixed=True)
    assert reading(10, 11, 12).finished == 3
    again = run_stream(context, stage, unread(), store_one, fixed=True)
    assert (again.finished, again.already_done) == (0, 3)
    plan_id = register_plan(context.store, stage.name, stage.version, stage.configuration)
    drop_rejections(context.store, plan_id, [11])
    again = reading(10, 11, 12)
    assert (again.finished, again.already_done) == (1, 2)


def test_a_fixed_stream_with_deferred_items_is_read_again(context: RunContext) -> None:
    stage = Stage("import", "9", DATASET, {}, chunk_size=2)

    def defer_one(items: Sequence[tuple[int, str]]) -> list[StageResult]:
        return [
            Deferred(number, "away") if number == 11 else WorkResult(number) for number, _ in items
        ]

    run_stream(context, stage, number_stream(10, 11, 12), defer_one, fixed=True)
    again = run_stream(context, stage, number_stream(10, 11, 12), store_item, fixed=True)
    assert (again.finished, again.already_done) == (1, 2)


def test_a_stream_that_fails_keeps_the_items_before(context: RunContext) -> None:
    def breaking() -> Iterator[tuple[int, str]]:
        yield from number_stream(10, 11, 12)
        raise ZeroDivisionError

    stage = Stage("import", "9", DATASET, {}, chunk_size=1, workers=1)
    with pytest.raises(ZeroDivisionError):
        run_stream(context, stage, breaking(), store_item)
    again = run_stream(context, stage, number_stream(10, 11, 12), store_item)
    assert again.already_done + again.done == 3
    assert again.already_done >= 2


def test_entities_that_stay_active_do_not_wait_for_other_runs(context: RunContext) -> None:
    def is_active(one: StoredEntity) -> bool:
        return one.group != "image 3"

    sync_active(context, DATASET, Caption.kind, is_active)
    assert [one.state for one in find(context.store, DATASET, Caption.kind)].count("inactive") == 1
    other = Store.open(str(context.store.engine.url))
    with other.write():
        sync_active(context, DATASET, Caption.kind, is_active)
    other.close()
