"""Give an item to a certain person, as the lead decides."""

from loupe.annotate.backend import Desks
from loupe.annotate.planning import people_of
from loupe.annotate.projects import take_back
from loupe.annotate.queues import SHARED, Purpose, Queue
from loupe.db.entities import fetch
from loupe.db.reviews import WAITING, StoredTask, announce_tasks, review_tasks
from loupe.db.store import Store
from loupe.schemas.errors import UsageError


def assign_item(store: Store, desks: Desks, queue: Queue, entity_id: str, person: str) -> Purpose:
    """Give an undecided item to a person, by pseudonym; the next push sends the task.

    If an adjudicator has to settle it, it moves to this one. Otherwise the person gives one of the
    answers, instead of somebody who has not opened the task if enough people have it. Returns the
    purpose of the task.

    Raises:
        UsageError: the item is decided, the person may not have it or had it before, or the task
            of everybody else is answered or open.
    """
    item = fetch(store, [entity_id]).get(entity_id)
    if item is None or item.state != "proposed":
        raise UsageError(f"{entity_id} is not an undecided item of {queue.name}")
    tasks = [
        task
        for task in review_tasks(store, queue.name, entity_id=entity_id).values()
        if task.purpose in ("review", "adjudication") and task.state != "closed"
    ]
    if any(task.assignee == person for task in tasks):
        raise UsageError(f"{person} has, or had, {entity_id} already")
    settling = [one for one in tasks if one.purpose == "adjudication" and one.state in WAITING]
    purpose: Purpose = "adjudication" if settling else "review"
    if person not in people_of(store, queue).may(purpose):
        role = "adjudicator" if settling else "annotator"
        raise UsageError(f"{person} gets no tasks of {queue.name} as an {role} now")
    counting = [one for one in tasks if one.purpose == "review" and not one.gold]
    counting = [one for one in counting if one.state in (*WAITING, "answered")]
    if settling or len(counting) >= queue.overlap:
        _make_room(store, desks, settling or counting, entity_id)
    server = desks(SHARED).server_name
    key = queue.task_key(entity_id, person, purpose)
    new = StoredTask(key, queue.name, entity_id, person, purpose, False, server, 0, None, "open")
    announce_tasks(store, [new], {})
    return purpose


def _make_room(store: Store, desks: Desks, tasks: list[StoredTask], entity_id: str) -> None:
    """Take the item back from one who has not opened it."""
    for task in tasks:
        if task.state == "open" and take_back(store, desks, [task]):
            return
    raise UsageError(f"everybody who has {entity_id} has answered it, or has it open")
