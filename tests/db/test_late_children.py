"""Entities derived from withdrawn ones are stored as withdrawn by the same withdrawal."""

from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

import pytest

from loupe.db.entities import (
    ActivityRecord,
    AgentRef,
    NewDecision,
    NewEntity,
    WorkResult,
    find,
    new_entity,
)
from loupe.db.store import Store
from loupe.db.withdrawal_graph import WithdrawalTarget
from loupe.db.withdrawals import (
    StoredWithdrawal,
    WithdrawalRequest,
    find_withdrawal,
    finish,
    key_of,
    record_withdrawal,
    withdraw_entities,
    withdrawn_entities,
)
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Rewrite
from tests.db.samples import store_entities

OPERATOR = AgentRef("person", "operator")
DATASET = "late"


def caption(text: str, *parents: tuple[Role, str]) -> NewEntity:
    record = Caption(source="s", text=text, position=1, author="a")
    return new_entity(record, DATASET, parents=list(parents))


def rewrite(text: str, *parents: tuple[Role, str]) -> NewEntity:
    record = Rewrite(source="s", text=text, author="m@1")
    return new_entity(record, DATASET, parents=list(parents))


def withdraw(store: Store, *ids: str) -> StoredWithdrawal:
    """Record a withdrawal and finish all its steps."""
    target = WithdrawalTarget(sort="entity", name=ids[0])
    request = WithdrawalRequest(target, "privacy", erases=True)
    output: dict[str, Any] = {"patches": []}
    key = key_of(request, 0)
    recorded = record_withdrawal(store, key, request, "r", OPERATOR, details=output, entities=ids)
    assert finish(store, recorded.id, len(ids))
    return find_withdrawal(store, recorded.key)


def states(store: Store) -> dict[str, str]:
    found = [*find(store, DATASET, "caption"), *find(store, DATASET, "rewrite")]
    return {one.id: one.state for one in found}


@pytest.fixture
def parent(store: Store) -> NewEntity:
    entity = caption("first")
    store_entities(store, [entity])
    return entity


def test_descendants_are_withdrawn_in_any_order_of_storing(store: Store, parent: NewEntity) -> None:
    withdrawal = withdraw(store, parent.id)
    child = rewrite("child", (Role.REWRITE_OF, parent.id))
    grandchild = rewrite("grandchild", (Role.EDITED_FROM, child.id))
    other = caption("another", (Role.PROMPTED_BY, parent.id))
    plan = register_plan(store, "run", "1", {})
    activity = ActivityRecord(plan, DATASET, "code", "run", datetime.now(UTC))
    accepted = NewDecision(child.id, "accept", OPERATOR)
    commit_chunk(store, activity, [WorkResult(1, (grandchild, child, other), (accepted,))])
    found = states(store)
    assert [found[one.id] for one in (parent, child, grandchild)] == ["withdrawn"] * 3
    assert found[other.id] == "proposed"
    assert withdrawn_entities(store, withdrawal.id) == sorted((parent.id, child.id, grandchild.id))
    assert withdrawal.is_finished
    assert not find_withdrawal(store, withdrawal.key).is_finished


def test_a_child_belongs_to_the_withdrawals_of_all_its_parents(
    store: Store, parent: NewEntity
) -> None:
    first = withdraw(store, parent.id)
    other = caption("another")
    store_entities(store, [other, rewrite("child", (Role.REWRITE_OF, other.id))])
    assert find_withdrawal(store, first.key) == first
    assert withdrawn_entities(store, first.id) == [parent.id]
    second_parent = caption("second")
    store_entities(store, [second_parent])
    second = withdraw(store, second_parent.id)
    child = rewrite("child", (Role.REWRITE_OF, parent.id), (Role.REVISED_FROM, second_parent.id))
    store_entities(store, [child])
    assert all(child.id in withdrawn_entities(store, one.id) for one in (first, second))


@pytest.mark.usefixtures("database_url")
def test_a_withdrawal_is_not_finished_while_a_derived_entity_is_stored(
    store: Store, parent: NewEntity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the last step ends, the chunk has stored the derived entity but not committed it."""
    withdrawal = withdraw(store, parent.id)
    added, finishing = Event(), Event()

    def add(*arguments: Any) -> None:
        withdraw_entities(*arguments)
        added.set()
        assert finishing.wait(300)

    monkeypatch.setattr("loupe.db.withdrawals.withdraw_entities", add)
    child = rewrite("child", (Role.REWRITE_OF, parent.id))
    thread = Thread(target=store_entities, args=(store, [child]))
    thread.start()
    assert added.wait(300)
    output: list[bool] = []
    last = Thread(target=lambda: output.append(finish(store, withdrawal.id, 1)))
    last.start()
    finishing.set()
    thread.join()
    last.join()
    assert output == [False]
    assert not find_withdrawal(store, withdrawal.key).is_finished
