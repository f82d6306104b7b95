"""Concurrent pulls and pushes, on SQLite and on PostgreSQL."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Barrier

import pytest

from loupe.annotate.backend import NewTask
from loupe.annotate.pull import pull
from loupe.annotate.push import PushReport
from loupe.annotate.queues import shipped
from loupe.db.entities import find
from loupe.db.reviews import review_tasks
from loupe.db.store import Store
from loupe.db.work import register_plan
from tests.annotate.answering import accepting
from tests.annotate.memory_desk import MemoryDesk, MemoryOffice
from tests.annotate.office import hire, push, work
from tests.annotate.world import DATASET, REWRITE, World

QUEUE = shipped().queue(DATASET, "rewrites").model_copy(update={"overlap": 2})
ITEMS = 6


class SharedWorld(World):
    """A world in a given store."""

    def __init__(self, folder: Path, store: Store) -> None:
        super().__init__(folder)
        self.store.close()
        self.store = store
        self._plan_id = register_plan(store, "world", "1", {})


def together(*actions: Callable[[], object]) -> None:
    """Run all actions at the same time, each in a thread; raise the first error."""
    start = Barrier(len(actions))

    def run(action: Callable[[], object]) -> object:
        start.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(run, action) for action in actions]:
            done.result()


@pytest.fixture
def people(tmp_path: Path, store: Store, office: MemoryOffice) -> list[str]:
    """Two annotators of a queue with items."""
    world = SharedWorld(tmp_path, store)
    for number in range(ITEMS):
        world.add(f"{REWRITE} {number}")
    return [hire(store, office, name) for name in ("ann", "bea")]


def states(store: Store) -> Counter[str]:
    return Counter(entity.state for entity in find(store, DATASET, "rewrite"))


def test_answers_received_by_two_concurrent_pulls_are_decided(
    store: Store, office: MemoryOffice, people: list[str]
) -> None:
    push(store, office, QUEUE)
    for person in people:
        work(store, office, person, accepting)
    reading = Barrier(2)

    def one_first(name: str) -> Callable[[str], MemoryDesk]:
        """Return desks of a pull that sees the answers of only this annotator."""

        def desk_of(assignee: str) -> MemoryDesk:
            return office(assignee) if assignee in (name, "") else MemoryDesk(office.server)

        return desk_of

    def pulled(name: str) -> None:
        reading.wait()
        pull(store, one_first(name), QUEUE)

    together(lambda: pulled(people[0]), lambda: pulled(people[1]))
    assert states(store) == {"accepted": ITEMS}


def test_a_push_waits_for_another_that_sends_the_same_tasks(
    store: Store, office: MemoryOffice, people: list[str]
) -> None:
    desk = office(people[0])
    send = desk.import_tasks
    with ThreadPoolExecutor(1) as pool:
        second: list[Future[PushReport]] = []

        def send_during_another_push(project_id: int, tasks: Sequence[NewTask]) -> list[int]:
            if not second:
                second.append(pool.submit(push, store, office, QUEUE))
                wait(second, timeout=0.5)
            return send(project_id, tasks)

        desk.import_tasks = send_during_another_push  # type: ignore[method-assign]
        first = push(store, office, QUEUE)
        assert (first.pushed, second[0].result().pushed) == (2 * ITEMS, 0)
    assert [len(office(person).sent) for person in people] == [ITEMS, ITEMS]


def test_the_same_answers_in_two_concurrent_pulls_count_once(
    store: Store, office: MemoryOffice, people: list[str]
) -> None:
    together(*[lambda: push(store, office, QUEUE)] * 2)
    for person in people:
        work(store, office, person, accepting)
    together(
        lambda: pull(store, office, QUEUE),
        lambda: pull(store, office, QUEUE),
        lambda: push(store, office, QUEUE),
    )
    assert states(store) == {"accepted": ITEMS}
    found = Counter(task.state for task in review_tasks(store, QUEUE.name).values())
    assert found == {"answered": 2 * ITEMS}
