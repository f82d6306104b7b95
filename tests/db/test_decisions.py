"""Decisions are appended without repetition and folded into a state."""

import threading
from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from loupe.db.decisions import append_decisions, decided_by_people, fold, set_active
from loupe.db.entities import AgentRef, NewDecision, Verdict, fetch
from loupe.db.store import Store
from loupe.db.tables import Activation, Decision
from tests.db.samples import SOFTWARE, caption, row_count, store_entities

PERSON = AgentRef("person", "annotator-7")
STATES = {
    "accept": "accepted",
    "reject": "rejected",
    "edit": "superseded",
    "withdraw": "withdrawn",
    "reopen": "proposed",
}
verdicts = st.lists(st.sampled_from(get_args(Verdict)))


@given(verdicts)
def test_the_last_verdict_counts_and_a_withdrawal_is_final(history: list[str]) -> None:
    if "withdraw" in history:
        assert fold(history) == "withdrawn"
    else:
        assert fold(history) == (STATES[history[-1]] if history else "proposed")


def decide(store: Store, *decisions: NewDecision) -> None:
    with store.write() as connection:
        append_decisions(connection, decisions)


def stored_verdicts(store: Store) -> Sequence[str]:
    with store.read() as connection:
        return connection.execute(select(Decision.verdict).order_by(Decision.id)).scalars().all()


def test_what_was_reopened_is_no_longer_decided_by_people(sqlite_store: Store) -> None:
    store = sqlite_store
    entity, other = caption(0), caption(1)
    store_entities(store, [entity, other])
    history: list[tuple[Verdict, AgentRef, bool]] = [
        ("accept", SOFTWARE, False),
        ("reject", PERSON, True),
        ("accept", SOFTWARE, True),
        ("reopen", SOFTWARE, False),
        ("accept", SOFTWARE, False),
        ("accept", PERSON, True),
        ("reopen", PERSON, False),
    ]
    for verdict, agent, is_decided in history:
        decide(store, NewDecision(entity.id, verdict, agent, "said"))
        with store.read() as connection:
            found = decided_by_people(connection, [entity.id, other.id])
        assert found == ({entity.id} if is_decided else set()), verdict


def test_the_stored_state_is_the_fold_of_all_verdicts(store: Store) -> None:
    histories: list[list[Verdict]] = [
        ["accept"],
        ["reject", "accept"],
        ["edit", "withdraw", "accept"],
        ["accept", "reopen"],
        ["edit", "reopen", "reject"],
        ["withdraw", "reopen"],
    ]
    bystander, *entities = (caption(number) for number in range(len(histories) + 1))
    store_entities(store, [bystander, *entities])
    for entity, history in zip(entities, histories, strict=True):
        for verdict in history:
            decide(store, NewDecision(entity.id, verdict, PERSON, reason="because"))
        assert fetch(store, [entity.id])[entity.id].state == fold(history), history
    assert fetch(store, [bystander.id])[bystander.id].state == "proposed"
    assert stored_verdicts(store) == [one for history in histories for one in history]


def test_an_inactive_entity_keeps_its_decisions(store: Store) -> None:
    decided, withdrawn, later = (caption(number) for number in range(3))
    store_entities(store, [decided, withdrawn, later])
    ids = [decided.id, withdrawn.id, later.id]
    decide(store, NewDecision(decided.id, "accept", PERSON))
    decide(store, NewDecision(withdrawn.id, "withdraw", PERSON))
    for _ in range(2):  # the second time changes nothing
        set_active(store, ids, SOFTWARE, active=False)
    decide(store, NewDecision(later.id, "reject", PERSON))
    assert states_of(store, ids) == ["inactive", "withdrawn", "inactive"]
    assert row_count(store, Activation) == 2
    set_active(store, ids, SOFTWARE, active=True)
    assert states_of(store, ids) == ["accepted", "withdrawn", "rejected"]


def states_of(store: Store, ids: list[str]) -> list[str]:
    stored = fetch(store, ids)
    return [stored[id_].state for id_ in ids]


def test_a_repeated_decision_is_one_row_unless_reason_or_agent_differ(store: Store) -> None:
    decide(store)
    with pytest.raises(IntegrityError):
        decide(store, NewDecision("0" * 32, "accept", SOFTWARE))
    assert row_count(store, Decision) == 0
    entity = caption(1)
    store_entities(store, [entity])
    accept = NewDecision(entity.id, "accept", SOFTWARE)
    decide(store, accept, accept)
    decide(store, accept)
    assert stored_verdicts(store) == ["accept"]
    decide(store, NewDecision(entity.id, "accept", PERSON))
    decide(store, NewDecision(entity.id, "accept", PERSON, reason="looked again"))
    decide(store, accept)
    assert row_count(store, Decision) == 4


@pytest.mark.usefixtures("database_url")
def test_concurrent_decisions_leave_the_state_their_rows_fold_to(store: Store) -> None:
    """The second transaction must see the first one's decision, although it began earlier."""
    entity = caption(1)
    store_entities(store, [entity])
    started = threading.Event()

    def reject() -> None:
        started.set()
        decide(store, NewDecision(entity.id, "reject", PERSON))
        decide(store, NewDecision(entity.id, "reject", PERSON))

    second = threading.Thread(target=reject)
    with store.write() as connection:
        append_decisions(connection, [NewDecision(entity.id, "accept", SOFTWARE)])
        second.start()
        started.wait()
        second.join(timeout=0.2)  # it waits for this transaction
        append_decisions(connection, [NewDecision(entity.id, "edit", SOFTWARE)])
    second.join()
    assert stored_verdicts(store) == ["accept", "edit", "reject"]
    assert fetch(store, [entity.id])[entity.id].state == "rejected"
