"""What Loupe needs of a review server, in its own words."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from annotate.interfaces.interface import Interface
from annotate.queues import Queue
from schemas.errors import ServiceError


class DeskUnavailableError(ServiceError):
    """The server did not answer, or with a fault: whether it did what was asked is not known."""


class NewTask(NamedTuple):
    """A task about to be sent. `data` holds our key under `"key"`."""

    key: str
    data: dict[str, Any]
    predictions: list[dict[str, Any]]


class RemoteAnnotation(NamedTuple):
    """An annotation as it lies on the server; `cancelled` means that the task was skipped."""

    id: int
    user_id: int
    result: list[dict[str, Any]]
    cancelled: bool
    updated_at: datetime
    lead_time_seconds: float | None


class RemoteTask(NamedTuple):
    """A task as it lies on the server.

    `key` is empty for tasks that are none of ours; `drafts` counts answers that are being written.
    """

    id: int
    key: str
    annotations: tuple[RemoteAnnotation, ...] = ()
    drafts: int = 0

    @property
    def touched(self) -> bool:
        """Whether anybody has worked on it."""
        return bool(self.annotations or self.drafts)


class ReviewDesk(Protocol):
    """A server on which people answer review tasks.

    Every call raises `ServiceError` when the server refuses, `DeskUnavailableError` when it may or
    may not have done what was asked: the caller looks at what is there before asking again.
    """

    @property
    def url(self) -> str:
        """Where the server is; users are known by it together with their number."""
        ...

    def find_project(self, queue: Queue) -> int | None:
        """The number of the queue's project, or None where there is none yet."""
        ...

    def ensure_project(self, queue: Queue, interface: Interface) -> int:
        """The number of the queue's project, made or brought up to date with its interface."""
        ...

    def import_tasks(self, project_id: int, tasks: Sequence[NewTask]) -> None:
        """Adds tasks. Knows nothing of what is there already."""
        ...

    def list_tasks(self, project_id: int) -> Iterator[RemoteTask]:
        """All tasks of a project in the order of their numbers, complete or an error."""
        ...

    def delete_tasks(self, task_ids: Iterable[int]) -> None:
        """Removes tasks; those that are gone already are no error."""
        ...
