import threading
from datetime import UTC, datetime

import pytest

from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, new_entity
from loupe.db.reviews import (
    Cursor,
    ShownImage,
    StoredTask,
    Worker,
    acquire_queue_lock,
    add_annotator,
    announce_tasks,
    assignments,
    change_tasks,
    count_tasks,
    load_cursor,
    open_image_media_type,
    place_tasks,
    project_of_tasks,
    review_tasks,
    save_cursor,
    tasks_by_key,
)
from loupe.db.store import Store
from loupe.schemas.records import Image, Rewrite
from tests.db.samples import store_entities

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUEUE = "people-rewrites"
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
IMAGE_ENTITY = new_entity(IMAGE, "people")
SHOWN = ShownImage(IMAGE.sha256, IMAGE.media_type, IMAGE_ENTITY.id)


@pytest.fixture
def task(store: Store) -> StoredTask:
    """An open task that shows a rewrite of `IMAGE`."""
    shown = new_entity(Rewrite(source="street", text="shown", author="m@1"), "people")
    store_entities(store, [IMAGE_ENTITY, shown])
    stored_task = StoredTask(
        "k" * 32, QUEUE, shown.id, "reviewer-1", "review", False, "http://desk", 1, None, "open"
    )
    announce_tasks(store, [stored_task], {stored_task.key: [SHOWN]})
    return stored_task


def is_served(store: Store, sha256: str = IMAGE.sha256) -> bool:
    with store.read() as connection:
        return open_image_media_type(connection, sha256) == "image/png"


def set_state(store: Store, task: StoredTask, state: str) -> None:
    with store.write() as connection:
        change_tasks(connection, [task.key], state=state)


def withdraw(store: Store, entity_id: str) -> None:
    with store.write() as connection:
        append_decisions(connection, [NewDecision(entity_id, "withdraw", REVIEWER)])


def test_a_person_is_served_only_images_of_own_tasks(store: Store, task: StoredTask) -> None:
    ann = add_annotator(store, "Ann", "desk", 7, ["annotator"]).pseudonym
    add_annotator(store, "Ben", "desk", 8, ["annotator"])
    hers = task._replace(key="h" * 32, assignee=ann)
    sha256 = "c" * 64
    announce_tasks(store, [hers], {hers.key: [SHOWN._replace(sha256=sha256)]})
    with store.read() as connection:
        served = {
            worker: open_image_media_type(connection, sha256, worker) is not None
            for worker in (None, Worker("desk", 7), Worker("desk", 8), Worker("other", 7))
        }
        foreign = open_image_media_type(connection, IMAGE.sha256, Worker("desk", 7))
    assert served == {
        None: True,
        Worker("desk", 7): True,
        Worker("desk", 8): False,
        Worker("other", 7): False,
    }
    assert foreign is None


def test_announcing_a_task_again_keeps_its_place_on_the_server(
    store: Store, task: StoredTask
) -> None:
    place_tasks(store, "http://desk:2", 5, {task.key: 9})
    announce_tasks(store, [task], {task.key: [SHOWN]})
    (stored,) = review_tasks(store, QUEUE).values()
    assert (stored.server, stored.project_id, stored.task_id) == ("http://desk:2", 5, 9)
    assert tasks_by_key(store, [task.key, "other"]) == {task.key: stored}
    assert review_tasks(store, "other") == {}
    seat = ("reviewer-1", "review")
    assert project_of_tasks(store, "http://desk:2", QUEUE, *seat) == 5
    assert project_of_tasks(store, "http://desk:2", "other", *seat) is None
    assert count_tasks(store) == {(QUEUE, "open"): 1}
    assert assignments(store, QUEUE) == [("reviewer-1", "review")]


def test_announcing_a_closed_task_again_opens_it(store: Store, task: StoredTask) -> None:
    for state, after in (("closed", "open"), ("answered", "answered")):
        set_state(store, task, state)
        announce_tasks(store, [task], {})
        assert review_tasks(store, QUEUE)[task.key].state == after


def test_a_cursor_is_kept_for_each_project(store: Store) -> None:
    assert load_cursor(store, "http://desk", 1) is None
    for tasks in (10, 20):
        save_cursor(store, "http://desk", 1, Cursor(NOW, NOW, NOW, tasks, 3))
    assert load_cursor(store, "http://desk", 1) == Cursor(NOW, NOW, NOW, 20, 3)
    assert load_cursor(store, "http://desk", 2) is None
    assert load_cursor(store, "http://other", 1) is None


def test_images_are_served_while_a_task_is_open_or_unclear(store: Store, task: StoredTask) -> None:
    for state in ("open", "unclear", "answered", "skipped", "returned", "closed"):
        set_state(store, task, state)
        assert is_served(store) is (state in ("open", "unclear")), state
        assert not is_served(store, IMAGE.source_sha256)
        assert not is_served(store, "%" * 64)


def test_a_withdrawn_image_is_not_served_but_a_rejected_one_is(
    store: Store, task: StoredTask
) -> None:
    rejected = NewDecision(IMAGE_ENTITY.id, "reject", AgentRef("software", "gate", "1"))
    with store.write() as connection:
        append_decisions(connection, [rejected])
    assert is_served(store)
    withdraw(store, IMAGE_ENTITY.id)
    assert not is_served(store)


def test_images_of_a_task_about_a_withdrawn_entity_are_not_served(
    store: Store, task: StoredTask
) -> None:
    withdraw(store, task.entity_id)
    assert not is_served(store)


def test_an_image_without_an_entity_is_served(store: Store, task: StoredTask) -> None:
    crop = ShownImage("c" * 64, "image/png")
    announce_tasks(store, [task], {task.key: [crop]})
    assert is_served(store, crop.sha256)


@pytest.mark.usefixtures("database_url")
def test_the_queue_lock_waits_for_other_transactions(store: Store) -> None:
    order = []
    started = threading.Event()

    def other() -> None:
        started.set()
        with store.write() as connection:
            acquire_queue_lock(connection, QUEUE)
            order.append("other")

    with store.write() as connection:
        acquire_queue_lock(connection, QUEUE)
        thread = threading.Thread(target=other)
        thread.start()
        started.wait()
        thread.join(0.3)
        order.append("one")
    thread.join()
    assert order == ["one", "other"]
