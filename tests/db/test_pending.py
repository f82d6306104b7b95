"""The low-water mark skips finished inputs and still finds inputs that are reopened."""

import threading
from collections.abc import Sequence

import pytest

from loupe.db.decisions import append_decisions, set_active
from loupe.db.entities import NewDecision, StoredEntity, Verdict, WorkResult, find
from loupe.db.store import Store
from loupe.db.tables import LowWaterMark
from loupe.db.work import (
    ParentFilter,
    Pending,
    claim_chunk,
    commit_chunk,
    count_pending,
    drop_rejections,
    low_water,
    register_plan,
    store_activity,
)
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rejection
from tests.db.samples import DATASET, SOFTWARE, activity_of, caption, row_count, store_entities

CAPTIONS = Pending(DATASET, "caption", ("proposed",))
MANY = 600
"""More finished inputs than one query may skip before it moves the mark."""


def finished_plan(store: Store, *left: int) -> int:
    """Return a plan that has finished all captions but those in `left`; the mark is moved."""
    store_entities(store, [caption(number) for number in range(MANY)])
    plan_id = register_plan(store, "rewrite", "1", {})
    done = [one for number, one in enumerate(captions(store)) if number not in left]
    work_on(store, plan_id, done)
    low_water(store, plan_id, CAPTIONS)
    return plan_id


def captions(store: Store) -> list[StoredEntity]:
    return list(find(store, DATASET, "caption"))


def work_on(store: Store, plan_id: int, inputs: Sequence[StoredEntity]) -> None:
    commit_chunk(store, activity_of(plan_id), [WorkResult(one.seq) for one in inputs])


def decide(store: Store, verdict: Verdict, *entities: StoredEntity) -> None:
    with store.write() as connection:
        decisions = [NewDecision(one.id, verdict, SOFTWARE, "said") for one in entities]
        append_decisions(connection, decisions)


def claimed(store: Store, plan_id: int, pending: Pending = CAPTIONS) -> list[int]:
    """Return the inputs of the next chunk, found as the stage runner finds them."""
    chunk = claim_chunk(store, plan_id, pending, 10, low_water(store, plan_id, pending))
    return list(chunk.inputs) if chunk else []


def test_the_search_for_inputs_starts_after_the_finished_ones(store: Store) -> None:
    plan_id = finished_plan(store)
    assert row_count(store, LowWaterMark) == 1
    assert low_water(store, plan_id, CAPTIONS) >= max(one.seq for one in captions(store))
    assert claimed(store, plan_id) == []
    store_entities(store, [caption(MANY)])
    assert claimed(store, plan_id) == [captions(store)[-1].seq]


def test_the_mark_stays_below_unfinished_inputs(store: Store) -> None:
    plan_id = finished_plan(store, 550, 590)
    left = [captions(store)[number].seq for number in (550, 590)]
    assert low_water(store, plan_id, CAPTIONS) == left[0] - 1
    assert claimed(store, plan_id) == left
    assert count_pending(store, plan_id, CAPTIONS) == 2, "claimed inputs are still pending"


def test_other_plans_and_kinds_of_input_have_their_own_mark(store: Store) -> None:
    finished_plan(store)
    other = register_plan(store, "rewrite", "2", {})
    assert count_pending(store, other, CAPTIONS) == MANY
    accepted = CAPTIONS._replace(states=("proposed", "accepted"))
    assert count_pending(store, other, accepted) == MANY


def test_a_reopened_input_is_found(store: Store) -> None:
    """The number of decisions before and after does not matter."""
    plan_id = finished_plan(store, 7)
    skipped, others = captions(store)[7], captions(store)[8:]
    decide(store, "reject", skipped)
    assert claimed(store, plan_id) == []
    decide(store, "accept", *others)
    assert claimed(store, plan_id) == []
    decide(store, "reopen", skipped)
    decide(store, "reject", *others)
    assert claimed(store, plan_id) == [skipped.seq]


@pytest.mark.parametrize("is_decision", [True, False])
def test_the_first_change_after_the_mark_counts(sqlite_store: Store, is_decision: bool) -> None:
    store = sqlite_store
    plan_id = finished_plan(store, 7)
    skipped, *others = captions(store)[7:]

    def change(verdict: Verdict, is_active: bool) -> None:
        if is_decision:
            decide(store, verdict, skipped)
        else:
            set_active(store, [skipped.id], SOFTWARE, active=is_active)

    decide(store, "reject", *others[:3])  # decisions and activations have numbers of their own
    change("reject", is_active=False)
    assert low_water(store, plan_id, CAPTIONS) > skipped.seq
    change("reopen", is_active=True)
    assert claimed(store, plan_id) == [skipped.seq]


def test_a_reactivated_input_is_found(store: Store) -> None:
    plan_id = finished_plan(store, 7)
    skipped = captions(store)[7]
    set_active(store, [skipped.id], SOFTWARE, active=False)
    assert claimed(store, plan_id) == []
    set_active(store, [skipped.id], SOFTWARE, active=True)
    assert claimed(store, plan_id) == [skipped.seq]


@pytest.mark.usefixtures("database_url")
def test_an_input_with_a_reopened_parent_is_found(store: Store) -> None:
    order = caption(MANY)
    hits = [caption(number, parents=[(Role.FOUND_FOR, order.id)]) for number in range(MANY)]
    store_entities(store, [order, *hits])
    wanted = CAPTIONS._replace(parent=ParentFilter(Role.FOUND_FOR, ("proposed",)))
    plan_id = register_plan(store, "look at", "1", {})
    stored = {one.id: one for one in captions(store)}
    work_on(store, plan_id, [stored[one.id] for one in hits[1:]])
    decide(store, "reject", stored[order.id])
    low_water(store, plan_id, wanted)
    assert claimed(store, plan_id, wanted) == []
    decide(store, "reopen", stored[order.id])
    assert claimed(store, plan_id, wanted) == [stored[hits[0].id].seq]


def test_an_input_is_found_after_its_rejection_is_dropped(store: Store) -> None:
    plan_id = finished_plan(store, 7)
    refused = captions(store)[7].seq
    rejection = Rejection(stage="rewrite", reason="away", detail="nobody there")
    commit_chunk(store, activity_of(plan_id), [WorkResult(refused, rejection=rejection)])
    low_water(store, plan_id, CAPTIONS)
    drop_rejections(store, plan_id, [refused])
    assert claimed(store, plan_id) == [refused]


@pytest.mark.postgres
def test_an_entity_committed_late_with_a_lower_number_is_found(postgres_store: Store) -> None:
    """PostgreSQL assigns sequence numbers before their rows become visible."""
    store, late = postgres_store, caption(2 * MANY)
    plan_id = finished_plan(store)
    look = threading.Thread(target=low_water, args=(store, plan_id, CAPTIONS))
    with store.write() as connection:
        store_activity(connection, activity_of(plan_id), [late])
        store_entities(store, [caption(MANY + number) for number in range(MANY)])
        work_on(store, plan_id, captions(store)[MANY:])
        look.start()
        look.join(0.3)
        assert look.is_alive(), "it waits for the transaction before it moves the mark"
    look.join(300)
    [seq] = [one.seq for one in captions(store) if one.id == late.id]
    assert claimed(store, plan_id) == [seq]
    assert seq < captions(store)[-1].seq
