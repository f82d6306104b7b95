"""A review desk in memory, on which tests act as the annotators."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from annotate.desk import DeskUnavailableError, NewTask, RemoteAnnotation, RemoteTask
from annotate.interfaces.interface import Interface
from annotate.queues import Queue


@dataclass
class MemoryDesk:
    """Keeps projects and tasks; `faults` are taken by imports, one each, from the left.

    A fault says whether the import was done before the answer was lost.
    """

    url: str = "memory://desk"
    faults: list[bool] = field(default_factory=list)
    projects: dict[str, int] = field(default_factory=dict)
    tasks: dict[int, dict[int, RemoteTask]] = field(default_factory=dict)
    sent: list[NewTask] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def find_project(self, queue: Queue) -> int | None:
        return self.projects.get(queue.name)

    def ensure_project(self, queue: Queue, interface: Interface) -> int:
        number = self.projects.setdefault(queue.name, len(self.projects) + 1)
        self.tasks.setdefault(number, {})
        return number

    def import_tasks(self, project_id: int, tasks: Sequence[NewTask]) -> None:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not False:
            self.sent += tasks
            for task in tasks:
                number = next(self._numbers)
                self.tasks[project_id][number] = RemoteTask(number, str(task.data["key"]))
        if fault is not None:
            raise DeskUnavailableError(f"{self.url} answered 502")

    def list_tasks(self, project_id: int) -> Iterator[RemoteTask]:
        yield from list(self.tasks[project_id].values())

    def delete_tasks(self, task_ids: Iterable[int]) -> None:
        for task_id in task_ids:
            for tasks in self.tasks.values():
                tasks.pop(task_id, None)

    def annotate(
        self,
        task_id: int,
        result: list[dict[str, Any]],
        annotation_id: int | None = None,
        user_id: int = 1,
        cancelled: bool = False,
    ) -> int:
        """Answers a task, or changes an answer; gives the annotation's number."""
        self._now += timedelta(seconds=10)
        number = annotation_id or next(self._numbers)
        made = RemoteAnnotation(number, user_id, result, cancelled, self._now, 4.0)
        project = next(tasks for tasks in self.tasks.values() if task_id in tasks)
        others = tuple(a for a in project[task_id].annotations if a.id != number)
        project[task_id] = project[task_id]._replace(annotations=(*others, made))
        return number

    def delete_annotation(self, annotation_id: int) -> None:
        """Removes an answer."""
        for tasks in self.tasks.values():
            for number, task in tasks.items():
                kept = tuple(a for a in task.annotations if a.id != annotation_id)
                tasks[number] = task._replace(annotations=kept)
