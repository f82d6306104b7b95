"""How the tasks of projects stand on the desk, compared with the store; and their erasure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from annotate.desk import RemoteTask, ReviewDesk
from annotate.projects import Desks, Seat, project_marker
from db.reviews import StoredTask, note_erased, place_tasks
from db.store import Store
from schemas.errors import ServiceError


class Standing(NamedTuple):
    """The tasks in a project: `there` by our key, `foreign` ones by number.

    `adopted` counts those of which it was not known where they are, `duplicates` those that were
    there twice and of which the copies that nobody had touched were removed.
    """

    there: dict[str, RemoteTask]
    adopted: int
    duplicates: int
    foreign: tuple[int, ...]


def settle(
    store: Store, desk: ReviewDesk, project_id: int, stored: Mapping[str, StoredTask]
) -> Standing:
    """Looks at all tasks of a project, notes where ours are, and removes what is there too much.

    Ours that are gone lie nowhere from then on. Too much are copies that nobody has touched (they
    come about when the answer to an import is lost so slowly that the import is still going on
    while we look), and tasks that were closed.
    """
    copies: dict[str, list[RemoteTask]] = defaultdict(list)
    foreign = []
    for task in desk.list_tasks(project_id):
        if task.key in stored:
            copies[task.key].append(task)
        else:
            foreign.append(task.id)
    there = {key: min(tasks, key=_worth_keeping) for key, tasks in copies.items()}
    surplus = list(_untouched_copies(copies, there))
    closed = [key for key, task in there.items() if _is_over(stored[key], task)]
    desk.delete_tasks(project_id, [*surplus, *(there.pop(key).id for key in closed)])
    place = (desk.server_name, project_id)
    moved: dict[str, int | None] = {
        key: task.id for key, task in there.items() if _place(stored[key]) != (*place, task.id)
    }
    gone = [key for key in stored.keys() - there.keys() if _lay_in(stored[key], *place)]
    place_tasks(store, *place, {**moved, **dict.fromkeys(gone)})
    return Standing(there, len(moved), len(surplus), tuple(foreign))


def erase(store: Store, desks: Desks, tasks: Iterable[StoredTask]) -> int:
    """Deletes tasks with all answers on the desk, answered or not; gives how many lay there.

    They are found by our keys, as a server that was set back gives numbers to others.

    Raises:
        ServiceError: some could not be deleted; those that could be are noted as gone.
    """
    by_project: dict[tuple[str, str, Seat], set[str]] = defaultdict(set)
    for task in tasks:
        by_project[task.server, task.queue, Seat(task.assignee, task.purpose)].add(task.key)
    deleted, failures = 0, list[ServiceError]()
    for (server, queue, seat), keys in sorted(by_project.items()):
        try:
            deleted += _erase_of_project(desks(seat.assignee), server, queue, seat, keys)
        except ServiceError as error:
            failures.append(error)
        else:
            note_erased(store, sorted(keys))
    if failures:
        raise failures[0]
    return deleted


def _erase_of_project(
    desk: ReviewDesk, server: str, queue: str, seat: Seat, keys: Collection[str]
) -> int:
    if desk.server_name != server:
        raise ServiceError(
            f"{len(keys)} tasks of queue {queue} lie at {server}, and the review server of this "
            f"installation is {desk.server_name}; set LOUPE_LABEL_STUDIO_URL and "
            f"LOUPE_LABEL_STUDIO_TOKEN to the former to have them deleted"
        )
    project_id = desk.find_project(project_marker(queue, seat))
    if project_id is None:
        return 0
    numbers = [task.id for task in desk.list_tasks(project_id) if task.key in keys]
    desk.delete_tasks(project_id, numbers)
    return len(numbers)


def _worth_keeping(task: RemoteTask) -> tuple[bool, int]:
    """Orders copies: first those that somebody worked on, then the older ones."""
    return (not task.touched, task.id)


def _untouched_copies(
    copies: Mapping[str, list[RemoteTask]], kept: Mapping[str, RemoteTask]
) -> Iterable[int]:
    return (
        task.id
        for key, tasks in copies.items()
        for task in tasks
        if task.id != kept[key].id and not task.touched
    )


def _is_over(stored: StoredTask, task: RemoteTask) -> bool:
    return stored.state == "closed" and not task.touched


def _lay_in(stored: StoredTask, server: str, project_id: int) -> bool:
    return stored.task_id is not None and (stored.server, stored.project_id) == (server, project_id)


def _place(stored: StoredTask) -> tuple[str, int, int | None]:
    return (stored.server, stored.project_id, stored.task_id)
