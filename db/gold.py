"""Gold items, and revocations of annotators' work."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from loupe.db.annotations import answers_where
from loupe.db.decisions import append_decisions
from loupe.db.entities import AgentRef, NewDecision, Verdict, change_in, rows_in
from loupe.db.reviews import GATE_PREFIX, acquire_queue_lock, change_tasks, review_tasks
from loupe.db.store import reads, writes
from loupe.db.tables import (
    IS_LAST,
    Agent,
    Annotation,
    Decision,
    Entity,
    GoldCheck,
    GoldItem,
    ReviewTask,
    TaskReturn,
    insert_new,
    select_columns,
)


class KnownAnswer(NamedTuple):
    """An item of a queue with a known right answer.

    `origin` says where the answer comes from, `explanation` why it is right.
    """

    entity_id: str
    answer: dict[str, Any]
    origin: str
    explanation: str = ""


class NewCheck(NamedTuple):
    """Comparison of the annotation of a gold task with the known answer, to store."""

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
    answer: dict[str, Any]


@writes
def add_gold_items(connection: Connection, queue: str, items: Iterable[KnownAnswer]) -> int:
    """Store gold items and return how many were new; existing ones are not changed.

    An item that was removed and is added again counts as new.
    """
    now = datetime.now(UTC)
    rows = [{"queue": queue, **item._asdict(), "added_at": now} for item in items]
    own = select(GoldItem.entity_id).where(GoldItem.queue == queue)
    known = set(connection.execute(own).scalars())
    insert_new(connection, GoldItem, rows)
    return len({row["entity_id"] for row in rows} - known)


@reads
def gold_items(connection: Connection, queue: str) -> dict[str, KnownAnswer]:
    """Return the gold items of a queue by entity, in order of id, without withdrawn ones."""
    query = (
        select_columns(GoldItem, KnownAnswer._fields)
        .join(Entity, Entity.id == GoldItem.entity_id)
        .where(GoldItem.queue == queue, Entity.state != "withdrawn")
        .order_by(GoldItem.entity_id)
    )
    return {row.entity_id: KnownAnswer._make(row) for row in connection.execute(query)}


@reads
def settled_answers(connection: Connection, queue: str) -> dict[str, dict[str, Any]]:
    """Return, for each entity of a queue that an adjudicator settled, the adjudicator's answer."""
    settled = ReviewTask.queue == queue, ReviewTask.purpose == "adjudication"
    found = answers_where(connection, *settled, Entity.state != "withdrawn")
    return {one.entity_id: one.answer for one in found}


@writes
def remove_gold_items(connection: Connection, queue: str, entity_ids: Iterable[str]) -> int:
    """Remove gold items and return their number; the answers to them stay."""
    items = delete(GoldItem).where(GoldItem.queue == queue)
    return change_in(connection, items, GoldItem.entity_id, entity_ids)


def record_checks(connection: Connection, checks: Sequence[NewCheck]) -> None:
    """Store checks; an annotation that was checked before keeps its check."""
    insert_new(connection, GoldCheck, [check._asdict() for check in checks])


def counted_checks(connection: Connection, queue: str) -> dict[str, list[StoredCheck]]:
    """Return the checks in a queue that count for each annotator, newest first.

    Answers from before the annotator was reinstated do not count.
    """
    lifted = (
        select(TaskReturn.assignee, func.max(TaskReturn.lifted_at).label("at"))
        .where(TaskReturn.queue == queue)
        .group_by(TaskReturn.assignee)
    )
    since = {row.assignee: row.at for row in connection.execute(lifted)}
    return {
        name: [one for one in found if not since.get(name) or one.answered_at > since[name]]
        for name, found in all_checks(connection, queue).items()
    }


@reads
def all_checks(connection: Connection, queue: str) -> dict[str, list[StoredCheck]]:
    """Return the last check of each annotator on each gold item, newest first.

    Checks from before a revocation are included.
    """
    query = (
        select(
            GoldCheck.annotation_key,
            GoldCheck.assignee,
            ReviewTask.entity_id,
            GoldCheck.correct,
            GoldCheck.answered_at,
            Annotation.answer,
        )
        .join(Annotation, Annotation.key == GoldCheck.annotation_key)
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .where(GoldCheck.queue == queue)
        .order_by(GoldCheck.assignee, GoldCheck.answered_at.desc(), GoldCheck.annotation_key.desc())
    )
    found: dict[str, dict[str, StoredCheck]] = defaultdict(dict)
    for check in map(StoredCheck._make, connection.execute(query)):
        found[check.assignee].setdefault(check.entity_id, check)
    return {assignee: list(checks.values()) for assignee, checks in found.items()}


# Revocations: an annotator's unconfirmed work returns to the queue with everything derived from it.
# While a revocation is in force, its annotator gets no tasks from the queue.

IN_FORCE = "in force"
_LIFTED = "lifted"


class Revocation(NamedTuple):
    """A revocation of an annotator's work, with the rule that led to it."""

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
    """The results of a revocation: tasks that no longer count, and entities that wait again."""

    tasks: int
    reopened: int


def return_work(
    connection: Connection,
    queue: str,
    assignee: str,
    rule: Mapping[str, float],
    accuracy: tuple[int, int],
    tasks: Sequence[str],
) -> ReturnedWork:
    """Revoke an annotator's tasks (by key) and the decisions that follow from their answers alone.

    `accuracy` is the number of right answers and the number of gold items. Decided entities of
    these tasks are reopened, and entities derived from the answers, such as edits, are rejected.
    The tasks become `returned`; the revocation is in force and stored with its rule.
    """
    correct, total = accuracy
    row = {
        "queue": queue,
        "assignee": assignee,
        "rule": dict(rule),
        "accuracy": correct / total,
        "answers": total,
        "tasks": len(tasks),
        "state": IN_FORCE,
        "returned_at": datetime.now(UTC),
    }
    connection.execute(insert(TaskReturn), row)
    values = ", ".join(f"{name} {value:g}" for name, value in sorted(rule.items()))
    agent = AgentRef("software", f"drift:{queue}", values)
    reason = (
        f"the answer was returned: its author had {correct} of {total} gold items right, below the "
        f"floor of {rule['floor']:g}"
    )
    return _revoke(connection, tasks, agent, reason)


@writes
def reopen_items(
    connection: Connection, queue: str, entity_ids: Iterable[str], agent: AgentRef, reason: str
) -> ReturnedWork:
    """Revoke the decisions of people, lead and policy on items; they wait for other annotators.

    All answers to them no longer count, and entities derived from them, such as edits, are
    rejected. An item is given by its id or by that of the edit that replaced it.
    """
    by_gate = (
        select(Decision.entity_id)
        .join(Agent, Agent.id == Decision.agent_id)
        .join(Entity, Entity.id == Decision.entity_id)
        .where(
            Agent.name == f"{GATE_PREFIX}{queue}",
            Decision.verdict != "reopen",
            Entity.state != "withdrawn",
            IS_LAST,
        )
    )
    asked = (
        select(ReviewTask.entity_id)
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .join(Decision, Decision.annotation_key == Annotation.key)
        .where(ReviewTask.queue == queue, ReviewTask.gold.is_(False))
    )
    acquire_queue_lock(connection, queue)
    ids = sorted(set(entity_ids))
    decided = sorted(id_ for (id_,) in rows_in(connection, by_gate, Decision.entity_id, ids))
    shown = {id_ for (id_,) in rows_in(connection, asked, Decision.entity_id, ids)}.union(decided)
    purposes = ("review", "adjudication")
    answered = review_tasks(connection, queue, purpose=purposes, state="answered", gold=False)
    tasks = [key for key, task in answered.items() if task.entity_id in shown]
    append_decisions(connection, [NewDecision(one, "reopen", agent, reason) for one in decided])
    work = _revoke(connection, sorted(tasks), agent, reason)
    return work._replace(reopened=work.reopened + len(decided))


@writes
def reinstate_annotator(connection: Connection, queue: str, assignee: str) -> int:
    """Give an annotator tasks of a queue again; return how many revocations were in force.

    Returned work stays returned. The annotator's earlier gold answers no longer count.
    """
    changes = {"state": _LIFTED, "lifted_at": datetime.now(UTC)}
    chosen = (
        TaskReturn.queue == queue,
        TaskReturn.assignee == assignee,
        TaskReturn.state == IN_FORCE,
    )
    return connection.execute(update(TaskReturn).where(*chosen).values(**changes)).rowcount


def suspended_annotators(connection: Connection, queue: str) -> set[str]:
    """Return the annotators who get no tasks from a queue because of a revocation in force."""
    return {one.assignee for one in revocations(connection, queue) if one.state == IN_FORCE}


@reads
def revocations(connection: Connection, queue: str | None = None) -> list[Revocation]:
    """Return all revocations of a queue, or of all queues, oldest first."""
    query = select_columns(TaskReturn, Revocation._fields).order_by(TaskReturn.id)
    if queue is not None:
        query = query.where(TaskReturn.queue == queue)
    return [Revocation._make(row) for row in connection.execute(query)]


def _revoke(
    connection: Connection, tasks: Sequence[str], agent: AgentRef, reason: str
) -> ReturnedWork:
    """Revoke tasks, and the decisions on them that are the last ones on an entity."""
    query = (
        select(Decision.entity_id, ReviewTask.entity_id)
        .join(Annotation, Annotation.key == Decision.annotation_key)
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .join(Entity, Entity.id == Decision.entity_id)
        .where(Entity.state != "withdrawn", IS_LAST)
        .order_by(Decision.id)
    )
    decisions = []
    for entity_id, shown_id in rows_in(connection, query, ReviewTask.key, tasks):
        verdict: Verdict = "reopen" if entity_id == shown_id else "reject"
        decisions.append(NewDecision(entity_id, verdict, agent, reason))
    append_decisions(connection, decisions)
    change_tasks(connection, tasks, state="returned")
    return ReturnedWork(len(tasks), sum(one.verdict == "reopen" for one in decisions))
