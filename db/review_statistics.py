"""What the review desk counts: tasks, items, the answers that count, and who people are.

Of a task that was answered several times the last clear answer counts; tasks that were skipped or
returned have none.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Integer, and_, case, cast, func, select

from db.reviews import WAITING
from db.store import Store, retried
from db.tables.provenance import Agent, Entity
from db.tables.review import Annotation, Annotator, ReviewTask

_ROWS_AT_ONCE = 2000


class TaskCount(NamedTuple):
    """How many tasks an assignee has of a kind in a state."""

    assignee: str
    purpose: str
    gold: bool
    state: str
    tasks: int


class ItemProgress(NamedTuple):
    """How far an item came: gold tasks and second looks left out.

    `state` is that of the entity, `answered` and `waiting` count its tasks for first opinions,
    `adjudicating` those that wait for an adjudicator.
    """

    state: str
    answered: int
    waiting: int
    adjudicating: int


class GivenAnswer(NamedTuple):
    """The answer of a task that counts.

    `annotator` is a pseudonym, also where the task was in the account of the installation. `answer`
    is empty where it was stored by a version that did not keep it.
    """

    entity_id: str
    annotator: str
    purpose: str
    gold: bool
    answer: dict[str, Any]
    lead_time_seconds: float | None
    annotated_at: datetime


@retried
def task_counts(store: Store, queue: str) -> list[TaskCount]:
    """The tasks of a queue, counted."""
    kinds = (ReviewTask.assignee, ReviewTask.purpose, ReviewTask.gold, ReviewTask.state)
    query = select(*kinds, func.count()).where(ReviewTask.queue == queue)
    with store.read() as connection:
        rows = connection.execute(query.group_by(*kinds).order_by(*kinds))
        return [TaskCount._make(row) for row in rows]


@retried
def item_progress(store: Store, queue: str) -> dict[str, ItemProgress]:
    """For each item that people were asked about how far it came."""
    first_opinion = ReviewTask.purpose == "review"
    waits = ReviewTask.state.in_(WAITING)
    query = (
        select(
            ReviewTask.entity_id,
            Entity.state,
            _count_where(and_(first_opinion, ReviewTask.state == "answered")),
            _count_where(and_(first_opinion, waits)),
            _count_where(and_(ReviewTask.purpose == "adjudication", waits)),
        )
        .join(Entity, Entity.id == ReviewTask.entity_id)
        .where(
            ReviewTask.queue == queue,
            ReviewTask.gold.is_(False),
            ReviewTask.purpose.in_(("review", "adjudication")),
        )
        .group_by(ReviewTask.entity_id, Entity.state)
    )
    with store.read() as connection:
        return {row[0]: ItemProgress._make(row[1:]) for row in connection.execute(query)}


def given_answers(store: Store, queue: str) -> Iterator[GivenAnswer]:
    """The answers of a queue that count, one a task, item by item in the order of their ids.

    They are read in pages, within one transaction: take them swiftly.
    """
    is_clear = Annotation.answer["verdict"].as_string().is_not(None)
    last_first = (
        case((is_clear, 0), else_=1),
        Annotation.annotated_at.desc(),
        Annotation.key.desc(),
    )
    ranked = (
        select(
            ReviewTask.entity_id,
            case((ReviewTask.assignee != "", ReviewTask.assignee), else_=Agent.name).label("who"),
            ReviewTask.purpose,
            ReviewTask.gold,
            Annotation.answer,
            Annotation.lead_time_seconds,
            Annotation.annotated_at,
            func.row_number().over(partition_by=ReviewTask.key, order_by=last_first).label("place"),
        )
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .join(Agent, Agent.id == Annotation.agent_id)
        .where(ReviewTask.queue == queue, ReviewTask.state == "answered")
        .subquery()
    )
    columns = [column for column in ranked.c if column.name != "place"]
    query = (
        select(*columns)
        .where(ranked.c.place == 1, ranked.c.answer["problem"].as_string().is_(None))
        .order_by(ranked.c.entity_id, ranked.c.annotated_at, ranked.c.who)
    )
    with store.read() as connection:
        streaming = connection.execution_options(yield_per=_ROWS_AT_ONCE)
        yield from map(GivenAnswer._make, streaming.execute(query))


@retried
def names_of_annotators(store: Store) -> dict[str, str]:
    """What the people behind the pseudonyms are called."""
    with store.read() as connection:
        rows = connection.execute(select(Annotator.pseudonym, Annotator.name))
        return {row.pseudonym: row.name for row in rows}


def _count_where(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(cast(case((condition, 1), else_=0), Integer)), 0)
