"""Views of an earlier state of the store: what they show, and that they leave nothing behind."""

import threading
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import InternalError

from loupe.db.decisions import append_decisions, fold, set_active
from loupe.db.entities import (
    ActivityRecord,
    AgentRef,
    NewDecision,
    Verdict,
    WorkResult,
    new_entity,
    register_agents,
)
from loupe.db.release_rows import snapshot
from loupe.db.releases import StateMark, StoreVersion, current_mark, mark_after
from loupe.db.store import Store
from loupe.db.tables import (
    Activity,
    Decision,
    Derivation,
    Entity,
    Plan,
    Withdrawal,
    WithdrawnEntity,
)
from loupe.db.work import commit_chunk, register_plan
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption

DATASET = "walks"
PERSON = AgentRef("person", "annotator-1")


def add(store: Store, number: int, parents: Sequence[tuple[Role, str]] = ()) -> str:
    """Store a new caption."""
    record = Caption(source="x", text=f"Text {number}.", position=0)
    entity = new_entity(record, DATASET, parents=parents)
    activity = ActivityRecord(
        register_plan(store, "test", "1", {}), DATASET, "revision", "run", datetime.now(UTC)
    )
    commit_chunk(store, activity, [WorkResult(number, (entity,))])
    return entity.id


def decide(store: Store, entity: str, verdict: str) -> None:
    with store.write() as connection:
        append_decisions(connection, [NewDecision(entity, cast("Verdict", verdict), PERSON)])


def withdraw(store: Store, *entities: str) -> None:
    """Store a finished withdrawal with its entities and decisions."""
    with store.write() as connection:
        register_agents(connection, [PERSON])
        row = {
            "key": entities[0],
            "target": {},
            "ground": "privacy",
            "reason": "asked",
            "erases": True,
            "agent_id": PERSON.id,
            "state": "finished",
            "confirmed_at": datetime.now(UTC),
        }
        withdrawal_id = connection.execute(
            insert(Withdrawal).returning(Withdrawal.id), row
        ).scalar_one()
        taken = [{"withdrawal_id": withdrawal_id, "entity_id": entity} for entity in entities]
        connection.execute(insert(WithdrawnEntity), taken)
        append_decisions(connection, [NewDecision(one, "withdraw", PERSON) for one in entities])


def states(connection: Connection) -> dict[str, str]:
    query = select(Entity.id, Entity.state)
    return {row.id: row.state for row in connection.execute(query)}


def mark_of(store: Store) -> StateMark:
    with snapshot(store) as connection:
        return current_mark(connection)


def states_then(store: Store, mark: StateMark, *, then_withdrawn: bool = False) -> dict[str, str]:
    with snapshot(store, StoreVersion(mark, then_withdrawn)) as connection:
        return states(connection)


@pytest.mark.usefixtures("database_url")
def test_later_changes_are_not_visible(store: Store) -> None:
    first, second = add(store, 1), add(store, 2)
    decide(store, first, "accept")
    mark = mark_of(store)
    decide(store, first, "reject")
    decide(store, second, "accept")
    third = add(store, 3, [(Role.EDITED_FROM, first)])
    decide(store, third, "accept")
    linked = select(Entity.id).join(Derivation, Derivation.child_seq == Entity.seq)
    assert states_then(store, mark) == {first: "accepted", second: "proposed"}
    with snapshot(store, StoreVersion(mark)) as connection:
        assert connection.execute(select(Decision.verdict)).scalars().all() == ["accept"]
        assert connection.execute(linked).all() == []
    with snapshot(store) as connection:
        now = {first: "rejected", second: "accepted", third: "accepted"}
        assert states(connection) == now
        assert connection.execute(linked).scalars().all() == [third]
    assert states_then(store, mark_of(store)) == now


def test_entities_withdrawn_later_are_withdrawn_in_earlier_views(store: Store) -> None:
    kept, taken = add(store, 1), add(store, 2)
    decide(store, taken, "accept")
    mark = mark_of(store)
    withdraw(store, taken)
    decide(store, taken, "accept")
    assert states_then(store, mark) == {kept: "proposed", taken: "withdrawn"}
    assert states_then(store, mark, then_withdrawn=True) == {kept: "proposed", taken: "accepted"}


def test_the_mark_of_a_patch_release_includes_only_its_own_withdrawals(store: Store) -> None:
    ids = [add(store, number) for number in range(3)]
    mark = mark_of(store)
    withdraw(store, ids[0])
    decide(store, ids[2], "accept")
    with snapshot(store, StoreVersion(mark)) as connection:
        patch = mark_after(connection, StoreVersion(mark))
    assert patch == mark._replace(withdrawal=mark.withdrawal + 1) != mark
    withdraw(store, ids[1])
    then = states_then(store, patch, then_withdrawn=True)
    assert then == {ids[0]: "withdrawn", ids[1]: "proposed", ids[2]: "proposed"}
    assert states_then(store, patch)[ids[1]] == "withdrawn"
    with snapshot(store, StoreVersion(patch, then_withdrawn=True)) as connection:
        assert mark_after(connection, StoreVersion(patch, then_withdrawn=True)) == patch


@pytest.mark.usefixtures("database_url")
def test_views_leave_nothing_in_pooled_connections(store: Store) -> None:
    mark = mark_of(store)
    add(store, 1)
    used, seen = set(), set()
    for fails in (False, True, False, True):
        with (
            pytest.raises(ZeroDivisionError) if fails else nullcontext(),
            snapshot(store, StoreVersion(mark)) as connection,
        ):
            used.add(id(connection.connection.driver_connection))
            assert states(connection) == {}
            assert 1 / (not fails)
    for _ in range(3):
        with store.read() as connection:
            seen.add(id(connection.connection.driver_connection))
            assert len(states(connection)) == 1
            assert _temporary_names(connection) == []
            assert "pg_temp" not in _search_path(connection)
    assert seen >= used  # connections of the pool, used again


def _temporary_names(connection: Connection) -> list[Any]:
    query = "SELECT name FROM sqlite_temp_master"
    if connection.dialect.name == "postgresql":
        query = "SELECT relname FROM pg_class WHERE relpersistence = 't'"
    return list(connection.execute(text(query)).scalars())


def _search_path(connection: Connection) -> str:
    if connection.dialect.name != "postgresql":
        return ""
    return str(connection.exec_driver_sql("SHOW search_path").scalar_one())


@pytest.mark.postgres
def test_prepared_statements_see_the_earlier_state(postgres_store: Store) -> None:
    """The PostgreSQL driver prepares repeated statements with the tables of that moment."""
    store = postgres_store
    first = add(store, 1)
    mark = mark_of(store)
    second = add(store, 2)
    for _ in range(4):
        for _ in range(24):  # often enough on each connection of the pool
            with store.read() as connection:
                assert states(connection).keys() == {first, second}
        assert states_then(store, mark).keys() == {first}


@pytest.mark.usefixtures("database_url")
def test_a_snapshot_cannot_write(store: Store) -> None:
    mark = mark_of(store)
    plan = {"key": "k", "stage": "s", "version": "1", "configuration": {}}
    for past in (None, StoreVersion(mark)):
        with suppress(InternalError), snapshot(store, past) as connection:
            connection.execute(insert(Plan), plan)
    with store.read() as connection:
        assert connection.execute(select(Plan.id)).all() == []


@pytest.mark.postgres
def test_a_mark_waits_for_running_write_transactions(postgres_store: Store) -> None:
    """Sequence numbers are assigned before rows are visible, so a larger one may be
    visible first.
    """
    store = postgres_store
    add(store, 1)
    began, may_end, found = threading.Event(), threading.Event(), list[StateMark]()

    def write_slowly() -> None:
        with store.write() as connection:
            activity = connection.execute(select(Activity.id)).scalar_one()
            row: dict[str, Any] = {
                "id": "a" * 32,
                "dataset": DATASET,
                "kind": "caption",
                "state": "proposed",
            }
            row |= {"payload": "{}", "activity_id": activity}
            connection.execute(insert(Entity), row)
            began.set()
            may_end.wait(300)

    def mark() -> None:
        found.append(mark_of(store))

    writer, marker = threading.Thread(target=write_slowly), threading.Thread(target=mark)
    writer.start()
    began.wait(300)
    marker.start()
    marker.join(0.3)
    assert found == []  # the writer is still running
    may_end.set()
    writer.join(300)
    marker.join(300)
    add(store, 2)
    assert states_then(store, found[0]).keys() >= {"a" * 32}
    assert len(states_then(store, found[0])) == 2


VERDICTS = ("accept", "reject", "edit", "withdraw", "reopen", "activate", "deactivate")


@settings(max_examples=15, deadline=None)
@given(
    history=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(VERDICTS)), max_size=12),
    at=st.integers(0, 12),
)
def test_earlier_states_equal_a_literal_fold_of_the_history(
    tmp_path_factory: pytest.TempPathFactory,
    migrated_sqlite: Path,
    history: list[tuple[int, str]],
    at: int,
) -> None:
    """Reference: fold the history up to then; entities that were ever withdrawn are withdrawn."""
    path = tmp_path_factory.mktemp("fold") / "loupe.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    store = Store.open(f"sqlite:///{path}")
    try:
        ids = [add(store, number) for number in range(3)]
        happened: list[tuple[str, str]] = []
        mark = mark_of(store)
        late = list(history[at:])
        for number, verdict in history[:at]:
            decide_or_add(store, ids, happened, number, verdict)
        seen = len(ids)
        mark, before = mark_of(store), list(happened)
        for number, verdict in late:
            decide_or_add(store, ids, happened, number, verdict)
        for then_withdrawn in (False, True):
            found = states_then(store, mark, then_withdrawn=then_withdrawn)
            assert found == {
                one: _literal(one, before, [] if then_withdrawn else happened) for one in ids[:seen]
            }
    finally:
        store.close()


def decide_or_add(
    store: Store, ids: list[str], happened: list[tuple[str, str]], number: int, verdict: str
) -> None:
    if number == 3:
        ids.append(add(store, 100 + len(ids)))
        return
    if verdict.endswith("activate"):
        set_active(store, [ids[number]], PERSON, active=verdict == "activate")
    else:
        decide(store, ids[number], verdict)
    happened.append((ids[number], verdict))


def _literal(one: str, before: list[tuple[str, str]], ever: list[tuple[str, str]]) -> str:
    if (one, "withdraw") in ever:
        return "withdrawn"
    happened = [verdict for entity, verdict in before if entity == one]
    activations = [verdict for verdict in happened if verdict.endswith("activate")]
    verdicts = [verdict for verdict in happened if verdict not in activations]
    return fold(verdicts, active=activations[-1:] != ["deactivate"])
