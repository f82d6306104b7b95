from datetime import UTC, datetime
from typing import Literal

import pytest

from db.agents import AgentRef
from db.decisions import NewDecision, append_decisions
from db.entities import NewEntity, fetch, new_entity
from db.reviews import (
    NewReview,
    StoredTask,
    annotations_of,
    announce_tasks,
    count_states,
    count_tasks,
    open_image_media_type,
    place_tasks,
    pseudonyms,
    record_reviews,
    review_tasks,
    reviewer_rows,
)
from db.store import Store
from db.work import ActivityRecord, register_plan, store_activity
from schemas.records import Image, Rewrite

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REVIEWER = AgentRef("person", "reviewer-1")
IMAGE = Image(
    source="street",
    identity="1",
    split="test",
    file_path="1.png",
    sha256="a" * 64,
    source_sha256="b" * 64,
    media_type="image/png",
    width_px=1,
    height_px=1,
)


def rewrite(text: str, group: str | None = None) -> NewEntity:
    return new_entity(Rewrite(source="street", text=text, author="m@1"), "people", group=group)


@pytest.fixture
def activity(store: Store) -> ActivityRecord:
    return ActivityRecord(register_plan(store, "review", "1", {}), "people", "", "", NOW)


@pytest.fixture
def task(store: Store, activity: ActivityRecord) -> StoredTask:
    """An open task that shows a rewrite of `IMAGE`."""
    image = new_entity(IMAGE, "people")
    shown = rewrite("shown", group=image.id)
    with store.write() as connection:
        store_activity(connection, activity, [image, shown])
    made = StoredTask("k" * 32, "people-rewrites", shown.id, "http://desk", 1, None, "open")
    announce_tasks(store, [made])
    return made


def review(
    task: StoredTask,
    activity: ActivityRecord,
    verdict: Literal["accept", "edit", "reject"],
    key: str = "1",
    successor: NewEntity | None = None,
) -> NewReview:
    return NewReview(
        key=key,
        task=task,
        activity=activity,
        agent=REVIEWER,
        remote_id=7,
        result={"regions": [{"value": verdict}]},
        lead_time_seconds=2.0,
        annotated_at=NOW,
        verdict=verdict,
        reason="",
        entities=(successor,) if successor else (),
        successor=successor,
    )


def state_of(store: Store, entity_id: str) -> str:
    return fetch(store, [entity_id])[entity_id].state


def is_served(store: Store, sha256: str = IMAGE.sha256) -> bool:
    with store.read() as connection:
        return open_image_media_type(connection, sha256) == "image/png"


def test_announcing_again_keeps_where_a_task_lies(store: Store, task: StoredTask) -> None:
    place_tasks(store, "http://desk:2", 5, {task.key: 9})
    announce_tasks(store, [task])
    (stored,) = review_tasks(store, "people-rewrites").values()
    assert (stored.server, stored.project_id, stored.task_id) == ("http://desk:2", 5, 9)
    assert review_tasks(store, "other") == {}
    assert count_tasks(store) == {("people-rewrites", "open"): 1}


def test_users_keep_their_random_pseudonyms(store: Store) -> None:
    first = pseudonyms(store, "http://desk", [1, 2, 2])
    assert pseudonyms(store, "http://desk", [2, 3])[2] == first[2]
    elsewhere = pseudonyms(store, "http://other", [1])
    assert len({*first.values(), *elsewhere.values()}) == 3
    assert all(name.startswith("reviewer-") for name in first.values())
    assert pseudonyms(store, "http://desk", []) == {}


def test_a_review_is_stored_once(store: Store, task: StoredTask, activity: ActivityRecord) -> None:
    for _ in range(2):
        assert record_reviews(store, [review(task, activity, "accept")]) == []
    assert state_of(store, task.entity_id) == "accepted"
    assert [found.remote_id for found in annotations_of(store, [task.key])[task.key]] == [7]
    (row,) = reviewer_rows(store, "people-rewrites")
    assert (row.reviewer, row.verdict, row.answers, row.seconds) == ("reviewer-1", "accept", 1, 2.0)
    assert count_tasks(store) == {("people-rewrites", "answered"): 1}


def test_a_review_is_stored_as_a_whole_or_not_at_all(
    store: Store, task: StoredTask, activity: ActivityRecord
) -> None:
    broken = review(task._replace(entity_id="0" * 32), activity, "accept", key="2")
    with pytest.raises(Exception, match="No row was found"):
        record_reviews(store, [review(task, activity, "accept"), broken])
    assert state_of(store, task.entity_id) == "proposed"
    assert annotations_of(store, [task.key]) == {}


def test_an_edit_and_a_change_of_mind(
    store: Store, task: StoredTask, activity: ActivityRecord
) -> None:
    first, second = rewrite("first"), rewrite("second")
    record_reviews(store, [review(task, activity, "edit", "1", first)])
    states = [state_of(store, entity) for entity in (task.entity_id, first.id)]
    assert states == ["superseded", "accepted"]
    record_reviews(store, [review(task, activity, "edit", "2", second)])
    states = [state_of(store, entity) for entity in (task.entity_id, first.id, second.id)]
    assert states == ["superseded", "superseded", "accepted"]
    record_reviews(store, [review(task, activity, "accept", "3")])
    states = [state_of(store, entity) for entity in (task.entity_id, first.id, second.id)]
    assert states == ["accepted", "superseded", "rejected"]
    assert count_states(store, "rewrite") == {
        "people": {"accepted": 1, "rejected": 1, "superseded": 1}
    }


def test_what_was_withdrawn_is_not_brought_back_by_an_edit(
    store: Store, task: StoredTask, activity: ActivityRecord
) -> None:
    with store.write() as connection:
        append_decisions(connection, [NewDecision(task.entity_id, "withdraw", REVIEWER)])
    edited = rewrite("edited")
    assert record_reviews(store, [review(task, activity, "edit", "1", edited)]) == ["1"]
    assert state_of(store, task.entity_id) == "withdrawn"
    assert fetch(store, [edited.id]) == {}
    assert len(annotations_of(store, [task.key])[task.key]) == 1


def test_images_are_open_while_a_task_shows_them(
    store: Store, task: StoredTask, activity: ActivityRecord
) -> None:
    assert is_served(store)
    assert not is_served(store, IMAGE.source_sha256)
    assert not is_served(store, "%" * 64)
    record_reviews(store, [review(task, activity, "accept")])
    assert not is_served(store)


def test_a_withdrawn_image_is_shown_to_nobody(store: Store, task: StoredTask) -> None:
    image = new_entity(IMAGE, "people")
    with store.write() as connection:
        append_decisions(connection, [NewDecision(image.id, "withdraw", REVIEWER)])
    assert not is_served(store)
