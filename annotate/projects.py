"""The projects of a queue: one for each person and purpose, in that person's own workspace."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from loupe.annotate.backend import MARKER, Desks, LabelStudioDesk, ProjectSpec, RemoteTask
from loupe.annotate.instructions import instructions_of
from loupe.annotate.interfaces.page import adjudication_config
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.queues import Queue
from loupe.db.annotations import annotations_of
from loupe.db.desk_events import StoredEvent
from loupe.db.reviews import (
    StoredTask,
    close_tasks,
    load_cursor,
    note_erased,
    place_tasks,
    project_of_tasks,
)
from loupe.db.store import Store
from loupe.schemas.errors import ServiceError
from loupe.schemas.grouping import grouped


class Seat(NamedTuple):
    """An assignee and a purpose, which have a project of their own."""

    assignee: str
    purpose: str

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return f"{self.purpose} by {self.assignee or 'the shared workspace'}"


def project_spec(queue: Queue, seat: Seat, added: Sequence[StoredEvent] = ()) -> ProjectSpec:
    """Return the project of a seat's tasks, with what the lead `added` to the instructions."""
    interface = interface_of(queue)
    config, what = interface.config, ""
    instructions = instructions_of(queue, seat.purpose, added)
    if seat.purpose == "adjudication":
        config, what = adjudication_config(interface), " · conflicts"
    elif seat.purpose == "audit":
        what = " · audit sample"
    title = f"Loupe · {queue.name}{what}"
    marker = _project_marker(queue.name, seat)
    question = re.search("<h3>(.*?)</h3>", instructions)
    note = question[1] if question else ""
    return ProjectSpec(marker, title, config, instructions, note, queue.priority)


def _project_marker(queue: str, seat: Seat) -> str:
    """Return a line of the project's description that identifies it before its tasks are stored."""
    return f"{MARKER} {queue} ({seat.purpose})"


def find_project(store: Store, desks: Desks, queue: Queue, seat: Seat) -> int | None:
    """Return the number of a seat's project, or None if there is none yet."""
    desk = desks(seat.assignee)
    known = project_of_tasks(store, desk.server_name, queue.name, *seat)
    return desk.find_project(_project_marker(queue.name, seat), known)


class ProjectTasks(NamedTuple):
    """The tasks in a project: `there` by our key, `foreign` ones by number.

    `adopted` counts tasks with an unknown place, `duplicates` tasks that existed twice and whose
    unanswered copies were removed.
    """

    there: dict[str, RemoteTask]
    adopted: int
    duplicates: int
    foreign: tuple[int, ...]


def settle(
    store: Store, desk: LabelStudioDesk, project_id: int, stored: Mapping[str, StoredTask]
) -> ProjectTasks:
    """List a project's tasks, record the places of ours, and remove surplus ones.

    The recorded place of missing tasks is cleared. Surplus tasks are unanswered copies (they arise
    when an import is still running after its response was lost) and unanswered tasks that are
    closed. Copies with answers are kept, then the oldest.
    """
    copies: dict[str, list[RemoteTask]] = defaultdict(list)
    foreign = []
    for task in desk.list_tasks(project_id):
        if task.key in stored:
            copies[task.key].append(task)
        else:
            foreign.append(task.id)
    there: dict[str, RemoteTask] = {}
    surplus: list[int] = []
    for key, tasks in copies.items():
        kept = there[key] = min(tasks, key=lambda task: (not task.touched, task.id))
        surplus += [task.id for task in tasks if task.id != kept.id and not task.touched]
    closed = [
        key for key, task in there.items() if stored[key].state == "closed" and not task.touched
    ]
    desk.delete_tasks(project_id, [*surplus, *(there.pop(key).id for key in closed)])
    places: dict[str, int | None] = {}
    for key, known in stored.items():
        here = (known.server, known.project_id) == (desk.server_name, project_id)
        if key in there:
            if not here or known.task_id != there[key].id:
                places[key] = there[key].id
        elif here and known.task_id is not None:
            places[key] = None
    place_tasks(store, desk.server_name, project_id, places)
    adopted = sum(number is not None for number in places.values())
    return ProjectTasks(there, adopted, len(surplus), tuple(foreign))


def remove_tasks(
    store: Store, desks: Desks, tasks: Iterable[StoredTask]
) -> Iterator[list[StoredTask]]:
    """Remove tasks from Label Studio; return the removed ones of each project.

    Tasks with an answer since the last pull stay, so that the next pull reads it.
    """
    by_project = grouped(((one.assignee, one.server, one.project_id), one) for one in tasks)
    for (assignee, server, project_id), found in sorted(by_project.items()):
        desk = desks(assignee)
        numbers = {task.key: task.task_id for task in found if task.task_id is not None}
        unread: set[str] = set()
        if numbers and server == desk.server_name:
            unread = _unread_tasks(store, desk, project_id, numbers)
            desk.delete_tasks(project_id, sorted({numbers[key] for key in numbers.keys() - unread}))
        yield [task for task in found if task.key not in unread]


def take_back(store: Store, desks: Desks, tasks: Iterable[StoredTask]) -> int:
    """Remove open tasks that nobody has opened or begun, and close them; return their number."""
    by_project: dict[tuple[str, str, int], dict[int, str]] = defaultdict(dict)
    for task in tasks:
        if task.task_id is not None:
            by_project[task.assignee, task.server, task.project_id][task.task_id] = task.key
    count = 0
    for (assignee, server, project_id), keys in sorted(by_project.items()):
        gone = desks(assignee).take_back(project_id, keys)
        count += close_tasks(store, [keys[number] for number in sorted(gone)], server)
    return count


def _unread_tasks(
    store: Store, desk: LabelStudioDesk, project_id: int, keys: Collection[str]
) -> set[str]:
    """Return the tasks with an answer in Label Studio that no pull has read."""
    cursor = load_cursor(store, desk.server_name, project_id)
    since = cursor.read_from if cursor else None
    changed = [task for task in desk.list_tasks(project_id, since) if task.key in keys]
    received = annotations_of(store, [task.key for task in changed])
    unread = set()
    for task in changed:
        there = {(one.id, one.updated_at) for one in task.annotations if not one.cancelled}
        here = {(one.remote_id, one.annotated_at) for one in received.get(task.key, ())}
        if there - here:
            unread.add(task.key)
    return unread


def erase(store: Store, desks: Desks, tasks: Iterable[StoredTask]) -> int:
    """Delete tasks with all answers from the server; return how many there were.

    They are found by our keys, as a restored server gives their numbers to other tasks.

    Raises:
        ServiceError: some could not be deleted; the others are recorded as deleted.
    """
    by_project: dict[tuple[str, str, Seat], set[str]] = defaultdict(set)
    for task in tasks:
        by_project[task.server, task.queue, Seat(task.assignee, task.purpose)].add(task.key)
    deleted, failures = 0, list[ServiceError]()
    for (server, queue, seat), keys in sorted(by_project.items()):
        try:
            deleted += _delete_by_keys(store, desks(seat.assignee), server, queue, seat, keys)
        except ServiceError as error:
            failures.append(error)
        else:
            note_erased(store, sorted(keys))
    if failures:
        raise failures[0]
    return deleted


def _delete_by_keys(
    store: Store,
    desk: LabelStudioDesk,
    server: str,
    queue: str,
    seat: Seat,
    keys: Collection[str],
) -> int:
    if desk.server_name != server:
        raise ServiceError(
            f"{len(keys)} tasks of queue {queue} are at {server}, and the review server of this "
            f"installation is {desk.server_name}; set LOUPE_LABEL_STUDIO_URL and "
            f"LOUPE_LABEL_STUDIO_TOKEN to the former to have them deleted"
        )
    known = project_of_tasks(store, server, queue, *seat)
    project_id = desk.find_project(_project_marker(queue, seat), known)
    if project_id is None:
        return 0
    numbers = [task.id for task in desk.list_tasks(project_id) if task.key in keys]
    desk.delete_tasks(project_id, numbers)
    return len(numbers)
