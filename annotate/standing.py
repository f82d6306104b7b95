"""How the tasks of a queue stand on the desk, compared with the store."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from annotate.desk import RemoteTask, ReviewDesk
from db.reviews import StoredTask, place_tasks
from db.store import Store


class Standing(NamedTuple):
    """The tasks on a desk: `there` by our key, `foreign` ones by number.

    `adopted` counts those of which it was not known where they are, `duplicates` those that were
    there twice and of which the copy nobody had touched was removed.
    """

    there: dict[str, RemoteTask]
    adopted: int
    duplicates: int
    foreign: tuple[int, ...]


def settle(
    store: Store, desk: ReviewDesk, project_id: int, stored: Mapping[str, StoredTask]
) -> Standing:
    """Looks at all tasks of a project, notes where ours are, and removes untouched duplicates.

    Two copies of a task come about when the answer to an import is lost so slowly that the import
    is still going on while we look.
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
    desk.delete_tasks(surplus)
    moved = {key: task.id for key, task in there.items() if _is_moved(stored[key], task, desk.url)}
    place_tasks(store, desk.url, project_id, moved)
    return Standing(there, len(moved), len(surplus), tuple(foreign))


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


def _is_moved(stored: StoredTask, task: RemoteTask, server: str) -> bool:
    return (stored.server, stored.task_id) != (server, task.id)
