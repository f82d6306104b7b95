"""The projects of a queue: one for each person and purpose, in that person's own workspace."""

from collections.abc import Callable
from typing import NamedTuple

from annotate.backend import MARKER, AnnotationBackend, ProjectSpec
from annotate.interfaces.adjudication import adjudication_config, adjudication_instructions
from annotate.interfaces.registry import interface_of
from annotate.queues import Queue
from db.reviews import project_of_tasks
from db.store import Store

Desks = Callable[[str], AnnotationBackend]
"""Gives the workspace of an assignee, by pseudonym; `HOUSE` is the installation itself."""


class Seat(NamedTuple):
    """A person's place in a queue: the assignee and the purpose."""

    assignee: str
    purpose: str

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return f"{self.purpose} by {self.assignee or 'the house'}"


def project_spec(queue: Queue, seat: Seat) -> ProjectSpec:
    """The project of a seat's tasks."""
    interface = interface_of(queue)
    title = f"Loupe · {queue.name}"
    if seat.purpose == "adjudication":
        return ProjectSpec(
            project_marker(queue.name, seat),
            f"{title} · conflicts",
            adjudication_config(interface),
            adjudication_instructions(interface),
            priority=queue.priority,
        )
    if seat.purpose == "audit":
        title = f"{title} · audit sample"
    return ProjectSpec(
        project_marker(queue.name, seat),
        title,
        interface.config,
        interface.instructions,
        priority=queue.priority,
    )


def project_marker(queue: str, seat: Seat) -> str:
    """A line of the project's description, by which it is found before a task of it is stored."""
    return f"{MARKER} {queue} ({seat.purpose})"


def stored_project(store: Store, server: str, queue: str, seat: Seat) -> int | None:
    """The number of the project that the tasks of a seat were sent to, as the store has it."""
    return project_of_tasks(store, server, queue, seat.assignee, seat.purpose)


def find_project(store: Store, desks: Desks, queue: Queue, seat: Seat) -> int | None:
    """The number of a seat's project, or None where there is none yet."""
    desk = desks(seat.assignee)
    known = stored_project(store, desk.server_name, queue.name, seat)
    return desk.find_project(project_marker(queue.name, seat), known)
