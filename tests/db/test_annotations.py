from datetime import datetime, timedelta

import pytest

from loupe.db.annotations import (
    NewAnnotation,
    answer_counts,
    counted_answers,
    discard_annotations,
    insert_annotations,
    successors_of,
    unclear_annotations,
)
from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, new_entity
from loupe.db.reviews import StoredTask, change_tasks, review_tasks
from loupe.db.store import Store
from loupe.schemas.provenance import Role
from loupe.schemas.records import Rewrite
from tests.db.review_samples import QUEUE, START, Desk, store_rewrites
from tests.db.samples import store_entities

ANN = AgentRef("person", "reviewer-ann")


@pytest.fixture
def item(store: Store) -> str:
    (entity_id,) = store_rewrites(store, 1)
    return entity_id


def annotation(task: StoredTask, minute: int, answer: dict[str, object]) -> NewAnnotation:
    return NewAnnotation(
        key=f"{task.assignee[-3:]}-{minute}-{task.purpose}".ljust(32, "0"),
        task=task,
        agent=ANN,
        remote_id=minute,
        result={"regions": []},
        answer=answer,
        lead_time_seconds=4.0,
        annotated_at=moment(minute),
        state="unclear" if "problem" in answer else "clear",
    )


def record(number: int) -> Rewrite:
    return Rewrite(source="street", text=f"text {number}", author="m@1")


def moment(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def receive(store: Store, *annotations: NewAnnotation, state: str = "answered") -> int:
    with store.write() as connection:
        new = insert_annotations(connection, annotations)
        keys = [one.task.key for one in annotations]
        change_tasks(connection, keys, state=state)
        return len(new)


def test_an_annotation_is_stored_once(store: Store, item: str) -> None:
    task = Desk(store).give(item, "reviewer-ann")
    one = annotation(task, 1, {"verdict": "accept"})
    assert receive(store, one, one) == 1
    assert receive(store, one, annotation(task, 2, {"verdict": "reject"})) == 1


@pytest.mark.usefixtures("database_url")
def test_the_last_clear_answer_of_each_task_counts(store: Store, item: str) -> None:
    desk = Desk(store)
    ann, bea = desk.give(item, "reviewer-ann"), desk.give(item, "reviewer-bea")
    gold, skipped = desk.give(item, "reviewer-cem", gold=True), desk.give(item, "reviewer-dan")
    receive(
        store,
        annotation(ann, 1, {"verdict": "reject"}),
        annotation(ann, 3, {"verdict": "accept"}),
        annotation(ann, 5, {"problem": "no verdict was chosen"}),
        annotation(bea, 2, {"verdict": "edit"}),
        annotation(gold, 4, {"verdict": "accept"}),
    )
    receive(store, annotation(skipped, 6, {"verdict": "accept"}), state="skipped")
    with store.read() as connection:
        found = counted_answers(connection, QUEUE, [item])
        assert counted_answers(connection, "other", [item]) == {}
    assert [(one.assignee, one.answer["verdict"]) for one in found[item]] == [
        ("reviewer-bea", "edit"),
        ("reviewer-ann", "accept"),
    ]
    assert answer_counts(store, QUEUE, moment(4)) == {"reviewer-cem": 1, "reviewer-dan": 1}


def test_an_unclear_answer_is_reported_until_it_is_corrected(store: Store, item: str) -> None:
    task = Desk(store).give(item, "reviewer-ann")
    receive(store, annotation(task, 1, {"problem": "no verdict was chosen"}), state="unclear")
    (found,) = unclear_annotations(store, QUEUE)
    assert (found.task.entity_id, found.remote_id) == (item, 1)
    assert (found.state, found.problem) == ("unclear", "no verdict was chosen")
    receive(store, annotation(task, 2, {"verdict": "accept"}))
    assert unclear_annotations(store, QUEUE) == []


def test_a_quarantined_answer_is_reported_until_it_is_discarded(store: Store, item: str) -> None:
    task = Desk(store).give(item, "reviewer-ann")
    forged = annotation(task, 1, {"problem": "somebody else's"})._replace(state="quarantined")
    receive(store, forged, annotation(task, 2, {"verdict": "accept"}))
    assert [one.remote_id for one in unclear_annotations(store, QUEUE)] == [1]
    discard_annotations(store, unclear_annotations(store, QUEUE))
    assert unclear_annotations(store, QUEUE) == []
    assert [task.state for task in review_tasks(store, QUEUE).values()] == ["answered"]


def test_discarding_an_unclear_answer_reopens_its_task_without_a_task_id(
    store: Store, item: str
) -> None:
    task = Desk(store).give(item, "reviewer-ann")
    receive(store, annotation(task, 1, {"problem": "no verdict was chosen"}), state="unclear")
    discard_annotations(store, unclear_annotations(store, QUEUE))
    assert unclear_annotations(store, QUEUE) == []
    (after,) = review_tasks(store, QUEUE).values()
    assert (after.state, after.task_id) == ("open", None)


def test_a_successor_made_by_an_annotator_counts_only_while_it_is_accepted(
    store: Store, item: str
) -> None:
    answer = new_entity(record(1), "people", parents=[(Role.ANNOTATES, item)])
    successor = new_entity(record(2), "people", parents=[(Role.ANNOTATED_BY, answer.id)])
    store_entities(store, [answer, successor])
    for verdict, expected in (("accept", [successor.id]), ("reject", [])):
        with store.write() as connection:
            decision = NewDecision(successor.id, verdict, ANN)  # type: ignore[arg-type]
            append_decisions(connection, [decision])
            assert successors_of(connection, [item]).get(item, []) == expected
