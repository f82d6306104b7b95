"""A small office: people with workspaces of their own, who answer by rules."""

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import insert

from annotate.projects import Desks
from annotate.push import PushReport
from annotate.push import push as push_patiently
from annotate.queues import Queue
from db.entities import fetch
from db.reviews import tasks_by_key
from db.store import Store
from db.tables import Annotator, Pseudonym
from schemas.records import Rewrite
from tests.annotate.answering import Regions
from tests.annotate.memory_desk import MemoryOffice

IMAGES = "http://127.0.0.1:8090/blobs"
Opinion = Callable[[str], Regions]
"""What somebody says about a rewrite with that text."""


def push(store: Store, desks: Desks, queue: Queue) -> PushReport:
    """A push that waits for nothing."""
    return push_patiently(store, desks, queue, IMAGES, pause_seconds=0)


def hire(store: Store, office: MemoryOffice, name: str, roles: str = "annotator") -> str:
    """Gives somebody a workspace; their pseudonym is made from their name, for readable tests."""
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
    says: Opinion,
    purpose: str = "review",
    most: int | None = None,
) -> int:
    """Somebody answers what waits for them, at `most` so many; gives how many that were."""
    desk = office(person)
    waiting = desk.open_tasks(purpose)[:most]
    tasks = tasks_by_key(store, [task.key for task in waiting])
    shown = fetch(store, [task.entity_id for task in tasks.values()])
    for task in waiting:
        desk.annotate(task.id, says(shown[tasks[task.key].entity_id].record(Rewrite).text))
    return len(waiting)
