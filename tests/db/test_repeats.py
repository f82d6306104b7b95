"""Counts of attempts, dropped rejections, and inputs selected by the state of a parent."""

from db.decisions import append_decisions
from db.entities import NewDecision, Verdict, WorkResult, find
from db.store import Store
from db.work import (
    ParentFilter,
    Pending,
    commit_chunk,
    count_pending,
    count_plans,
    drop_rejections,
    register_plan,
    rejections_of,
    worked_inputs,
)
from schemas.provenance import Role
from schemas.records import Rejection
from tests.db.samples import DATASET, SOFTWARE, activity_of, caption, store_entities

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


def test_pending_inputs_can_be_limited_by_the_state_of_a_parent(store: Store) -> None:
    orders = [caption(number) for number in range(2)]
    hits = [caption(10 + at, parents=[(Role.FOUND_FOR, one.id)]) for at, one in enumerate(orders)]
    hits.append(caption(20, parents=[(Role.CONSIDERED_FOR, orders[0].id)]))
    store_entities(store, [*orders, *hits])
    wanted = Pending(
        DATASET, "caption", ("proposed",), beneath=ParentFilter(Role.FOUND_FOR, ("proposed",))
    )
    plan = plan_of(store, 0)
    assert count_pending(store, plan, wanted) == 2
    verdicts: tuple[Verdict, ...] = ("reject", "accept")
    for verdict in verdicts:
        with store.write() as connection:
            decision = NewDecision(orders[0].id, verdict, SOFTWARE, "said")
            append_decisions(connection, [decision])
        assert count_pending(store, plan, wanted) == 1, verdict
    own = [one.seq for one in find(store, DATASET, "caption") if one.id == hits[1].id]
    commit_chunk(store, activity_of(plan), [WorkResult(one) for one in own])
    assert count_pending(store, plan, wanted) == 0
