"""Review: what was sent to people, what came back, and under which name they act.

A review task is known by its key, made from queue and entity, wherever it lies: the number that a
server gives it is a detail that may change. An annotation is known by its content, so that
receiving it again changes nothing.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.orm import aliased

from db.agents import AgentRef, register_agents
from db.decisions import NewDecision, append_decisions
from db.engine import insert_new
from db.entities import LIVE, NewEntity, pages
from db.store import Store
from db.tables import Agent, Annotation, Decision, Entity, Pseudonym, ReviewTask
from db.work import ActivityRecord, store_activity
from schemas.records import Image

TaskState = Literal["open", "answered", "skipped", "returned", "closed"]


class ShownImage(NamedTuple):
    """An image that a review page shows; `image_id` is its entity, where it is one."""

    sha256: str
    media_type: str
    image_id: str | None = None


class StoredTask(NamedTuple):
    """A review task; `task_id` is None while it is not known to have reached the server."""

    key: str
    queue: str
    entity_id: str
    assignee: str
    purpose: str
    gold: bool
    server: str
    project_id: int
    task_id: int | None
    state: str


class StoredAnnotation(NamedTuple):
    """An annotation that was received before."""

    key: str
    review_task_key: str
    remote_id: int
    agent_id: str
    result: dict[str, Any]
    annotated_at: datetime


class NewReview(NamedTuple):
    """One annotation about to be stored, with all that follows from it.

    `entities` are what it made, `successor` the one among them that takes the place of the entity
    that was shown.
    """

    key: str
    task: StoredTask
    activity: ActivityRecord
    agent: AgentRef
    remote_id: int
    result: dict[str, Any]
    lead_time_seconds: float | None
    annotated_at: datetime
    verdict: Literal["accept", "edit", "reject"]
    reason: str
    entities: tuple[NewEntity, ...] = ()
    successor: NewEntity | None = None


def review_tasks(store: Store, queue: str) -> dict[str, StoredTask]:
    """All tasks of a queue by their keys."""
    query = select(*_TASK_COLUMNS).where(ReviewTask.queue == queue)
    with store.read() as connection:
        return {row.key: StoredTask._make(row) for row in connection.execute(query)}


def announce_tasks(store: Store, tasks: Sequence[StoredTask]) -> None:
    """Stores tasks that are about to be sent. Those that are stored already stay as they are."""
    now = datetime.now(UTC)
    with store.write() as connection:
        insert_new(connection, ReviewTask, [{**task._asdict(), "pushed_at": now} for task in tasks])


def place_tasks(store: Store, server: str, project_id: int, task_ids: Mapping[str, int]) -> None:
    """Notes where tasks lie: `task_ids` gives the server's number for each key."""
    with store.write() as connection:
        for key, task_id in task_ids.items():
            connection.execute(
                update(ReviewTask)
                .where(ReviewTask.key == key)
                .values(server=server, project_id=project_id, task_id=task_id)
            )


def count_tasks(store: Store) -> dict[tuple[str, str], int]:
    """How many review tasks there are by (queue, state)."""
    query = select(ReviewTask.queue, ReviewTask.state, func.count()).group_by(
        ReviewTask.queue, ReviewTask.state
    )
    with store.read() as connection:
        return {(queue, state): count for queue, state, count in connection.execute(query)}


def annotations_of(store: Store, task_keys: Iterable[str]) -> dict[str, list[StoredAnnotation]]:
    """For each task the annotations received for it, oldest first."""
    found: dict[str, list[StoredAnnotation]] = defaultdict(list)
    with store.read() as connection:
        for page in pages(task_keys):
            query = select(*_ANNOTATION_COLUMNS).where(Annotation.review_task_key.in_(page))
            for row in connection.execute(query.order_by(Annotation.annotated_at, Annotation.key)):
                found[row.review_task_key].append(StoredAnnotation._make(row))
    return found


class ReviewerRow(NamedTuple):
    """How often a reviewer gave a verdict in a queue, changes of mind included, and how fast.

    `seconds` is the mean time over the answers for which it is known.
    """

    reviewer: str
    verdict: str
    answers: int
    seconds: float | None


def reviewer_rows(store: Store, queue: str) -> list[ReviewerRow]:
    """What each reviewer of a queue did, by pseudonym and verdict."""
    query = (
        select(
            Agent.name,
            Decision.verdict,
            func.count(),
            func.avg(Annotation.lead_time_seconds),
        )
        .join(Annotation, Annotation.key == Decision.annotation_key)
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .join(Agent, Agent.id == Annotation.agent_id)
        .where(ReviewTask.queue == queue, Decision.entity_id == ReviewTask.entity_id)
        .group_by(Agent.name, Decision.verdict)
        .order_by(Agent.name, Decision.verdict)
    )
    with store.read() as connection:
        return [ReviewerRow._make(row) for row in connection.execute(query)]


def count_states(store: Store, kind: str) -> dict[str, dict[str, int]]:
    """For each dataset how many entities of a kind are in which state."""
    query = (
        select(Entity.dataset, Entity.state, func.count())
        .where(Entity.kind == kind)
        .group_by(Entity.dataset, Entity.state)
        .order_by(Entity.dataset)
    )
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    with store.read() as connection:
        for dataset, state, count in connection.execute(query):
            counts[dataset][state] = count
    return counts


def pseudonyms(store: Store, server: str, user_ids: Iterable[int]) -> dict[int, str]:
    """The name of each user of `server`; new users get one, drawn at random, for good."""
    wanted = sorted(set(user_ids))
    rows = [
        {"server": server, "user_id": user_id, "name": f"reviewer-{secrets.token_hex(4)}"}
        for user_id in wanted
    ]
    query = select(Pseudonym.user_id, Pseudonym.name).where(
        Pseudonym.server == server, Pseudonym.user_id.in_(wanted)
    )
    with store.read() as connection:
        known = {row.user_id: row.name for row in connection.execute(query)}
    if len(known) == len(wanted):
        return known
    with store.write() as connection:
        insert_new(connection, Pseudonym, rows)
        return {row.user_id: row.name for row in connection.execute(query)}


def record_reviews(store: Store, reviews: Sequence[NewReview]) -> list[str]:
    """Stores annotations and what follows from them in one transaction, in order.

    Gives the keys of those that were new and came too late: what they are about was withdrawn, so
    that they are kept but decide nothing.
    """
    with store.write() as connection:
        return [review.key for review in reviews if not _record(connection, review)]


def _record(connection: Connection, review: NewReview) -> bool:
    """False when the entity was withdrawn before the annotation arrived."""
    known = select(Annotation.key).where(Annotation.key == review.key)
    if connection.execute(known).first() is not None:
        return True
    state = select(Entity.state).where(Entity.id == review.task.entity_id)
    withdrawn = connection.execute(state).scalar_one() == "withdrawn"
    store_activity(connection, review.activity, () if withdrawn else review.entities)
    _insert_annotation(connection, review)
    connection.execute(
        update(ReviewTask).where(ReviewTask.key == review.task.key).values(state="answered")
    )
    if not withdrawn:
        append_decisions(connection, _decisions(connection, review))
    return not withdrawn


def _insert_annotation(connection: Connection, review: NewReview) -> None:
    register_agents(connection, [review.agent])
    row = {
        "key": review.key,
        "review_task_key": review.task.key,
        "agent_id": review.agent.id,
        "remote_id": review.remote_id,
        "result": review.result,
        "lead_time_seconds": review.lead_time_seconds,
        "annotated_at": review.annotated_at,
        "received_at": datetime.now(UTC),
    }
    connection.execute(insert(Annotation), row)


def _decisions(connection: Connection, review: NewReview) -> list[NewDecision]:
    """The verdict on what was shown, on its successor, and on an earlier successor."""
    shown = review.task.entity_id
    successor = review.successor.id if review.successor is not None else None
    decide = _Decider(review.agent, review.key)
    decisions = [decide(shown, review.verdict, review.reason, successor)]
    if successor is not None:
        decisions.append(decide(successor, "accept", review.reason))
    earlier = _last_successor(connection, shown)
    if earlier is not None and earlier != successor:
        verdict = "reject" if successor is None else "edit"
        decisions.append(decide(earlier, verdict, "the task was answered anew", successor))
    return decisions


class _Decider(NamedTuple):
    agent: AgentRef
    annotation_key: str

    def __call__(
        self, entity_id: str, verdict: Any, reason: str, successor_id: str | None = None
    ) -> NewDecision:
        return NewDecision(
            entity_id, verdict, self.agent, reason, successor_id, self.annotation_key
        )


def _last_successor(connection: Connection, entity_id: str) -> str | None:
    query = (
        select(Decision.successor_id)
        .where(Decision.entity_id == entity_id)
        .order_by(Decision.id.desc())
        .limit(1)
    )
    return connection.execute(query).scalar_one_or_none()


def open_image_media_type(connection: Connection, sha256: str) -> str | None:
    """The media type of the image with that digest, if an open review task shows it, else None.

    What a task shows is found by the group of its entity, which is the image. An image that was
    withdrawn is shown to nobody.
    """
    image = aliased(Entity)
    query = (
        select(image.payload)
        .join(Entity, Entity.group_key == image.id)
        .join(ReviewTask, ReviewTask.entity_id == Entity.id)
        .where(
            ReviewTask.state == "open",
            Entity.state != "withdrawn",
            image.kind == Image.kind,
            image.state.in_(LIVE),
            image.payload.contains(f'"sha256":"{sha256}"', autoescape=True),
        )
        .limit(1)
    )
    payload = connection.execute(query).scalar_one_or_none()
    return None if payload is None else Image.model_validate_json(payload).media_type


_TASK_COLUMNS = (
    ReviewTask.key,
    ReviewTask.queue,
    ReviewTask.entity_id,
    ReviewTask.assignee,
    ReviewTask.purpose,
    ReviewTask.gold,
    ReviewTask.server,
    ReviewTask.project_id,
    ReviewTask.task_id,
    ReviewTask.state,
)
_ANNOTATION_COLUMNS = (
    Annotation.key,
    Annotation.review_task_key,
    Annotation.remote_id,
    Annotation.agent_id,
    Annotation.result,
    Annotation.annotated_at,
)
