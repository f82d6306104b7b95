"""Gold items and what annotators made of them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, select

from db.engine import insert_new
from db.entities import pages
from db.store import Store, retried
from db.tables.provenance import Entity
from db.tables.review import Annotation, ReviewTask
from db.tables.review_quality import GoldCheck, GoldItem, TaskReturn


class NewGoldItem(NamedTuple):
    """An item of a queue whose right answer is known; `origin` says from where."""

    entity_id: str
    answer: dict[str, Any]
    origin: str


class StoredGoldItem(NamedTuple):
    """A gold item as it lies in the store."""

    entity_id: str
    answer: dict[str, Any]
    origin: str
    added_at: datetime


class NewCheck(NamedTuple):
    """How the annotation of a gold task compares with what is known."""

    annotation_key: str
    queue: str
    assignee: str
    correct: bool
    answered_at: datetime


class StoredCheck(NamedTuple):
    """The last check of an annotator on one gold item."""

    annotation_key: str
    assignee: str
    entity_id: str
    correct: bool
    answered_at: datetime


@retried
def add_gold_items(store: Store, queue: str, items: Iterable[NewGoldItem]) -> int:
    """Stores gold items and gives how many were new; those that are gold already stay as they are.

    An item that was removed and is added again counts as new.
    """
    now = datetime.now(UTC)
    rows = [{"queue": queue, **item._asdict(), "added_at": now} for item in items]
    with store.write() as connection:
        before = _count(connection, queue)
        insert_new(connection, GoldItem, rows)
        return _count(connection, queue) - before


@retried
def gold_items(store: Store, queue: str) -> dict[str, StoredGoldItem]:
    """The gold items of a queue by entity, in order of id; those that were withdrawn are none."""
    with store.read() as connection:
        return gold_answers(connection, queue)


def gold_answers(connection: Connection, queue: str) -> dict[str, StoredGoldItem]:
    """As `gold_items`, within a transaction."""
    query = (
        select(GoldItem.entity_id, GoldItem.answer, GoldItem.origin, GoldItem.added_at)
        .join(Entity, Entity.id == GoldItem.entity_id)
        .where(GoldItem.queue == queue, Entity.state != "withdrawn")
        .order_by(GoldItem.entity_id)
    )
    return {row.entity_id: StoredGoldItem._make(row) for row in connection.execute(query)}


@retried
def settled_answers(store: Store, queue: str) -> dict[str, dict[str, Any]]:
    """For each entity of a queue that an adjudicator settled the answer that settled it."""
    query = (
        select(ReviewTask.entity_id, Annotation.answer)
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .join(Entity, Entity.id == ReviewTask.entity_id)
        .where(
            ReviewTask.queue == queue,
            ReviewTask.purpose == "adjudication",
            ReviewTask.state == "answered",
            Entity.state != "withdrawn",
        )
        .order_by(Annotation.annotated_at, Annotation.key)
    )
    with store.read() as connection:
        rows = connection.execute(query)
        return {entity_id: answer for entity_id, answer in rows if "verdict" in answer}


@retried
def remove_gold_items(store: Store, queue: str, entity_ids: Iterable[str]) -> int:
    """Forgets gold items and gives how many there were; what was answered on them stays."""
    with store.write() as connection:
        before = _count(connection, queue)
        for page in pages(entity_ids):
            chosen = GoldItem.queue == queue, GoldItem.entity_id.in_(page)
            connection.execute(delete(GoldItem).where(*chosen))
        return before - _count(connection, queue)


def record_checks(connection: Connection, checks: Sequence[NewCheck]) -> None:
    """Stores checks; an annotation that was checked before keeps its check."""
    insert_new(connection, GoldCheck, [check._asdict() for check in checks])


def checks_of(connection: Connection, queue: str, assignee: str) -> list[StoredCheck]:
    """The checks that an annotator is judged by in a queue, newest first.

    Of a gold item that was answered several times it is the last one. What was answered before the
    annotator was reinstated (`db.returns`) has been judged already.
    """
    lifted = select(func.max(TaskReturn.lifted_at)).where(
        TaskReturn.queue == queue, TaskReturn.assignee == assignee
    )
    since = connection.execute(lifted).scalar_one()
    return [
        check
        for check in _checks(connection, queue, assignee)
        if since is None or check.answered_at > since
    ]


def checked_annotators(connection: Connection, queue: str) -> list[str]:
    """Who ever answered a gold item of a queue, in order."""
    query = select(GoldCheck.assignee).where(GoldCheck.queue == queue).distinct()
    return sorted(connection.execute(query).scalars())


@retried
def all_checks(store: Store, queue: str) -> dict[str, list[StoredCheck]]:
    """Every annotator's checks in a queue, newest first, those of before a return included."""
    with store.read() as connection:
        names = checked_annotators(connection, queue)
        return {name: _checks(connection, queue, name) for name in names}


def _checks(connection: Connection, queue: str, assignee: str) -> list[StoredCheck]:
    query = (
        select(
            GoldCheck.annotation_key,
            GoldCheck.assignee,
            ReviewTask.entity_id,
            GoldCheck.correct,
            GoldCheck.answered_at,
        )
        .join(Annotation, Annotation.key == GoldCheck.annotation_key)
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .where(GoldCheck.queue == queue, GoldCheck.assignee == assignee)
        .order_by(GoldCheck.answered_at, GoldCheck.annotation_key)
    )
    last = {row.entity_id: StoredCheck._make(row) for row in connection.execute(query)}
    return sorted(
        last.values(), key=lambda one: (one.answered_at, one.annotation_key), reverse=True
    )


def _count(connection: Connection, queue: str) -> int:
    query = select(func.count()).select_from(GoldItem).where(GoldItem.queue == queue)
    return connection.execute(query).scalar_one()
