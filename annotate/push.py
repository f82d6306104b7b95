"""Sends to the desk what waits for people, and takes off it what needs nobody any more.

It can be repeated, or killed, at any moment. A task carries our own key in its data, so that what
is on the desk is recognised whoever put it there and however the answer got lost.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import NamedTuple

from annotate.answers import ReviewAnswer
from annotate.desk import DeskUnavailableError, NewTask, ReviewDesk
from annotate.drafts import offered_drafts
from annotate.interfaces.adjudication import adjudication_data
from annotate.interfaces.interface import TaskContent
from annotate.interfaces.registry import interface_of
from annotate.plan import make_plan
from annotate.projects import Desks, Seat, project_spec
from annotate.queues import HOUSE, Queue
from annotate.reports import PushReport
from annotate.standing import settle
from db.annotations import CountedAnswer, annotations_of, counted_answers
from db.entities import StoredEntity, fetch, pages
from db.reviews import (
    WAITING,
    StoredTask,
    announce_tasks,
    close_tasks,
    load_cursor,
    place_tasks,
    review_tasks,
    tasks_by_key,
)
from db.store import Store
from schemas.errors import ServiceError

PUSH_ATTEMPTS = 4
PAUSE_SECONDS = 0.5
_PAGE = 500


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
        UsageError: the queue names somebody whom nobody knows, or wants more people than there are.
        ServiceError: the desk refuses, or stays unavailable.
    """
    stored = review_tasks(store, queue.name)
    plan = make_plan(store, queue, desks(HOUSE).server_name, stored)
    announce_tasks(store, plan.new, {})  # a plan is made once, however often it is interrupted
    pusher = _Pusher(store, desks, queue, images_url, pause_seconds)
    sent = [pusher.send(seat, tasks) for seat, tasks in _by_seat(stored, plan.new)]
    closed = _take_back(store, desks, tasks_by_key(store, [task.key for task in plan.obsolete]))
    new = Counter(_sort_of(task) for task in plan.new)
    return PushReport(
        queue=queue.name,
        pushed=sum(one.pushed for one in sent),
        known=sum(one.known for one in sent),
        gold=new["gold"],
        conflicts=new["conflict"],
        duplicates=sum(one.duplicates for one in sent),
        closed=closed,
        short=plan.short,
        projects=tuple((one.assignee, one.project_id) for one in sent),
    )


def _sort_of(task: StoredTask) -> str:
    return "gold" if task.gold else "conflict" if task.purpose == "adjudication" else "other"


def _by_seat(
    stored: Mapping[str, StoredTask], new: Sequence[StoredTask]
) -> list[tuple[Seat, list[StoredTask]]]:
    """All tasks of each seat that has open ones, new ones last and in their order."""
    again = {task.key for task in new}
    before = [task for key, task in stored.items() if key not in again]
    by_seat: dict[Seat, list[StoredTask]] = defaultdict(list)
    for task in (*before, *new):
        by_seat[Seat(task.assignee, task.purpose)].append(task)
    return [
        (seat, tasks)
        for seat, tasks in sorted(by_seat.items())
        if any(task.state in WAITING for task in tasks)
    ]


def _take_back(store: Store, desks: Desks, obsolete: Mapping[str, StoredTask]) -> int:
    """Closes tasks and removes them from the desk, but for those just answered; counts them.

    An answer that came in since the last pull is read by the next one. Comes after the sending,
    which has noticed by then if the numbers on the desk are no longer what they were.
    """
    by_project: dict[tuple[str, str, int], list[StoredTask]] = defaultdict(list)
    for task in obsolete.values():
        by_project[task.assignee, task.server, task.project_id].append(task)
    closed = 0
    for (assignee, server, project_id), tasks in sorted(by_project.items()):
        desk = desks(assignee)
        numbers = {task.key: task.task_id for task in tasks if task.task_id is not None}
        unread: set[str] = set()
        if numbers and server == desk.server_name:
            unread = _unread(store, desk, project_id, numbers)
            desk.delete_tasks(project_id, sorted({numbers[key] for key in numbers.keys() - unread}))
        closed += close_tasks(store, [task.key for task in tasks if task.key not in unread])
    return closed


def _unread(store: Store, desk: ReviewDesk, project_id: int, keys: Collection[str]) -> set[str]:
    """Those of the tasks in which there is an answer on the desk that no pull has seen."""
    cursor = load_cursor(store, desk.server_name, project_id)
    since = cursor.read_from if cursor else None
    changed = [task for task in desk.list_tasks(project_id, since) if task.key in keys]
    received = annotations_of(store, [task.key for task in changed])
    return {
        task.key
        for task in changed
        if {(one.id, one.updated_at) for one in task.annotations if not one.cancelled}
        - {(one.remote_id, one.annotated_at) for one in received.get(task.key, ())}
    }


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

    def send(self, seat: Seat, tasks: Sequence[StoredTask]) -> _Sent:
        """Brings the project of a seat to hold its open tasks, each once.

        Raises:
            ServiceError: the desk refuses, or stays unavailable.
        """
        desk = self._desks(seat.assignee)
        project_id = desk.ensure_project(project_spec(self._queue, seat))
        placed = {
            task.task_id: task.key
            for task in tasks
            if task.task_id is not None and _lies_in(task, desk.server_name, project_id)
        }
        there, duplicates = set(placed.values()), 0
        wanted = [task for task in tasks if task.state in WAITING]
        if not _holds(desk, project_id, placed):  # killed before, or lost on the desk
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
        """Sends tasks and notes where they lie; a page is made while the one before is on its way.

        What a page shows is stored first: images are served from the moment they are seen.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="import") as sender:
            last: tuple[list[StoredTask], Future[list[int]]] | None = None
            for page in pages(tasks, _PAGE):
                new = self._new_tasks(page)
                if last is not None:
                    self._place(desk, project_id, *last)
                last = page, sender.submit(desk.import_tasks, project_id, new)
            if last is not None:
                self._place(desk, project_id, *last)
        return {task.key for task in tasks}

    def _new_tasks(self, tasks: Sequence[StoredTask]) -> list[NewTask]:
        contents = self._contents(tasks)
        images = {task.key: found.images for task, found in zip(tasks, contents, strict=True)}
        announce_tasks(self._store, tasks, images)
        return [
            NewTask(task.key, {**content.data, "key": task.key}, content.predictions)
            for task, content in zip(tasks, contents, strict=True)
        ]

    def _place(
        self,
        desk: ReviewDesk,
        project_id: int,
        tasks: Sequence[StoredTask],
        numbers: Future[list[int]],
    ) -> None:
        keys = [task.key for task in tasks]
        places = dict(zip(keys, numbers.result(), strict=True))
        place_tasks(self._store, desk.server_name, project_id, places)

    def _contents(self, tasks: Sequence[StoredTask]) -> list[TaskContent]:
        """The pages of tasks, in order; adjudicators see the answers, too."""
        shown = fetch(self._store, [task.entity_id for task in tasks])
        entities = [shown[task.entity_id] for task in tasks]
        contents = self._interface.contents(self._store, entities, self._images_url)
        drafts = offered_drafts(self._store, self._queue, tasks)
        contents = [
            self._interface.with_draft(content, drafts[task.key]) if task.key in drafts else content
            for task, content in zip(tasks, contents, strict=True)
        ]
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
    """Whether the task was put into that project; closed ones were removed from it."""
    return task.state != "closed" and (task.server, task.project_id) == (server, project_id)


def _holds(desk: ReviewDesk, project_id: int, placed: Mapping[int, str]) -> bool:
    """Whether the project holds as many tasks as were put there, and the newest among them.

    One that was set back to an older state may hold as many: what was removed since is there again.

    Args:
        desk: where the project is.
        project_id: the number of the project.
        placed: our keys by the numbers of the tasks.
    """
    if desk.count(project_id).tasks != len(placed):
        return False
    newest = max(placed, default=0)
    listed = desk.list_tasks(project_id, after=newest - 1) if placed else ()
    return [task.key for task in listed] == ([placed[newest]] if placed else [])
