"""Returns: an annotator's unconfirmed work goes back to the queue, and what hung on it with it.

While a return is in force its annotator gets nothing more from the queue.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select, update

from db.agents import AgentRef
from db.decisions import NewDecision, Verdict, append_decisions
from db.entities import pages
from db.reviews import WAITING, set_task_states
from db.store import Store, retried
from db.tables.provenance import Decision, Entity
from db.tables.review import Annotation, ReviewTask
from db.tables.review_quality import TaskReturn

IN_FORCE = "in force"
LIFTED = "lifted"


class GoldAccuracy(NamedTuple):
    """How many of the gold items that were judged were answered right, out of how many."""

    correct: int
    total: int


class StoredReturn(NamedTuple):
    """A use of the rule."""

    queue: str
    assignee: str
    rule: dict[str, Any]
    accuracy: float
    answers: int
    tasks: int
    state: str
    returned_at: datetime
    lifted_at: datetime | None


class ReturnedWork(NamedTuple):
    """What a return did: tasks that count no longer, and entities that wait again."""

    tasks: int
    reopened: int


class OwnTask(NamedTuple):
    """A task of an annotator that asks for a first opinion."""

    key: str
    entity_id: str
    state: str


def tasks_of(connection: Connection, queue: str, assignee: str) -> list[OwnTask]:
    """The tasks of an annotator in a queue, gold ones too, that wait or count; oldest first."""
    query = (
        select(ReviewTask.key, ReviewTask.entity_id, ReviewTask.state)
        .where(
            ReviewTask.queue == queue,
            ReviewTask.assignee == assignee,
            ReviewTask.purpose == "review",
            ReviewTask.state.in_((*WAITING, "answered")),
        )
        .order_by(ReviewTask.pushed_at, ReviewTask.key)
    )
    return [OwnTask._make(row) for row in connection.execute(query)]


def in_adjudication(connection: Connection, queue: str) -> frozenset[str]:
    """The entities of a queue that lie with an adjudicator now."""
    query = select(ReviewTask.entity_id).where(
        ReviewTask.queue == queue,
        ReviewTask.purpose == "adjudication",
        ReviewTask.state.in_(WAITING),
    )
    return frozenset(connection.execute(query).scalars())


def return_work(
    connection: Connection,
    queue: str,
    assignee: str,
    rule: Mapping[str, float],
    accuracy: GoldAccuracy,
    tasks: Sequence[str],
) -> ReturnedWork:
    """Takes tasks (by key) from an annotator, and back what was decided by their answers alone.

    What was decided on an entity of these tasks is reopened; what their answers had made of it, an
    edit say, is rejected. The tasks are `returned`, the return is in force and recorded with its
    rule.
    """
    row = {
        "queue": queue,
        "assignee": assignee,
        "rule": dict(rule),
        "accuracy": accuracy.correct / accuracy.total,
        "answers": accuracy.total,
        "tasks": len(tasks),
        "state": IN_FORCE,
        "returned_at": datetime.now(UTC),
    }
    connection.execute(insert(TaskReturn), row)
    decisions = _taken_back(connection, tasks, _agent(queue, rule), _reason(accuracy, rule))
    append_decisions(connection, decisions)
    set_task_states(connection, tasks, "returned")
    reopened = sum(decision.verdict == "reopen" for decision in decisions)
    return ReturnedWork(len(tasks), reopened)


@retried
def lift_returns(store: Store, queue: str, assignee: str) -> int:
    """Lets an annotator work in a queue again and gives how many returns had stood against that.

    What was returned stays returned; what was answered so far is not held against them again.
    """
    changes = {"state": LIFTED, "lifted_at": datetime.now(UTC)}
    chosen = (
        TaskReturn.queue == queue,
        TaskReturn.assignee == assignee,
        TaskReturn.state == IN_FORCE,
    )
    with store.write() as connection:
        return connection.execute(update(TaskReturn).where(*chosen).values(**changes)).rowcount


def barred(connection: Connection, queue: str) -> set[str]:
    """Who gets nothing from a queue, because a return against them is in force."""
    query = select(TaskReturn.assignee).where(
        TaskReturn.queue == queue, TaskReturn.state == IN_FORCE
    )
    return set(connection.execute(query).scalars())


@retried
def returns(store: Store, queue: str | None = None) -> list[StoredReturn]:
    """All returns of a queue, or of all queues, oldest first."""
    query = select(
        TaskReturn.queue,
        TaskReturn.assignee,
        TaskReturn.rule,
        TaskReturn.accuracy,
        TaskReturn.answers,
        TaskReturn.tasks,
        TaskReturn.state,
        TaskReturn.returned_at,
        TaskReturn.lifted_at,
    ).order_by(TaskReturn.id)
    if queue is not None:
        query = query.where(TaskReturn.queue == queue)
    with store.read() as connection:
        return [StoredReturn._make(row) for row in connection.execute(query)]


def _taken_back(
    connection: Connection, tasks: Sequence[str], agent: AgentRef, reason: str
) -> list[NewDecision]:
    """Undoes those decisions that are the last word on something and rest on these tasks."""
    last = select(func.max(Decision.id)).group_by(Decision.entity_id)
    query = (
        select(Decision.entity_id, ReviewTask.entity_id.label("shown_id"))
        .join(Annotation, Annotation.key == Decision.annotation_key)
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .join(Entity, Entity.id == Decision.entity_id)
        .where(Entity.state != "withdrawn")
        .order_by(Decision.id)
    )
    decisions = []
    for page in pages(tasks):
        touched = (
            select(Decision.entity_id)
            .join(Annotation, Annotation.key == Decision.annotation_key)
            .where(Annotation.review_task_key.in_(page))
        )
        rows = connection.execute(
            query.where(
                ReviewTask.key.in_(page),
                Decision.id.in_(last.where(Decision.entity_id.in_(touched))),
            )
        )
        for entity_id, shown_id in rows:
            verdict: Verdict = "reopen" if entity_id == shown_id else "reject"
            decisions.append(NewDecision(entity_id, verdict, agent, reason))
    return decisions


def _agent(queue: str, rule: Mapping[str, float]) -> AgentRef:
    values = ", ".join(f"{name} {value:g}" for name, value in sorted(rule.items()))
    return AgentRef("software", f"drift:{queue}", values)


def _reason(accuracy: GoldAccuracy, rule: Mapping[str, float]) -> str:
    return (
        f"the answer was returned: its author had {accuracy.correct} of {accuracy.total} gold "
        f"items right, below the floor of {rule['floor']:g}"
    )
