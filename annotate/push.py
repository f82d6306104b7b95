"""Sends to the desk what waits for people, and takes off it what needs nobody any more.

It can be repeated, or killed, at any moment. A task carries our own key in its data, so that what
is on the desk is recognised whoever put it there and however the answer got lost.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

from annotate.answers import ReviewAnswer
from annotate.desk import DeskUnavailableError, NewTask, ReviewDesk
from annotate.interfaces.adjudication import adjudication_data
from annotate.interfaces.interface import TaskContent
from annotate.interfaces.registry import interface_of
from annotate.plan import make_plan
from annotate.projects import Desks, Seat, project_spec
from annotate.queues import HOUSE, Queue
from annotate.reports import PushReport
from annotate.standing import settle
from db.annotations import CountedAnswer, counted_answers
from db.entities import StoredEntity, fetch, pages
from db.reviews import (
    WAITING,
    StoredTask,
    announce_tasks,
    load_cursor,
    place_tasks,
    review_tasks,
    set_task_states,
    tasks_by_key,
)
from db.store import Store
from schemas.errors import ServiceError

PUSH_ATTEMPTS = 4
PAUSE_SECONDS = 0.5
_PAGE = 1000


def push(
    store: Store,
    desks: Desks,
    queue: Queue,
    images_url: str,
    pause_seconds: float = PAUSE_SECONDS,
) -> PushReport:
    """Sends what waits in the queue for a person and is not on the desk yet.

    Args:
        store: the provenance store.
        desks: the workspaces in which people answer.
        queue: which entities, who looks at them, and how many of them.
        images_url: where the annotator's browser finds an image: `<images_url>/<sha256>`.
        pause_seconds: how long to wait after a fault.

    Raises:
        UsageError: the queue wants more people than there are.
        ServiceError: the desk refuses, or stays unavailable.
    """
    plan = make_plan(store, queue, desks(HOUSE).url, review_tasks(store, queue.name))
    pusher = _Pusher(store, desks, queue, images_url, pause_seconds)
    pusher.announce(plan.new)
    sent = [pusher.send(seat, tasks) for seat, tasks in _by_seat(store, queue, plan.new)]
    closed = _take_back(store, desks, tasks_by_key(store, [task.key for task in plan.obsolete]))
    new = Counter(_sort_of(task) for task in plan.new)
    return PushReport(
        queue=queue.name,
        pushed=sum(one.pushed for one in sent),
        known=sum(one.known for one in sent),
        gold=new["gold"],
        conflicts=new["conflict"],
        duplicates=sum(one.duplicates for one in sent),
        closed=len(closed),
        short=plan.short,
        projects=tuple((one.assignee, one.project_id) for one in sent),
    )


def _sort_of(task: StoredTask) -> str:
    return "gold" if task.gold else "conflict" if task.purpose == "adjudication" else "other"


def _by_seat(
    store: Store, queue: Queue, new: Sequence[StoredTask]
) -> list[tuple[Seat, list[StoredTask]]]:
    """All tasks of each seat that has open ones, new ones last and in their order."""
    order = {task.key: position for position, task in enumerate(new)}
    by_seat: dict[Seat, list[StoredTask]] = defaultdict(list)
    for task in review_tasks(store, queue.name).values():
        by_seat[Seat(task.assignee, task.purpose)].append(task)
    return [
        (seat, sorted(tasks, key=lambda task: order.get(task.key, -1)))
        for seat, tasks in sorted(by_seat.items())
        if any(task.state in WAITING for task in tasks)
    ]


def _take_back(store: Store, desks: Desks, obsolete: Mapping[str, StoredTask]) -> list[str]:
    """Closes tasks and removes them from the desk, but for those just answered; gives their keys.

    An answer that came in since the last pull is read by the next one. Comes after the sending,
    which has noticed by then if the numbers on the desk are no longer what they were.
    """
    by_project: dict[tuple[str, str, int], list[StoredTask]] = defaultdict(list)
    for task in obsolete.values():
        by_project[task.assignee, task.server, task.project_id].append(task)
    closed: list[str] = []
    for (assignee, server, project_id), tasks in sorted(by_project.items()):
        desk = desks(assignee)
        numbers = {task.task_id: task.key for task in tasks if task.task_id is not None}
        answered: set[int] = set()
        if numbers and server == desk.url:
            cursor = load_cursor(store, server, project_id)
            since = cursor.seen_until if cursor else None
            answered = {task.id for task in desk.list_tasks(project_id, since) if task.annotations}
            desk.delete_tasks(project_id, sorted(numbers.keys() - answered))
        closed += [task.key for task in tasks if task.task_id not in answered]
    with store.write() as connection:
        set_task_states(connection, closed, "closed")
    return closed


class _Sent(NamedTuple):
    """What was done for a seat; `known` tasks were there before and wait still."""

    assignee: str
    project_id: int
    pushed: int
    known: int
    duplicates: int


class _Pusher:
    """Sends the tasks of one queue, seat by seat."""

    def __init__(
        self, store: Store, desks: Desks, queue: Queue, images_url: str, pause_seconds: float
    ) -> None:
        self._store = store
        self._desks = desks
        self._queue = queue
        self._interface = interface_of(queue)
        self._images_url = images_url
        self._pause_seconds = pause_seconds

    def announce(self, tasks: Sequence[StoredTask]) -> None:
        """Stores tasks before they are sent: their images are served from when they are seen."""
        for page in pages(tasks, _PAGE):
            contents = self._contents(page)
            shown = {task.key: found.images for task, found in zip(page, contents, strict=True)}
            announce_tasks(self._store, page, shown)

    def send(self, seat: Seat, tasks: Sequence[StoredTask]) -> _Sent:
        """Brings the project of a seat to hold its open tasks, each once.

        Raises:
            ServiceError: the desk refuses, or stays unavailable.
        """
        desk = self._desks(seat.assignee)
        project_id = desk.ensure_project(project_spec(self._queue, seat))
        there = {task.key for task in tasks if _lies_in(task, desk.url, project_id)}
        wanted = [task for task in tasks if task.state in WAITING]
        duplicates = 0
        if desk.count(project_id).tasks != len(there):  # killed before, or lost on the desk
            there, duplicates = self._settle(desk, project_id, tasks)
        known = sum(task.key in there for task in wanted)
        fault: DeskUnavailableError | None = None
        for attempt in count(1):
            absent = [task for task in wanted if task.key not in there]
            if not absent:
                break
            if attempt > PUSH_ATTEMPTS:
                raise ServiceError(
                    f"{len(absent)} tasks of queue {self._queue.name} are not at {desk.url} after "
                    f"{PUSH_ATTEMPTS} attempts; the next push goes on ({fault})"
                ) from fault
            try:
                there |= self._import(desk, project_id, absent)
            except DeskUnavailableError as error:
                fault = error
                time.sleep(self._pause_seconds)
                there, removed = self._settle(desk, project_id, tasks)
                duplicates += removed
        return _Sent(seat.assignee, project_id, len(wanted) - known, known, duplicates)

    def _settle(
        self, desk: ReviewDesk, project_id: int, tasks: Sequence[StoredTask]
    ) -> tuple[set[str], int]:
        standing = settle(self._store, desk, project_id, {task.key: task for task in tasks})
        return set(standing.there), standing.duplicates

    def _import(self, desk: ReviewDesk, project_id: int, tasks: Sequence[StoredTask]) -> set[str]:
        """Sends tasks and notes where they lie."""
        for page in pages(tasks, _PAGE):
            new = [
                NewTask(task.key, {**content.data, "key": task.key}, content.predictions)
                for task, content in zip(page, self._contents(page), strict=True)
            ]
            numbers = desk.import_tasks(project_id, new)
            keys = [task.key for task in page]
            place_tasks(self._store, desk.url, project_id, dict(zip(keys, numbers, strict=True)))
        return {task.key for task in tasks}

    def _contents(self, tasks: Sequence[StoredTask]) -> list[TaskContent]:
        """The pages of tasks, in order; adjudicators see the answers, too."""
        shown = fetch(self._store, [task.entity_id for task in tasks])
        entities = [shown[task.entity_id] for task in tasks]
        contents = self._interface.contents(self._store, entities, self._images_url)
        conflicts = [task.entity_id for task in tasks if task.purpose == "adjudication"]
        with self._store.read() as connection:
            answers = counted_answers(connection, self._queue.name, conflicts)
        return [
            self._with_answers(content, entity, answers.get(entity.id, ()))
            if task.purpose == "adjudication"
            else content
            for task, entity, content in zip(tasks, entities, contents, strict=True)
        ]

    def _with_answers(
        self, content: TaskContent, entity: StoredEntity, answers: Sequence[CountedAnswer]
    ) -> TaskContent:
        given = [ReviewAnswer.model_validate(one.answer) for one in answers]
        panel = adjudication_data(self._interface, entity, given)
        return content._replace(data={**content.data, **panel})


def _lies_in(task: StoredTask, server: str, project_id: int) -> bool:
    """Whether the task is known to lie in that project; closed ones were removed from it."""
    place = (task.server, task.project_id)
    return task.task_id is not None and task.state != "closed" and place == (server, project_id)
