"""What people said and did on the desk: threads about items, messages, and the lead's actions."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from loupe.db.entities import change_in
from loupe.db.store import reads, writes
from loupe.db.tables import (
    Annotation,
    Annotator,
    Decision,
    DeskEvent,
    GoldItem,
    ReviewTask,
    TaskReturn,
    select_columns,
)

Kind = Literal["question", "answer", "message", "instruction", "action"]


class NewEvent(NamedTuple):
    """An event to store; see `loupe.db.tables.DeskEvent`."""

    kind: Kind
    author: str
    text: str
    queue: str = ""
    entity_id: str | None = None
    annotator: str = ""
    details: dict[str, Any] | None = None


class StoredEvent(NamedTuple):
    """An event with its number and time."""

    id: int
    at: datetime
    kind: str
    author: str
    queue: str
    entity_id: str | None
    annotator: str
    text: str
    details: dict[str, Any]


@writes
def append_event(connection: Connection, event: NewEvent) -> None:
    """Append an event at the present time."""
    row = {**event._asdict(), "details": event.details or {}, "at": datetime.now(UTC)}
    connection.execute(insert(DeskEvent), row)


@reads
def desk_events(
    connection: Connection, /, newest: int | None = None, **values: object
) -> list[StoredEvent]:
    """Return events with these values, oldest first: all, or only so many of the newest.

    `values` are the values of their columns, a tuple for one of several.
    """
    columns = DeskEvent.__table__.c
    query = select_columns(DeskEvent, StoredEvent._fields).order_by(DeskEvent.id.desc())
    for name, value in values.items():
        column = columns[name]
        query = query.where(column.in_(value) if isinstance(value, tuple) else column == value)
    rows = connection.execute(query.limit(newest)).all()
    return [StoredEvent._make(row) for row in reversed(rows)]


def erase_events(connection: Connection, entity_ids: Sequence[str]) -> None:
    """Erase what was said and done about entities."""
    change_in(connection, delete(DeskEvent), DeskEvent.entity_id, entity_ids)


def erase_words_of(connection: Connection, person: str) -> None:
    """Erase what a person asked, and what the lead wrote to them."""
    theirs = DeskEvent.annotator == person, DeskEvent.kind != "action"
    connection.execute(delete(DeskEvent).where(*theirs))


@reads
def desk_mark(connection: Connection) -> tuple[object, ...]:
    """Return a value that changes with everything that the lead's page shows."""
    newest = (
        func.max(Decision.id),
        func.max(DeskEvent.id),
        func.max(Annotation.received_at),
        func.max(ReviewTask.pushed_at),
        func.max(TaskReturn.id),
        func.max(TaskReturn.lifted_at),
        func.max(GoldItem.added_at),
    )
    marks: list[object] = [str(connection.scalar(select(one))) for one in newest]
    people = select(Annotator.pseudonym, Annotator.state).order_by(Annotator.pseudonym)
    tasks = select(ReviewTask.queue, ReviewTask.state, func.count())
    counts = tasks.group_by(ReviewTask.queue, ReviewTask.state)
    marks += sorted(map(tuple, connection.execute(counts)))
    return (*marks, *map(tuple, connection.execute(people)))
