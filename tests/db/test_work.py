"""Work: pending inputs, claimed chunks, and chunks that are committed completely or not at all."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from loupe.db.entities import NewDecision, WorkResult, entities_numbered, fetch
from loupe.db.store import Store, drop_claims
from loupe.db.tables import Activity, Association, Claim, Decision, Derivation, Entity, Work
from loupe.db.work import (
    ClaimedChunk,
    Pending,
    claim_chunk,
    commit_chunk,
    count_pending,
    count_plans,
    drop_rejections,
    live_claims,
    register_plan,
    rejections_of,
    worked_inputs,
)
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rejection
from tests.db.samples import (
    DATASET,
    SOFTWARE,
    activity_of,
    caption,
    hand_over_claims,
    row_count,
    store_entities,
)
from tests.separation import ended_place

CAPTIONS = Pending(DATASET, "caption", ("proposed",))


@pytest.fixture
def plan_id(store: Store) -> int:
    """A plan with ten captions to work on."""
    store_entities(store, [caption(number) for number in range(10)])
    return register_plan(store, "rewrite", "1", {"model": "m"})


def claim(store: Store, plan_id: int, size: int = 4, after: int = 0) -> ClaimedChunk:
    chunk = claim_chunk(store, plan_id, CAPTIONS, size, after)
    assert chunk is not None
    return chunk


def inputs(chunk: ClaimedChunk) -> set[int]:
    return set(chunk.inputs)


def commit(store: Store, plan_id: int, chunk: ClaimedChunk) -> None:
    results = [WorkResult(one) for one in chunk.inputs]
    commit_chunk(store, activity_of(plan_id), results, chunk.claim_id)


def test_equal_plans_are_registered_once(store: Store) -> None:
    first = register_plan(store, "rewrite", "1", {"a": 1, "b": 2})
    assert register_plan(store, "rewrite", "1", {"b": 2, "a": 1}) == first
    others = [("rewrite", "2", {"a": 1, "b": 2}), ("check", "1", {"a": 1, "b": 2})]
    assert first not in [register_plan(store, *other) for other in others]


def test_inputs_without_a_work_row_are_pending(store: Store, plan_id: int) -> None:
    assert count_pending(store, plan_id, CAPTIONS) == 10
    chunk = claim(store, plan_id)
    assert count_pending(store, plan_id, CAPTIONS) == 10, "claimed inputs are still pending"
    commit(store, plan_id, chunk)
    assert count_pending(store, plan_id, CAPTIONS) == 6
    assert worked_inputs(store, plan_id, range(100)) == inputs(chunk)
    other = register_plan(store, "rewrite", "1", {"model": "other"})
    assert count_pending(store, other, CAPTIONS) == 10
    assert count_pending(store, plan_id, Pending(DATASET, "caption", ("accepted",))) == 0
    assert count_pending(store, plan_id, Pending("elsewhere", "caption", ("proposed",))) == 0


@pytest.mark.usefixtures("database_url")
def test_chunks_claimed_concurrently_do_not_overlap(store: Store, plan_id: int) -> None:
    claimed: list[set[int]] = []

    def take_all() -> None:
        while chunk := claim_chunk(store, plan_id, CAPTIONS, 2):
            claimed.append(inputs(chunk))
            commit(store, plan_id, chunk)

    threads = [threading.Thread(target=take_all) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seq for chunk in claimed for seq in chunk) == sorted(set.union(*claimed))
    assert count_pending(store, plan_id, CAPTIONS) == 0
    assert row_count(store, Claim) == 0
    assert row_count(store, Work) == 10 + 10, "ten imports, ten rewrites"


def test_a_claim_is_respected_until_it_ends(store: Store, plan_id: int) -> None:
    theirs = claim(store, plan_id)
    hand_over_claims(store)
    rest = claim(store, plan_id, size=100)
    assert inputs(theirs) | inputs(rest) == {*theirs.inputs, *rest.inputs}
    assert not inputs(theirs) & inputs(rest)
    drop_claims(store, str(rest.claim_id))
    assert live_claims(store, plan_id, DATASET)

    store.claims.lease_seconds = 0
    assert inputs(claim(store, plan_id)) == inputs(theirs)


def test_a_chunk_is_claimed_again_if_released_or_its_process_died(
    store: Store, plan_id: int
) -> None:
    first = claim(store, plan_id)
    drop_claims(store, str(first.claim_id))
    assert not live_claims(store, plan_id, DATASET)
    assert inputs(claim(store, plan_id)) == inputs(first)
    hand_over_claims(store, ended_place())
    assert inputs(claim(store, plan_id)) == inputs(first)


def test_a_chunk_is_stored_with_its_entities_decisions_and_rejections(
    store: Store, plan_id: int
) -> None:
    one, two = entities_numbered(store, claim(store, plan_id, size=2).inputs)
    child = caption(100, [(Role.EDITED_FROM, one.id)])
    rejection = Rejection(stage="rewrite", reason="refusal", detail="It would not.")
    before = {table: row_count(store, table) for table in (Activity, Association)}
    commit_chunk(
        store,
        activity_of(plan_id),
        [
            WorkResult(one.seq, (child,), (NewDecision(one.id, "accept", SOFTWARE),)),
            WorkResult(two.seq, rejection=rejection),
        ],
    )
    assert fetch(store, [one.id])[one.id].state == "accepted"
    assert child.id in fetch(store, [child.id])
    assert row_count(store, Derivation) == 1
    assert {table: row_count(store, table) - count for table, count in before.items()} == {
        Activity: 1,
        Association: 1,
    }
    with store.read() as connection:
        query = select(Work.status, Work.reason, Work.rejection).where(Work.plan_id == plan_id)
        assert connection.execute(query.order_by(Work.input)).all() == [
            ("done", None, None),
            ("rejected", "refusal", rejection.model_dump_json()),
        ]


def test_a_chunk_with_one_invalid_row_is_not_stored(store: Store, plan_id: int) -> None:
    chunk = claim(store, plan_id, size=2)
    tables = (Activity, Entity, Work, Decision, Claim)
    before = {table: row_count(store, table) for table in tables}
    bad = NewDecision("0" * 32, "accept", SOFTWARE)
    results = [
        WorkResult(chunk.inputs[0], entities=(caption(100),)),
        WorkResult(chunk.inputs[1], decisions=(bad,)),
    ]
    with pytest.raises(DBAPIError):
        commit_chunk(store, activity_of(plan_id), results, chunk.claim_id)
    assert {table: row_count(store, table) for table in tables} == before


def test_an_input_finished_by_another_run_keeps_that_result(store: Store, plan_id: int) -> None:
    """The claim had ended, another run took the input over, and its model answered differently."""
    chunk = claim(store, plan_id, size=2)
    one, two = entities_numbered(store, chunk.inputs)
    theirs, ours, fresh = (caption(number, [(Role.EDITED_FROM, one.id)]) for number in (1, 2, 3))
    decision = NewDecision(one.id, "reject", SOFTWARE)
    commit_chunk(store, activity_of(plan_id), [WorkResult(one.seq, (theirs,))])
    late = [WorkResult(one.seq, (ours,), (decision,)), WorkResult(two.seq, (fresh,))]
    commit_chunk(store, activity_of(plan_id), late, chunk.claim_id)
    assert set(fetch(store, [theirs.id, ours.id, fresh.id])) == {theirs.id, fresh.id}
    assert row_count(store, Decision) == 0
    assert row_count(store, Claim) == 0


@pytest.mark.usefixtures("database_url")
def test_times_need_a_timezone_and_are_returned_in_utc(store: Store, plan_id: int) -> None:
    naive = activity_of(plan_id)._replace(started_at=datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(Exception, match="must name its zone"):
        commit_chunk(store, naive, [])
    commit(store, plan_id, claim(store, plan_id))
    with store.read() as connection:
        started = connection.execute(select(Activity.started_at)).scalars().first()
    assert started is not None
    assert started.tzinfo is UTC
    assert datetime.now(UTC) - started < timedelta(minutes=5)


REFUSED = Rejection(stage="try", reason="away", detail="nobody there", context={"pictures": []})


def plan_of(store: Store, hour: int, stage: str = "try") -> int:
    return register_plan(store, stage, "1", {"hour": hour})


def test_attempts_are_counted_by_plans_of_a_stage(store: Store) -> None:
    for hour, inputs in enumerate(([1, 2], [1], [1, 3])):
        plan = plan_of(store, hour)
        for _ in range(2):  # a second attempt within the hour is not counted
            commit_chunk(store, activity_of(plan), [WorkResult(one) for one in inputs])
    other = plan_of(store, 0, stage="another")
    commit_chunk(store, activity_of(other), [WorkResult(2)])
    assert count_plans(store, "try", range(1, 2000)) == {1: 3, 2: 1, 3: 1}
    assert count_plans(store, "never", [1]) == {}


def test_inputs_are_pending_once_their_rejections_are_dropped(store: Store) -> None:
    plan, other = plan_of(store, 0), plan_of(store, 1)
    done = [WorkResult(1), WorkResult(2, rejection=REFUSED), WorkResult(3, rejection=REFUSED)]
    for one in (plan, other):
        commit_chunk(store, activity_of(one), done)
    assert rejections_of(store, plan, range(1, 2000)) == {2: REFUSED, 3: REFUSED}
    assert drop_rejections(store, plan, [1, 2]) == 1
    assert worked_inputs(store, plan, [1, 2, 3]) == {1, 3}, "finished inputs stay finished"
    assert worked_inputs(store, other, [1, 2, 3]) == {1, 2, 3}
