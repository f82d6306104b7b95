"""Store and query annotations, which are identified by their content.

Storing an annotation again has no effect. All annotations are kept; the last one of a task counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, insert, or_, select, true, update

from loupe.db.entities import AgentRef, change_in, pages, register_agents, rows_in
from loupe.db.reviews import StoredTask, change_tasks
from loupe.db.store import Store, reads, writes
from loupe.db.tables import (
    IS_LAST,
    Agent,
    Annotation,
    Decision,
    Derivation,
    Entity,
    ReviewTask,
    alias,
    select_columns,
)
from loupe.schemas.grouping import grouped
from loupe.schemas.provenance import Role

_ROWS_AT_ONCE = 2000
AnnotationState = Literal["clear", "unclear", "sent_back", "quarantined", "discarded"]


class StoredAnnotation(NamedTuple):
    """An annotation in the store."""

    key: str
    review_task_key: str
    remote_id: int
    state: str
    agent_id: str
    result: dict[str, Any]
    answer: dict[str, Any]
    annotated_at: datetime


class NewAnnotation(NamedTuple):
    """An annotation to store; `instructions` is the digest of those that its author had."""

    key: str
    task: StoredTask
    agent: AgentRef
    remote_id: int
    result: dict[str, Any]
    answer: dict[str, Any]
    lead_time_seconds: float | None
    annotated_at: datetime
    state: AnnotationState = "clear"
    instructions: str | None = None


class UnclearAnnotation(NamedTuple):
    """An annotation that does not count, with the reason.

    `state` is unclear, sent_back (its author has the task again) or quarantined. `result` is the
    content of the page.
    """

    key: str
    task: StoredTask
    remote_id: int
    state: str
    problem: str
    result: dict[str, Any]


class GivenAnswer(NamedTuple):
    """The answer of a task that counts: the last clear one.

    `person` is the pseudonym of its author, also if the task was in the account of the
    installation. `instructions` is the digest of those that its author had.
    """

    entity_id: str
    task_key: str
    assignee: str
    purpose: str
    gold: bool
    person: str
    answer: dict[str, Any]
    lead_time_seconds: float | None
    annotation_key: str
    annotated_at: datetime
    instructions: str | None = None


@reads
def annotations_of(
    connection: Connection, task_keys: Iterable[str]
) -> dict[str, list[StoredAnnotation]]:
    """Return the annotations of each task, oldest first."""
    query = _ANNOTATIONS.order_by(Annotation.annotated_at, Annotation.key)
    rows = rows_in(connection, query, Annotation.review_task_key, task_keys)
    return grouped((row.review_task_key, StoredAnnotation._make(row)) for row in rows)


def insert_annotations(
    connection: Connection, annotations: Sequence[NewAnnotation]
) -> list[NewAnnotation]:
    """Store annotations and return those that were new."""
    keys = [annotation.key for annotation in annotations]
    known = {key for (key,) in rows_in(connection, select(Annotation.key), Annotation.key, keys)}
    new = list({a.key: a for a in annotations if a.key not in known}.values())
    register_agents(connection, sorted({annotation.agent for annotation in new}))
    now = datetime.now(UTC)
    rows = []
    for annotation in new:
        row = annotation._asdict()
        keys_of = {"review_task_key": row.pop("task").key, "agent_id": row.pop("agent").id}
        rows.append({**row, **keys_of, "received_at": now})
    if rows:
        connection.execute(insert(Annotation), rows)
    return new


def answers_where(
    connection: Connection, *conditions: ColumnElement[bool]
) -> Iterator[GivenAnswer]:
    """Iterate over the answers that count, one per task, by item in the order of ids.

    Those of an item are in the order of their times. Tasks that were skipped or returned have none.
    They are read in pages, so consume them quickly. The `conditions` are on tasks, annotations and
    entities.
    """
    query = (
        select(
            ReviewTask.entity_id,
            ReviewTask.key,
            ReviewTask.assignee,
            ReviewTask.purpose,
            ReviewTask.gold,
            Agent.name,
            Annotation.answer,
            Annotation.lead_time_seconds,
            Annotation.key.label("annotation_key"),
            Annotation.annotated_at,
            Annotation.instructions,
        )
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .join(Agent, Agent.id == Annotation.agent_id)
        .join(Entity, Entity.id == ReviewTask.entity_id)
        .where(ReviewTask.state == "answered", Annotation.state == "clear", *conditions)
        .order_by(ReviewTask.entity_id, Annotation.annotated_at, Annotation.key)
        .execution_options(yield_per=_ROWS_AT_ONCE)
    )
    rows = map(GivenAnswer._make, connection.execute(query))
    for _, group in groupby(rows, key=lambda one: one.entity_id):
        last = {one.task_key: one for one in group}
        yield from sorted(last.values(), key=lambda one: (one.annotated_at, one.annotation_key))


def given_answers(store: Store, queue: str) -> Iterator[GivenAnswer]:
    """Iterate over the answers of a queue that count, gold items and audits included."""
    with store.read() as connection:
        yield from answers_where(connection, ReviewTask.queue == queue)


def counted_answers(
    connection: Connection, queue: str | None, entity_ids: Iterable[str]
) -> dict[str, list[GivenAnswer]]:
    """Return, for each entity, the answers that count in a queue (None: in any), oldest first.

    Answers to gold items are left out.
    """
    chosen = ReviewTask.gold.is_(False), true() if queue is None else ReviewTask.queue == queue
    return grouped(
        (one.entity_id, one)
        for page in pages(entity_ids)
        for one in answers_where(connection, *chosen, ReviewTask.entity_id.in_(page))
    )


@reads
def first_opinion(
    connection: Connection, queue: str, entity_id: str, annotation_key: str
) -> dict[str, Any] | None:
    """Return an annotation's answer about an item of a queue; None if there is no clear one."""
    query = (
        select(Annotation.answer)
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .where(
            Annotation.key == annotation_key,
            Annotation.state == "clear",
            ReviewTask.queue == queue,
            ReviewTask.entity_id == entity_id,
            ReviewTask.purpose == "review",
            ReviewTask.gold.is_(False),
        )
    )
    return connection.scalar(query)


@reads
def count_annotations(connection: Connection) -> int:
    """Count all saved answers, of which none is ever changed."""
    return connection.execute(select(func.count()).select_from(Annotation)).scalar_one()


@reads
def answer_counts(
    connection: Connection, queue: str, since: datetime | None = None
) -> dict[str, int]:
    """Count the tasks with a clear answer of each assignee, in all or since a time."""
    query = (
        select(ReviewTask.assignee, func.count(ReviewTask.key.distinct()))
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .where(
            ReviewTask.queue == queue,
            true() if since is None else Annotation.annotated_at >= since,
            Annotation.state == "clear",
        )
        .group_by(ReviewTask.assignee)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


@reads
def last_received(connection: Connection, queue: str) -> datetime | None:
    """Return when the last answer of a queue was stored; None before the first."""
    query = (
        select(func.max(Annotation.received_at))
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .where(ReviewTask.queue == queue)
    )
    return connection.execute(query).scalar_one()


@reads
def unclear_annotations(connection: Connection, queue: str) -> list[UnclearAnnotation]:
    """Return the annotations that need the attention of a queue's lead, oldest first.

    These are quarantined annotations, and the last annotation of each task that waits for a clear
    one.
    """
    query = (
        select_columns(ReviewTask, StoredTask._fields)
        .add_columns(
            Annotation.key.label("annotation_key"),
            Annotation.remote_id,
            Annotation.state.label("annotation_state"),
            Annotation.answer["problem"].as_string(),
            Annotation.result,
        )
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .where(
            ReviewTask.queue == queue,
            or_(
                Annotation.state == "quarantined",
                and_(Annotation.state.in_(("unclear", "sent_back")), ReviewTask.state == "unclear"),
            ),
        )
        .order_by(Annotation.annotated_at, Annotation.key)
    )
    rows: list[Any] = [*connection.execute(query)]
    found = [UnclearAnnotation(row[-5], StoredTask._make(row[:-5]), *row[-4:]) for row in rows]
    last = {
        (one.task.key, one.remote_id if one.state == "quarantined" else None): one.key
        for one in found
    }
    shown = set(last.values())
    return [one for one in found if one.key in shown]


@reads
def annotations_numbered(
    connection: Connection, server: str, remote_ids: Iterable[int]
) -> list[StoredAnnotation]:
    """Return the annotations with these numbers on a server, oldest first."""
    query = (
        _ANNOTATIONS.join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .where(ReviewTask.server == server)
        .order_by(Annotation.annotated_at, Annotation.key)
    )
    rows = rows_in(connection, query, Annotation.remote_id, remote_ids)
    return [StoredAnnotation._make(row) for row in rows]


@writes
def discard_annotations(connection: Connection, annotations: Sequence[UnclearAnnotation]) -> None:
    """Mark annotations as discarded and reopen tasks without another one; they are on no server."""
    tasks = sorted({one.task.key for one in annotations if one.task.state == "unclear"})
    discarded = update(Annotation).values(state="discarded")
    waiting = discarded.where(Annotation.state.in_(("unclear", "sent_back", "quarantined")))
    change_in(connection, waiting, Annotation.review_task_key, tasks)
    change_tasks(connection, tasks, ReviewTask.state == "unclear", state="open", task_id=None)
    change_in(connection, discarded, Annotation.key, {one.key for one in annotations})


@writes
def send_back(connection: Connection, keys: Sequence[str]) -> None:
    """Record that tasks with unclear or revoked answers were removed, to be sent again.

    The tasks wait; they are on no server until they are sent.
    """
    revoked = select(ReviewTask.key).where(ReviewTask.state == "returned")
    of_revoked = Annotation.review_task_key.in_(revoked) & (Annotation.state == "clear")
    given = update(Annotation).where((Annotation.state == "unclear") | of_revoked)
    change_in(connection, given.values(state="sent_back"), Annotation.review_task_key, keys)
    change_tasks(connection, keys, ReviewTask.state == "unclear", task_id=None)
    change_tasks(connection, keys, ReviewTask.state == "returned", state="open", task_id=None)


def decided_by_answers(connection: Connection, entity_ids: Iterable[str]) -> set[str]:
    """Return those of the entities whose last decision follows from an answer."""
    query = select(Decision.entity_id).where(IS_LAST, Decision.annotation_key.is_not(None))
    return {id_ for (id_,) in rows_in(connection, query, Decision.entity_id, entity_ids)}


def successors_of(connection: Connection, entity_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return what people made from each entity, without rejected entities, oldest first."""
    shown, made = alias(Entity), alias(Entity)
    annotates, annotated_by = alias(Derivation), alias(Derivation)
    query = (
        select(shown.id, made.id)
        .join(annotates, annotates.parent_seq == shown.seq)
        .join(annotated_by, annotated_by.parent_seq == annotates.child_seq)
        .join(made, made.seq == annotated_by.child_seq)
        .where(
            annotates.role == Role.ANNOTATES,
            annotated_by.role == Role.ANNOTATED_BY,
            made.state.in_(("accepted", "inactive")),
        )
        .order_by(made.seq)
    )
    return grouped(rows_in(connection, query, shown.id, entity_ids))


def entity_states(connection: Connection, entity_ids: Iterable[str]) -> dict[str, str]:
    """Return the state of each entity."""
    rows = rows_in(connection, select(Entity.id, Entity.state), Entity.id, entity_ids)
    return {row.id: row.state for row in rows}


_ANNOTATIONS = select_columns(Annotation, StoredAnnotation._fields)
