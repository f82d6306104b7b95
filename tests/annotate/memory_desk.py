"""Review desks in memory, on which tests act as annotators."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from loupe.annotate.backend import (
    MARKER,
    DeskUnavailableError,
    LabelStudioDesk,
    NewTask,
    ProjectCounts,
    ProjectSpec,
    RemoteAnnotation,
    RemoteTask,
    TaskData,
)
from loupe.annotate.interfaces.page import controls

_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class MemoryServer:
    """State shared by the workspaces of one server: ids and clock."""

    url: str = "memory://desk"
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    now: datetime = _START

    def tick(self) -> datetime:
        """Advance the clock by a minute and return the time."""
        self.now += timedelta(seconds=60)
        return self.now


@dataclass
class MemoryDesk(LabelStudioDesk):
    """A workspace that stores projects and tasks. Each import takes the first of `faults`.

    A fault states whether the import was done before the response was lost. `listed` counts the
    tasks that were returned by listings; `opened` are the tasks that are open in a browser.
    """

    server: MemoryServer = field(default_factory=MemoryServer)
    user_id: int = 1
    faults: list[bool] = field(default_factory=list)
    specs: dict[int, ProjectSpec] = field(default_factory=dict)
    tasks: dict[int, dict[int, RemoteTask]] = field(default_factory=dict)
    sent: list[NewTask] = field(default_factory=list)
    listed: int = 0
    opened: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.url = self.server_name = self.server.url

    @property
    def only_project(self) -> dict[int, RemoteTask]:
        """The tasks of the only project."""
        (tasks,) = self.tasks.values()
        return tasks

    def find_project(self, marker: str, known: int | None = None) -> int | None:
        found = [number for number, spec in self.specs.items() if spec.marker == marker]
        if not found and known in self.specs and not self.specs[known].marker.startswith(MARKER):
            return known
        return min(found, default=None)

    def ensure_project(self, spec: ProjectSpec, known: int | None = None) -> int:
        number = self.find_project(spec.marker, known) or next(self.server.numbers)
        self.specs[number] = spec
        self.tasks.setdefault(number, {})
        return number

    def import_tasks(self, project_id: int, tasks: Sequence[NewTask]) -> list[int]:
        fault = self.faults.pop(0) if self.faults else None
        task_ids = []
        if fault is not False:
            self.sent += tasks
            for task in tasks:
                task_ids.append(next(self.server.numbers))
                data = TaskData.model_validate(task.data)
                now = self.server.tick()
                self.tasks[project_id][task_ids[-1]] = RemoteTask(
                    id=task_ids[-1], data=data, updated_at=now
                )
        if fault is not None:
            raise DeskUnavailableError(f"{self.url} answered 502")
        return task_ids

    def count(self, project_id: int) -> ProjectCounts:
        tasks = self.tasks[project_id].values()
        return ProjectCounts(len(tasks), sum(len(task.annotations) for task in tasks))

    def list_tasks(
        self, project_id: int, since: datetime | None = None, after: int = 0
    ) -> Iterator[RemoteTask]:
        for task in list(self.tasks[project_id].values()):
            if task.id > after and (since is None or task.updated_at >= since):
                self.listed += 1
                yield task

    def delete_tasks(
        self, project_id: int, task_ids: Iterable[int], *, unopened: bool = False
    ) -> None:
        for task_id in task_ids:
            if not (unopened and task_id in self.opened):
                self.tasks[project_id].pop(task_id, None)

    def annotate(
        self,
        task_id: int,
        result: Any,
        annotation_id: int | None = None,
        user_id: int | None = None,
        cancelled: bool = False,
        made_by: int | None = None,
        seconds: float = 4.0,
    ) -> int:
        """Answer a task or change an answer, and return the id of the annotation."""
        number = annotation_id or next(self.server.numbers)
        now, person = self.server.tick(), user_id or self.user_id
        project = self._project_of(task_id)
        before = [a.created_at for a in project[task_id].annotations if a.id == number]
        created = before[0] if before else now
        annotation = RemoteAnnotation(
            id=number,
            completed_by=made_by,
            updated_by=person,
            result=result,
            cancelled=cancelled,
            created_at=created,
            updated_at=now,
            lead_time_seconds=seconds,
        )
        others = tuple(a for a in project[task_id].annotations if a.id != number)
        change = {"annotations": (*others, annotation), "updated_at": now}
        project[task_id] = project[task_id].model_copy(update=change)
        return number

    def submit(
        self, task_id: int, regions: list[dict[str, Any]], annotation_id: int | None = None
    ) -> int:
        """Answer a task as its page does, which adds the target of each region."""
        project = self._project_of(task_id)
        config = next(
            self.specs[key].config for key, tasks in self.tasks.items() if tasks is project
        )
        targets = [(one.name, one.target) for one in controls(config)]
        about = [
            {"to_name": target, **region}
            for region in regions
            for name, target in targets
            if name.fullmatch(region["from_name"])
        ]
        return self.annotate(task_id, about, annotation_id)

    def move_annotation(self, annotation_id: int, task_id: int) -> None:
        """Move an annotation to another task, as Label Studio does for a request that names one."""
        found = [
            annotation
            for tasks in self.tasks.values()
            for task in tasks.values()
            for annotation in task.annotations
            if annotation.id == annotation_id
        ]
        self.delete_annotation(annotation_id)
        project, now = self._project_of(task_id), self.server.tick()
        moved = tuple(one.model_copy(update={"updated_at": now}) for one in found)
        change = {"annotations": moved, "updated_at": now}
        project[task_id] = project[task_id].model_copy(update=change)

    def delete_annotation(self, annotation_id: int) -> None:
        """Delete an annotation."""
        for tasks in self.tasks.values():
            for number, task in tasks.items():
                kept = tuple(a for a in task.annotations if a.id != annotation_id)
                if kept != task.annotations:
                    now = self.server.tick()
                    change = {"annotations": kept, "updated_at": now}
                    tasks[number] = task.model_copy(update=change)

    def open_tasks(self, purpose: str = "review") -> list[RemoteTask]:
        """Return the open tasks of the person of this workspace."""
        return [
            task
            for number, tasks in self.tasks.items()
            for task in tasks.values()
            if not task.annotations and f"({purpose})" in self.specs[number].marker
        ]

    def _project_of(self, task_id: int) -> dict[int, RemoteTask]:
        return next(tasks for tasks in self.tasks.values() if task_id in tasks)


class MemoryOffice:
    """Desks of all assignees on one server; call it with a pseudonym."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.desks: dict[str, MemoryDesk] = {}

    def __call__(self, assignee: str) -> MemoryDesk:
        if assignee not in self.desks:
            self.desks[assignee] = MemoryDesk(self.server, user_id=len(self.desks) + 1)
        return self.desks[assignee]
