"""Audit samples of accepted items, and the statistics of review."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    case,
    cast,
    exists,
    func,
    insert,
    select,
)

from loupe.db.annotations import answers_where
from loupe.db.entities import StoredEntity, ancestor_ids, pages, parents_of
from loupe.db.reviews import GATE_PREFIX, WAITING, review_tasks
from loupe.db.store import Store, reads, writes
from loupe.db.tables import (
    Agent,
    Annotation,
    AuditDraw,
    AuditItem,
    Decision,
    Entity,
    ReviewTask,
)
from loupe.schemas.grouping import grouped
from loupe.schemas.provenance import Role
from loupe.schemas.quality import AuditedDraw, Stratum

_PURPOSE = "audit"
_COUNTING = ("open", "unclear", "answered")


class AcceptedItem(NamedTuple):
    """An accepted item with the properties that a sample can be stratified by.

    `verdict` tells how it was accepted: `accept` by annotators, `adjudicated`, `edit` as an
    annotator's edit, or `policy` without review.
    """

    entity_id: str
    split: str
    source: str
    verdict: str


class StoredDraw(NamedTuple):
    """A draw in the store; `is_new` is False if it was stored already."""

    id: int
    drawn: int
    strata: dict[str, int]
    is_new: bool


def accepted_items(store: Store, accepted: Iterable[StoredEntity]) -> Iterator[AcceptedItem]:
    """Return the properties of accepted entities, in order."""
    for page in pages(accepted):
        ids = [entity.id for entity in page]
        edits = parents_of(store, ids, Role.EDITED_FROM).keys()
        with store.read() as connection:
            verdicts = _last_verdicts(connection, ids)
        for entity in page:
            source = json.loads(entity.payload).get("source") or "unstated"
            verdict = "edit" if entity.id in edits else verdicts[entity.id]
            yield AcceptedItem(entity.id, entity.split or "unstated", str(source), verdict)


def _last_verdicts(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return how each entity was decided last."""
    query = (
        select(Decision.entity_id, Agent.kind, ReviewTask.purpose)
        .join(Agent, Agent.id == Decision.agent_id)
        .outerjoin(Annotation, Annotation.key == Decision.annotation_key)
        .outerjoin(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .where(Decision.entity_id.in_(ids))
        .order_by(Decision.id)
    )
    return {
        entity_id: "policy"
        if kind != "person"
        else "adjudicated"
        if purpose == "adjudication"
        else "accept"
        for entity_id, kind, purpose in connection.execute(query)
    }


@writes
def store_draw(
    connection: Connection,
    queue: str,
    seed: int,
    size: int,
    by: Sequence[str],
    stratum_of: Mapping[str, str],
    drawn: Sequence[str],
    annotator: str = "",
) -> StoredDraw:
    """Store a sample `drawn` from the items in `stratum_of`, of an `annotator` if one is named.

    A draw is identified by queue, seed, size, strata and annotator and is never repeated: if it
    exists, the existing one is returned.
    """
    known = {
        "queue": queue,
        "seed": seed,
        "size": size,
        "by": ",".join(by),
        "annotator": annotator,
    }
    found = connection.execute(select(AuditDraw.id, AuditDraw.strata).filter_by(**known)).first()
    if found is not None:
        return StoredDraw(found.id, _size(connection, found.id), found.strata, is_new=False)
    strata = dict(sorted(Counter(stratum_of.values()).items()))
    row = {**known, "strata": strata, "drawn_at": datetime.now(UTC)}
    made = connection.execute(insert(AuditDraw).returning(AuditDraw.id), row)
    draw_id = made.scalar_one()
    items = [
        {"draw_id": draw_id, "entity_id": entity_id, "stratum": stratum_of[entity_id]}
        for entity_id in drawn
    ]
    if items:
        connection.execute(insert(AuditItem), items)
    return StoredDraw(draw_id, len(drawn), strata, is_new=True)


@reads
def count_draws(connection: Connection, queue: str) -> int:
    """Count the audit samples that were drawn from a queue."""
    query = select(func.count()).select_from(AuditDraw).where(AuditDraw.queue == queue)
    return connection.execute(query).scalar_one()


def _size(connection: Connection, draw_id: int) -> int:
    query = select(func.count()).select_from(AuditItem).where(AuditItem.draw_id == draw_id)
    return connection.execute(query).scalar_one()


@reads
def items_to_audit(connection: Connection, queue: str) -> list[tuple[str, frozenset[str]]]:
    """Return the drawn items of a queue without an auditor, in order of id.

    Each comes with the people who took part in it or were asked about it before.
    """
    query = (
        select(AuditItem.entity_id)
        .join(AuditDraw, AuditDraw.id == AuditItem.draw_id)
        .join(Entity, Entity.id == AuditItem.entity_id)
        .where(AuditDraw.queue == queue, Entity.state != "withdrawn")
        .distinct()
    )
    drawn = sorted(connection.execute(query).scalars())
    audits = review_tasks(connection, queue, purpose=_PURPOSE, state=_COUNTING).values()
    taken = {task.entity_id for task in audits}
    left = [entity_id for entity_id in drawn if entity_id not in taken]
    past = _participants(connection, queue, left)
    return [(entity_id, frozenset(past[entity_id])) for entity_id in left]


def _participants(connection: Connection, queue: str, ids: Sequence[str]) -> dict[str, set[str]]:
    """Return, for each entity, who had a task about it or about an entity it was edited from."""
    edited = ancestor_ids(connection, ids, (Role.EDITED_FROM,))
    tasks = review_tasks(connection, queue).values()
    people = grouped((task.entity_id, task.assignee) for task in tasks)
    return {id_: {who for one in (id_, *edited[id_]) for who in people[one]} for id_ in ids}


@reads
def answered_items(connection: Connection, queue: str, assignee: str) -> set[str]:
    """Return the items that a person answered in a queue, and the entities made from them."""
    mine = (
        ReviewTask.queue == queue,
        ReviewTask.assignee == assignee,
        ReviewTask.purpose == "review",
        ReviewTask.state == "answered",
        ReviewTask.gold.is_(False),
    )
    made = (
        select(Decision.entity_id)
        .join(Annotation, Annotation.key == Decision.annotation_key)
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .where(*mine)
    )
    shown = connection.execute(select(ReviewTask.entity_id).where(*mine)).scalars()
    return {*shown, *connection.execute(made).scalars()}


@reads
def wrong_in_audits(connection: Connection, queue: str) -> list[str]:
    """Return the accepted items of a queue that an auditor did not accept, in order of id.

    Items that were decided again since are left out.
    """
    wrong: dict[str, bool] = {}
    audited = ReviewTask.queue == queue, ReviewTask.purpose == _PURPOSE, Entity.state == "accepted"
    since = exists().where(
        Decision.entity_id == Entity.id, Decision.decided_at > Annotation.received_at
    )
    for one in answers_where(connection, *audited, ~since):
        wrong[one.entity_id] = one.answer["verdict"] != "accept"
    return [entity_id for entity_id in wrong if wrong[entity_id]]


def audited_draws(
    connection: Connection, dataset: str, queue: str | None = None, annotator: str = ""
) -> list[AuditedDraw]:
    """Return the newest draw with an audited item for each queue of a dataset, in order of name.

    `queue` selects that queue; `annotator` selects draws from that person's work.
    """
    query = (
        select(AuditDraw.id, AuditDraw.queue, AuditDraw.by, AuditDraw.strata)
        .where(AuditDraw.annotator == annotator)
        .order_by(AuditDraw.id.desc())
    )
    found: dict[str, AuditedDraw] = {}
    for row in connection.execute(query).all():
        of_dataset = row.queue.rpartition("-")[0] == dataset
        if of_dataset and queue in (None, row.queue) and row.queue not in found:
            draw = _audited_draw(connection, row.id, row.queue, row.by, row.strata)
            if any(stratum.audited for stratum in draw.strata.values()):
                found[row.queue] = draw
    return [found[name] for name in sorted(found)]


def _audited_draw(
    connection: Connection, draw_id: int, queue: str, by: str, populations: Mapping[str, int]
) -> AuditedDraw:
    audited: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    for entity_id, (stratum, verdict) in _verdicts(connection, draw_id, queue).items():
        audited[stratum] += 1
        if verdict != "accept":
            wrong[entity_id] = stratum
    counted = Counter(wrong.values())
    return AuditedDraw(
        queue=queue,
        by=tuple(by.split(",")) if by else (),
        drawn=_size(connection, draw_id),
        strata={
            name: Stratum(population, audited[name], counted[name])
            for name, population in sorted(populations.items())
        },
        wrong_items=tuple(sorted(wrong)),
    )


def _verdicts(connection: Connection, draw_id: int, queue: str) -> dict[str, tuple[str, str]]:
    """Return the stratum of each audited item and its last clear verdict."""
    drawn = select(AuditItem.entity_id, AuditItem.stratum).where(AuditItem.draw_id == draw_id)
    strata = {row.entity_id: row.stratum for row in connection.execute(drawn)}
    in_draw = ReviewTask.entity_id.in_(drawn.with_only_columns(AuditItem.entity_id))
    audited = ReviewTask.queue == queue, ReviewTask.purpose == _PURPOSE, in_draw
    return {
        one.entity_id: (strata[one.entity_id], one.answer["verdict"])
        for one in answers_where(connection, *audited)
    }


# Statistics of review: tasks, items, and the times of answers.


class TaskCount(NamedTuple):
    """Number of an assignee's tasks of a kind in a state, and when the oldest was sent."""

    assignee: str
    purpose: str
    gold: bool
    state: str
    tasks: int
    oldest: datetime


class ItemProgress(NamedTuple):
    """The progress of an item, without gold tasks and audits.

    `state` is that of the entity, `answered` and `waiting` count its tasks for first opinions,
    `adjudicating` those that wait for an adjudicator.
    """

    state: str
    answered: int
    waiting: int
    adjudicating: int


@reads
def task_counts(connection: Connection, queue: str) -> list[TaskCount]:
    """Count the tasks of a queue."""
    kinds = (ReviewTask.assignee, ReviewTask.purpose, ReviewTask.gold, ReviewTask.state)
    counted = func.count(), func.min(ReviewTask.pushed_at)
    query = select(*kinds, *counted).where(ReviewTask.queue == queue)
    rows = connection.execute(query.group_by(*kinds).order_by(*kinds))
    return [TaskCount._make(row) for row in rows]


@reads
def item_progress(connection: Connection, queue: str) -> dict[str, ItemProgress]:
    """Return the progress of each item that people were asked about."""
    query = _progress(queue, ReviewTask.entity_id, Entity.state, _ANSWERED, _WAITING, _ADJUDICATING)
    return {row[0]: ItemProgress._make(row[1:]) for row in connection.execute(query)}


@reads
def reopened_items(connection: Connection, queue: str) -> list[tuple[int, str]]:
    """Return how often each item of a queue was reopened after people were asked, and its state.

    Items that were never reopened are left out.
    """
    asked = select(ReviewTask.entity_id).where(
        ReviewTask.queue == queue, ReviewTask.gold.is_(False)
    )
    query = (
        select(func.count(), Entity.state)
        .select_from(Decision)
        .join(Entity, Entity.id == Decision.entity_id)
        .join(Agent, Agent.id == Decision.agent_id)
        .where(
            Decision.verdict == "reopen",
            Decision.entity_id.in_(asked),
            ~Agent.name.startswith(GATE_PREFIX),
        )
        .group_by(Decision.entity_id, Entity.state)
    )
    return [(row[0], row[1]) for row in connection.execute(query)]


@reads
def undecided_items(connection: Connection, queue: str, overlap: int) -> list[str]:
    """Return the proposed entities of a queue with enough answers, in order of id.

    Entities that an adjudicator has are left out.
    """
    query = (
        _progress(queue, ReviewTask.entity_id)
        .where(Entity.state == "proposed")
        .having(_ADJUDICATING == 0, (overlap <= _ANSWERED) | (_SETTLED > 0))
        .order_by(ReviewTask.entity_id)
    )
    return list(connection.execute(query).scalars())


def _progress(queue: str, *columns: Any) -> Select[*tuple[Any, ...]]:
    """Return a query about each item of a queue, without gold tasks and audits."""
    return (
        select(*columns)
        .join(Entity, Entity.id == ReviewTask.entity_id)
        .where(
            ReviewTask.queue == queue,
            ReviewTask.gold.is_(False),
            ReviewTask.purpose.in_(("review", "adjudication")),
        )
        .group_by(ReviewTask.entity_id, Entity.state)
    )


def _count_where(purpose: str, *states: str) -> ColumnElement[int]:
    matches = and_(ReviewTask.purpose == purpose, ReviewTask.state.in_(states))
    return func.coalesce(func.sum(cast(case((matches, 1), else_=0), Integer)), 0)


_ANSWERED, _WAITING = _count_where("review", "answered"), _count_where("review", *WAITING)
_SETTLED = _count_where("adjudication", "answered")
_ADJUDICATING = _count_where("adjudication", *WAITING)


class TimedAnswer(NamedTuple):
    """An answer as it was saved: `seconds` since its task was opened, earlier saves included."""

    queue: str
    task_key: str
    remote_id: int
    annotator: str
    seconds: float | None
    annotated_at: datetime


@reads
def timed_answers(connection: Connection, queues: Iterable[str]) -> list[TimedAnswer]:
    """Iterate over all saved answers in queues, oldest first, without replacements by others."""
    query = (
        select(
            ReviewTask.queue,
            ReviewTask.key,
            Annotation.remote_id,
            Agent.name,
            Annotation.lead_time_seconds,
            Annotation.annotated_at,
        )
        .join(ReviewTask, ReviewTask.key == Annotation.review_task_key)
        .join(Agent, Agent.id == Annotation.agent_id)
        .where(ReviewTask.queue.in_(sorted(queues)), Annotation.state != "quarantined")
        .order_by(Annotation.annotated_at, Annotation.key)
    )
    return [TimedAnswer._make(row) for row in connection.execute(query)]
