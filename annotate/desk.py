"""What Loupe needs of a review server, in its own words."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from schemas.errors import ServiceError

OPENED_WITH = "draft_id"
"""The name in a task's data of the id of the draft that its page opens with."""


class DeskUnavailableError(ServiceError):
    """The server did not answer, or with a fault: whether it did what was asked is not known."""


class DeskFaultError(DeskUnavailableError):
    """The server failed over what was asked, or its answer cannot be read: asking again is idle."""


class ProjectSpec(NamedTuple):
    """A project as it should stand on the server, found again by its `marker`."""

    marker: str
    title: str
    config: str
    instructions: str


class NewTask(NamedTuple):
    """A task about to be sent. `data` holds our key under `"key"`."""

    key: str
    data: dict[str, Any]
    predictions: list[dict[str, Any]]


class RemoteAnnotation(NamedTuple):
    """An annotation as it lies on the server; `cancelled` means that the task was skipped.

    `user_id` is who changed it last, `made_by` who is named as its author. `result` is what the
    server holds, whatever that is; where that could not be read, `fault` says why, and `result` is
    what the server sent, as text.
    """

    id: int
    user_id: int
    result: Any
    cancelled: bool
    updated_at: datetime
    lead_time_seconds: float | None
    created_at: datetime | None = None
    made_by: int | None = None
    fault: str = ""


class RemoteTask(NamedTuple):
    """A task as it lies on the server.

    `key` is empty for tasks that are none of ours; `drafts` counts answers that are being written;
    `updated_at` moves whenever an annotation of it is made, changed or deleted; `opened_with` is
    the id of the model's draft that its page opens with.
    """

    id: int
    key: str
    updated_at: datetime
    annotations: tuple[RemoteAnnotation, ...] = ()
    drafts: int = 0
    opened_with: str = ""

    @property
    def touched(self) -> bool:
        """Whether anybody has worked on it."""
        return bool(self.annotations or self.drafts)


class ProjectCounts(NamedTuple):
    """How much a project holds: a cheap look that tells whether a closer one is needed.

    `annotations` counts those of skipped tasks, too.
    """

    tasks: int
    annotations: int


class ReviewDesk(Protocol):
    """A workspace on a server where people answer review tasks; what one sees, no other does.

    Every call raises `ServiceError` when the server refuses, `DeskUnavailableError` when it may or
    may not have done what was asked: the caller looks at what is there before asking again. Calls
    that only look are repeated by the desk itself.
    """

    @property
    def url(self) -> str:
        """Where the server is at present."""
        ...

    @property
    def server_name(self) -> str:
        """What the store calls the server: the same wherever it is.

        Users, projects and tasks are known by it together with their number there.
        """
        ...

    def find_project(self, marker: str) -> int | None:
        """The number of the project with that marker, or None where there is none yet."""
        ...

    def ensure_project(self, spec: ProjectSpec) -> int:
        """The number of the project, made or brought up to date."""
        ...

    def import_tasks(self, project_id: int, tasks: Sequence[NewTask]) -> list[int]:
        """Adds tasks and gives their numbers, in order. Knows nothing of what is there already."""
        ...

    def count(self, project_id: int) -> ProjectCounts:
        """How much the project holds."""
        ...

    def list_tasks(
        self, project_id: int, since: datetime | None = None, after: int = 0
    ) -> Iterator[RemoteTask]:
        """The tasks of a project in the order of their numbers, complete or an error.

        What an annotation holds may make it unreadable, but no other.

        Args:
            project_id: the number of the project.
            since: only those with an `updated_at` of then or later.
            after: only those with a number above this one.
        """
        ...

    def delete_tasks(self, project_id: int, task_ids: Iterable[int]) -> None:
        """Removes tasks; those that are gone already are no error."""
        ...
