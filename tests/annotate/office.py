"""Annotators with workspaces in memory, who answer by rules."""

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import insert

from loupe.annotate.backend import Desks
from loupe.annotate.push import PushReport
from loupe.annotate.push import push as push_patiently
from loupe.annotate.queues import Queue
from loupe.db.entities import fetch
from loupe.db.reviews import tasks_by_key
from loupe.db.store import Store
from loupe.db.tables import Annotator, Pseudonym
from loupe.schemas.records import Rewrite
from tests.annotate.answering import Regions
from tests.annotate.memory_desk import MemoryOffice

IMAGES = "http://127.0.0.1:8090/blobs"
Opinion = Callable[[str], Regions]
"""Returns an annotator's answer to a rewrite with that text."""


def push(store: Store, desks: Desks, queue: Queue) -> PushReport:
    """Push without pauses."""
    return push_patiently(store, desks, queue, IMAGES, pause_seconds=0)


def hire(store: Store, office: MemoryOffice, name: str, roles: str = "annotator") -> str:
    """Add an annotator with a workspace; for readable tests the pseudonym contains the name."""
    pseudonym = f"reviewer-{name}"
    desk = office(pseudonym)
    user = {"server": desk.url, "user_id": desk.user_id}
    person = {
        "pseudonym": pseudonym,
        "name": name,
        "roles": roles,
        "state": "active",
        "added_at": datetime.now(UTC),
    }
    with store.write() as connection:
        connection.execute(insert(Pseudonym), {**user, "name": pseudonym})
        connection.execute(insert(Annotator), {**user, **person})
    return pseudonym


def work(
    store: Store,
    office: MemoryOffice,
    person: str,
    opinion: Opinion,
    purpose: str = "review",
    most: int | None = None,
) -> int:
    """Answer the open tasks of an annotator, at most `most`, and return how many were answered."""
    desk = office(person)
    waiting = desk.open_tasks(purpose)[:most]
    tasks = tasks_by_key(store, [task.key for task in waiting])
    shown = fetch(store, [task.entity_id for task in tasks.values()])
    for task in waiting:
        desk.annotate(task.id, opinion(shown[tasks[task.key].entity_id].record(Rewrite).text))
    return len(waiting)
