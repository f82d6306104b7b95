"""Gold items and their checks in the store."""

from datetime import timedelta

import pytest

from loupe.db.annotations import decided_by_answers
from loupe.db.decisions import append_decisions
from loupe.db.entities import NewDecision, fetch
from loupe.db.gold import (
    KnownAnswer,
    NewCheck,
    add_gold_items,
    all_checks,
    counted_checks,
    gold_items,
    record_checks,
    reinstate_annotator,
    remove_gold_items,
    return_work,
    revocations,
    suspended_annotators,
)
from loupe.db.store import Store
from loupe.db.tables import GoldCheck
from tests.db.review_samples import QUEUE, START, Desk, rewrite, store_rewrites
from tests.db.samples import SOFTWARE, row_count, store_entities

RULE = {"floor": 0.7, "window": 10, "least": 5}
ACCURACY = (2, 5)


def gold(entity_id: str, verdict: str = "accept") -> KnownAnswer:
    return KnownAnswer(entity_id, {"verdict": verdict}, "adjudicated")


def test_gold_items_belong_to_a_queue_and_keep_their_first_answer(store: Store) -> None:
    first, second = store_rewrites(store, 2)
    assert add_gold_items(store, QUEUE, [gold(first), gold(second)]) == 2
    assert add_gold_items(store, QUEUE, [gold(first, "reject")]) == 0
    assert gold_items(store, QUEUE)[first].answer == {"verdict": "accept"}
    assert gold_items(store, "people-captions") == {}
    assert remove_gold_items(store, QUEUE, [first, "0" * 32]) == 1
    assert list(gold_items(store, QUEUE)) == [second]


def test_a_withdrawn_item_is_no_longer_a_gold_item(store: Store) -> None:
    (only,) = store_rewrites(store, 1)
    add_gold_items(store, QUEUE, [gold(only)])
    with store.write() as connection:
        append_decisions(connection, [NewDecision(only, "withdraw", SOFTWARE)])
    assert gold_items(store, QUEUE) == {}


def test_checks_are_stored_once_and_listed_newest_first(store: Store) -> None:
    desk = Desk(store)
    for number, entity_id in enumerate(store_rewrites(store, 3)):
        desk.check(entity_id, "a", correct=number != 1)
    with store.write() as connection:
        found = counted_checks(connection, QUEUE)["a"]
        record_checks(
            connection,
            [NewCheck(one.annotation_key, QUEUE, "a", False, START) for one in found],
        )
        assert counted_checks(connection, QUEUE) == {"a": found}
    assert [one.correct for one in found] == [True, False, True]
    assert [one.answered_at - START for one in found] == [
        timedelta(minutes=minutes) for minutes in (3, 2, 1)
    ]
    assert row_count(store, GoldCheck) == 3


def test_only_the_last_answer_to_a_gold_item_is_checked(store: Store) -> None:
    desk = Desk(store)
    (only,) = store_rewrites(store, 1)
    desk.check(only, "a", correct=False)
    desk.check(only, "a", correct=True)
    assert [one.correct for one in all_checks(store, QUEUE)["a"]] == [True]


@pytest.mark.usefixtures("database_url")
def test_returning_work_undoes_the_decisions_based_on_it_alone(store: Store) -> None:
    desk = Desk(store)
    accepted, edited, decided_again, withdrawn, kept = store_rewrites(store, 5)
    successor = rewrite(99)
    store_entities(store, [successor])
    desk.decide(accepted, "accept", desk.answer(accepted, "a"))
    edit = desk.answer(edited, "a", "edit")
    desk.decide(edited, "edit", edit, successor.id)
    desk.decide(successor.id, "accept", edit)
    desk.decide(decided_again, "reject", desk.answer(decided_again, "a", "reject"))
    desk.decide(
        decided_again, "accept", desk.answer(decided_again, "judge", purpose="adjudication")
    )
    desk.decide(withdrawn, "accept", desk.answer(withdrawn, "a"))
    desk.decide(kept, "accept", desk.answer(kept, "a"))
    tasks = [desk.give(id_, "a").key for id_ in (accepted, edited, decided_again, withdrawn)]
    with store.write() as connection:
        append_decisions(connection, [NewDecision(withdrawn, "withdraw", SOFTWARE)])
        work = return_work(connection, QUEUE, "a", RULE, ACCURACY, tasks)
    assert work == (4, 2)
    entities = fetch(store, [accepted, edited, successor.id, decided_again, withdrawn, kept])
    assert {id_: entity.state for id_, entity in entities.items()} == {
        accepted: "proposed",
        edited: "proposed",
        successor.id: "rejected",
        decided_again: "accepted",
        withdrawn: "withdrawn",
        kept: "accepted",
    }
    assert desk.task_state(accepted, "a") == "returned"
    assert desk.task_state(kept, "a") == "answered"
    with store.read() as connection:
        assert decided_by_answers(connection, [accepted, kept]) == {kept}


def test_an_annotator_without_answers_is_suspended_too(store: Store) -> None:
    with store.write() as connection:
        assert return_work(connection, QUEUE, "a", RULE, ACCURACY, []) == (0, 0)
        assert suspended_annotators(connection, QUEUE) == {"a"}
        assert suspended_annotators(connection, "people-captions") == set()
    (use,) = revocations(store)
    assert use.accuracy == pytest.approx(0.4)


def test_after_reinstatement_only_new_gold_answers_count(store: Store) -> None:
    desk = Desk(store)
    old, new = store_rewrites(store, 2)
    desk.check(old, "a", correct=False)
    with store.write() as connection:
        return_work(connection, QUEUE, "a", RULE, ACCURACY, [])
    assert reinstate_annotator(store, QUEUE, "b") == 0
    assert reinstate_annotator(store, QUEUE, "a") == 1
    lifted_at = revocations(store)[0].lifted_at
    assert lifted_at is not None
    key = desk.answer(new, "a", gold=True)
    with store.write() as connection:
        late = NewCheck(key, QUEUE, "a", True, lifted_at + timedelta(seconds=1))
        record_checks(connection, [late])
        assert [one.entity_id for one in counted_checks(connection, QUEUE)["a"]] == [new]
    assert len(all_checks(store, QUEUE)["a"]) == 2
