"""Annotators and review tasks.

An annotator has roles and a pseudonym. Only the table of annotators links a name to a pseudonym;
tasks, answers, decisions and releases contain the pseudonym.

A review task is a question with its assignee, its place on a server and its images. It is
identified by a key made from queue, entity, assignee and purpose, because the number that a server
gives it may change.
"""

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)

from loupe.db.entities import change_in, rows_in
from loupe.db.store import Store, acquire_lock, reads, retried, writes
from loupe.db.tables import (
    IS_LAST,
    Activity,
    Agent,
    Annotation,
    Annotator,
    Decision,
    Derivation,
    DeskCursor,
    DeskEvent,
    Entity,
    Pseudonym,
    ReviewImage,
    ReviewPriority,
    ReviewTask,
    alias,
    insert_new,
    select_columns,
)
from loupe.schemas.errors import UsageError

TaskState = Literal["open", "unclear", "answered", "skipped", "returned", "closed"]
GATE_PREFIX = "gate:"
"""Prefix of the names of agents that apply the policy of a queue."""
BY_LEAD = "lead"
"""The policy of such an agent when the lead accepts or rejects items."""
WAITING: tuple[TaskState, ...] = ("open", "unclear")
"""The states in which a task waits for its assignee."""


class ShownImage(NamedTuple):
    """An image on a review page; `image_id` is its entity, if it is one."""

    sha256: str
    media_type: str
    image_id: str | None = None


class StoredTask(NamedTuple):
    """A review task; `task_id` is None while it is not known to be on the server."""

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


class Cursor(NamedTuple):
    """Position up to which a project was read, and how many tasks it had then.

    `newest` is the time of the newest change that was read, by the server's clock. `found_at` is
    when it was first read, by our clock. `read_from` is where the next reading begins, by the
    server's clock.
    """

    newest: datetime
    found_at: datetime
    read_from: datetime
    tasks: int
    annotations: int


@reads
def review_tasks(
    connection: Connection, /, queue: str | None = None, **values: object
) -> dict[str, StoredTask]:
    """Return the tasks of a queue, or of all, by their keys, oldest first.

    `values` are the values of their columns, a tuple for one of several.
    """
    wanted = values if queue is None else {"queue": queue, **values}
    columns = ReviewTask.__table__.c
    query = _TASKS.order_by(ReviewTask.pushed_at, ReviewTask.key).where(
        *(
            columns[name].in_(value) if isinstance(value, tuple) else columns[name] == value
            for name, value in wanted.items()
        )
    )
    return {row.key: StoredTask._make(row) for row in connection.execute(query)}


@reads
def tasks_by_key(connection: Connection, keys: Iterable[str]) -> dict[str, StoredTask]:
    """Return the tasks with these keys; unknown keys are left out."""
    rows = rows_in(connection, _TASKS, ReviewTask.key, keys)
    return {row.key: StoredTask._make(row) for row in rows}


@reads
def assignments(connection: Connection, queue: str) -> list[tuple[str, str]]:
    """Return the (assignee, purpose) pairs that a queue has tasks for, in order."""
    query = select(ReviewTask.assignee, ReviewTask.purpose).where(ReviewTask.queue == queue)
    return sorted((row.assignee, row.purpose) for row in connection.execute(query.distinct()))


@reads
def project_of_tasks(
    connection: Connection, server: str, queue: str, assignee: str, purpose: str
) -> int | None:
    """Return the project on `server` with the newest task of a seat; None without a task."""
    query = select(ReviewTask.project_id).where(
        ReviewTask.queue == queue,
        ReviewTask.server == server,
        ReviewTask.assignee == assignee,
        ReviewTask.purpose == purpose,
        ReviewTask.task_id.is_not(None),
    )
    newest = query.order_by(ReviewTask.pushed_at.desc(), ReviewTask.key).limit(1)
    return connection.scalar(newest)


@writes
def note_erased(connection: Connection, keys: Iterable[str]) -> None:
    """Record that tasks were deleted on their server, so that nothing is left to erase."""
    change_tasks(connection, keys, task_id=None, erased_by=None)


@writes
def announce_tasks(
    connection: Connection, tasks: Sequence[StoredTask], images: Mapping[str, Sequence[ShownImage]]
) -> None:
    """Store tasks that will be sent, with the images that each shows (by task key).

    Stored tasks are not changed, except that closed ones become open again and are on no server.
    """
    if not tasks:
        return
    now = datetime.now(UTC)
    shown = [
        {"task_key": key, **image._asdict()} for key, found in images.items() for image in found
    ]
    acquire_queue_lock(connection, tasks[0].queue)
    insert_new(connection, ReviewTask, [{**task._asdict(), "pushed_at": now} for task in tasks])
    insert_new(connection, ReviewImage, shown)
    keys, closed = [task.key for task in tasks], ReviewTask.state == "closed"
    change_tasks(connection, keys, closed, state="open", task_id=None)


@writes
def place_tasks(
    connection: Connection, server: str, project_id: int, task_ids: Mapping[str, int | None]
) -> None:
    """Record the server's task number for each key; None if the server has no such task."""
    if not task_ids:
        return
    for key, task_id in sorted(task_ids.items()):
        place = {"server": server, "project_id": project_id, "task_id": task_id}
        change_tasks(connection, [key], **place)


def change_tasks(
    connection: Connection, keys: Iterable[str], *conditions: ColumnElement[bool], **values: Any
) -> int:
    """Change columns of those of the tasks that fulfil all conditions; return their number."""
    chosen = update(ReviewTask).where(*conditions).values(**values)
    return change_in(connection, chosen, ReviewTask.key, keys)


@writes
def close_tasks(connection: Connection, keys: Sequence[str], server: str) -> int:
    """Close tasks without an answer, which are no longer on `server`; return their number."""
    change_tasks(connection, keys, ReviewTask.server == server, task_id=None)
    unanswered = ReviewTask.state.in_((*WAITING, "closed"))
    return change_tasks(connection, keys, unanswered, state="closed")


@writes
def set_priorities(
    connection: Connection, queue: str, entity_ids: Iterable[str], priority: int
) -> None:
    """Set the priority of items of a queue; 0 is the default."""
    ids = sorted(set(entity_ids))
    earlier = delete(ReviewPriority).where(ReviewPriority.queue == queue)
    change_in(connection, earlier, ReviewPriority.entity_id, ids)
    if priority:
        row = {"queue": queue, "priority": priority}
        insert_new(connection, ReviewPriority, [{**row, "entity_id": one} for one in ids])


@reads
def priorities(connection: Connection, queue: str) -> dict[str, int]:
    """Return the items of a queue with a priority."""
    query = select(ReviewPriority.entity_id, ReviewPriority.priority)
    rows = connection.execute(query.where(ReviewPriority.queue == queue))
    return {row.entity_id: row.priority for row in rows}


def acquire_queue_lock(connection: Connection, queue: str) -> None:
    """Lock the tasks of a queue and the decisions on its answers until the transaction ends.

    Call it first in a transaction. Otherwise two answers that arrive at the same time would not see
    each other, and the item would stay undecided.
    """
    acquire_lock(connection, f"review queue {queue}")


@reads
def newest_tasks(connection: Connection, queue: str) -> dict[str, datetime]:
    """Return when each person was last given a task of a queue that they had never had."""
    newest = func.max(ReviewTask.pushed_at)
    query = select(ReviewTask.assignee, newest).where(ReviewTask.queue == queue)
    return {row[0]: row[1] for row in connection.execute(query.group_by(ReviewTask.assignee))}


@writes
def note_asked(connection: Connection, server: str, user_ids: Iterable[int], now: datetime) -> None:
    """Record that the pages of these accounts had no task left and asked for more."""
    here = Annotator.server == server, Annotator.user_id.in_(sorted(set(user_ids)))
    connection.execute(update(Annotator).where(*here).values(asked_at=now))


@reads
def asked_since(connection: Connection, since: datetime) -> set[str]:
    """Return the pseudonyms of those whose pages asked for more tasks since a time."""
    return set(connection.scalars(select(Annotator.pseudonym).where(Annotator.asked_at >= since)))


@reads
def count_tasks(connection: Connection) -> dict[tuple[str, str], int]:
    """Count review tasks by (queue, state)."""
    query = select(ReviewTask.queue, ReviewTask.state, func.count()).group_by(
        ReviewTask.queue, ReviewTask.state
    )
    return {(queue, state): count for queue, state, count in connection.execute(query)}


@reads
def count_open_by_person(connection: Connection) -> dict[str, int]:
    """Count the tasks that wait for each person, by pseudonym."""
    query = select(ReviewTask.assignee, func.count()).where(ReviewTask.state.in_(WAITING))
    rows = connection.execute(query.group_by(ReviewTask.assignee))
    return {row[0]: row[1] for row in rows}


@reads
def queues_of_person(connection: Connection, pseudonym: str) -> list[str]:
    """Return the queues in which a person ever had a task."""
    query = select(ReviewTask.queue).where(ReviewTask.assignee == pseudonym).distinct()
    return sorted(connection.scalars(query))


class GateCount(NamedTuple):
    """Number of items whose last decision was made by `policy` (`auto`, `sample:0.1`) or people.

    Reopened and inactive items do not count, nor do texts that people wrote instead. `policy` is
    empty for people; `rejected` of the items were rejected; `last` orders the counts of a queue by
    their newest decision of any kind.
    """

    queue: str
    policy: str
    entities: int
    rejected: int
    last: int


@reads
def gate_counts(connection: Connection, dataset: str | None = None) -> list[GateCount]:
    """Return what decided at the gates of a dataset, or of all datasets, by queue."""
    counts = IS_LAST & (Decision.verdict != "reopen") & (Entity.state != "inactive")
    rejects = counts & (Decision.verdict == "reject")
    counted = (
        func.count(case((counts, Decision.entity_id)).distinct()),
        func.count(case((rejects, Decision.entity_id)).distinct()),
        func.max(Decision.id),
    )
    by_policy = (
        select(func.substr(Agent.name, len(GATE_PREFIX) + 1), Agent.revision, *counted)
        .join(Decision, Decision.agent_id == Agent.id)
        .join(Entity, Entity.id == Decision.entity_id)
        .where(Agent.kind == "software", Agent.name.startswith(GATE_PREFIX))
        .group_by(Agent.name, Agent.revision)
    )
    by_people = (
        select(ReviewTask.queue, literal(""), *counted)
        .join(Annotation, Annotation.review_task_key == ReviewTask.key)
        .join(Decision, Decision.annotation_key == Annotation.key)
        .join(Entity, Entity.id == Decision.entity_id)
        .where(Entity.id == ReviewTask.entity_id)
        .group_by(ReviewTask.queue)
    )
    of_dataset = true() if dataset is None else Entity.dataset == dataset
    rows = [
        GateCount(*row)
        for query in (by_policy, by_people)
        for row in connection.execute(query.where(of_dataset))
    ]
    return sorted(rows)


DROPPED = "suspect"
"""The reason of items that a gate rejected on its own, as a check speaks against them."""


@reads
def dropped_items(
    connection: Connection,
    dataset: str,
    limit: int | None = None,
    plan_ids: Collection[int] | None = None,
) -> list[tuple[str, str, str]]:
    """Return the id, gate and reason of items that gates rejected although nobody looked."""
    columns = Entity.id, Agent.name, Decision.reason
    query = of_dropped(select(*columns)).where(Entity.dataset == dataset)
    if plan_ids is not None:
        query = query.join(Activity, Activity.id == Entity.activity_id)
        query = query.where(Activity.plan_id.in_(plan_ids))
    rows = connection.execute(query.order_by(Entity.seq).limit(limit))
    prefix = f"{GATE_PREFIX}{dataset}-"
    return [(id_, name.removeprefix(prefix), reason) for id_, name, reason in rows]


def of_dropped(query: Any, prefix: str = GATE_PREFIX) -> Any:
    """Restrict a query of entities, decisions and agents to what gates rejected without people.

    Another prefix of the names of agents names others than gates.
    """
    return (
        query.select_from(Entity)
        .join(Decision, Decision.entity_id == Entity.id)
        .join(Agent, Agent.id == Decision.agent_id)
        .where(
            Entity.state == "rejected",
            Decision.verdict == "reject",
            Agent.kind == "software",
            Agent.name.startswith(prefix),
            Agent.revision != BY_LEAD,
            IS_LAST,
        )
    )


@reads
def load_cursor(connection: Connection, server: str, project_id: int) -> Cursor | None:
    """Return the cursor of a project; None if it was never read."""
    query = select_columns(DeskCursor, Cursor._fields)
    row = connection.execute(query.filter_by(server=server, project_id=project_id)).first()
    return None if row is None else Cursor._make(row)


@writes
def save_cursor(connection: Connection, server: str, project_id: int, cursor: Cursor) -> None:
    """Store the cursor of a project."""
    place = {"server": server, "project_id": project_id}
    connection.execute(delete(DeskCursor).filter_by(**place))
    insert_new(connection, DeskCursor, [{**place, **cursor._asdict()}])


def pseudonyms(store: Store, server: str, user_ids: Iterable[int]) -> dict[int, str]:
    """Return the pseudonym of each user of `server`; new users get a permanent random one."""
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


@reads
def count_states(
    connection: Connection, kind: str, left_out: str | None = None
) -> dict[str, dict[str, int]]:
    """Count the entities of a kind by dataset and state.

    Entities that were derived from others in the role `left_out` are not counted.
    """
    derived = exists().where(Derivation.child_seq == Entity.seq, Derivation.role == left_out)
    query = (
        select(Entity.dataset, Entity.state, func.count())
        .where(Entity.kind == kind, true() if left_out is None else ~derived)
        .group_by(Entity.dataset, Entity.state)
        .order_by(Entity.dataset)
    )
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for dataset, state, count in connection.execute(query):
        counts[dataset][state] = count
    return counts


class Worker(NamedTuple):
    """An account on a review server, by the server's name and the account's number there."""

    server: str
    user_id: int


def open_image_media_type(
    connection: Connection, sha256: str, worker: Worker | None = None
) -> str | None:
    """Return the media type of the image with that digest, if an open review task shows it.

    A task about which its assignee asked the lead counts as open. Returns None otherwise. Withdrawn
    images, and images made from them, are not shown. With a `worker`, only the tasks of this person
    count.
    """
    image, about = alias(Entity), alias(Entity)
    asked = exists().where(
        DeskEvent.entity_id == ReviewTask.entity_id,
        DeskEvent.queue == ReviewTask.queue,
        DeskEvent.annotator == ReviewTask.assignee,
        DeskEvent.kind == "question",
    )
    query = (
        select(ReviewImage.media_type)
        .join(ReviewTask, ReviewTask.key == ReviewImage.task_key)
        .join(about, about.id == ReviewTask.entity_id)
        .outerjoin(image, image.id == ReviewImage.image_id)
        .where(
            ReviewImage.sha256 == sha256,
            or_(ReviewTask.state.in_(WAITING), asked),
            about.state != "withdrawn",
            or_(image.id.is_(None), image.state != "withdrawn"),
        )
        .limit(1)
    )
    if worker is not None:
        query = query.join(Annotator, Annotator.pseudonym == ReviewTask.assignee).where(
            Annotator.server == worker.server, Annotator.user_id == worker.user_id
        )
    return connection.execute(query).scalar_one_or_none()


@reads
def images_of_item(connection: Connection, queue: str, entity_id: str) -> list[ShownImage]:
    """Return the images that the tasks about an item of a queue show, without withdrawn ones."""
    query = (
        select_columns(ReviewImage, ShownImage._fields)
        .join(ReviewTask, ReviewTask.key == ReviewImage.task_key)
        .outerjoin(Entity, Entity.id == ReviewImage.image_id)
        .where(
            ReviewTask.queue == queue,
            ReviewTask.entity_id == entity_id,
            or_(Entity.id.is_(None), Entity.state != "withdrawn"),
        )
        .order_by(ReviewImage.sha256)
    )
    return [ShownImage._make(row) for row in connection.execute(query.distinct())]


_TASKS = select_columns(ReviewTask, StoredTask._fields)


Role = Literal["annotator", "adjudicator"]
AnnotatorState = Literal["active", "paused", "left"]


class StoredAnnotator(NamedTuple):
    """A person who reviews; `user_id` is their account on `server`."""

    pseudonym: str
    name: str
    server: str
    user_id: int
    roles: tuple[str, ...]
    state: str


@retried
def add_annotator(
    store: Store, name: str, server: str, user_id: int, roles: Iterable[Role]
) -> StoredAnnotator:
    """Store a person under the pseudonym of their account, or add `roles` to a known person.

    Raises:
        UsageError: another annotator has the name or the account.
    """
    pseudonym = pseudonyms(store, server, [user_id])[user_id]
    added = StoredAnnotator(pseudonym, name, server, user_id, _ordered(roles), "active")
    for known in annotators(store):
        if known.name == name and known.pseudonym == pseudonym:
            all_roles = _ordered((*known.roles, *roles))
            return _change(store, known._replace(roles=all_roles, state="active"))
        if known.name == name or known.pseudonym == pseudonym:
            raise UsageError(
                f"{name!r} cannot be added with account {user_id} of {server}: there is already "
                f"an annotator {known.name!r} with account {known.user_id} of {known.server}"
            )
    row = {**added._asdict(), "roles": " ".join(added.roles), "added_at": datetime.now(UTC)}
    with store.write() as connection:
        connection.execute(insert(Annotator), row)
    return added


@reads
def annotators(connection: Connection) -> list[StoredAnnotator]:
    """Return all annotators, past ones included, by name."""
    query = select_columns(Annotator, StoredAnnotator._fields).order_by(Annotator.name)
    return [
        StoredAnnotator._make(row)._replace(roles=tuple(row.roles.split()))
        for row in connection.execute(query)
    ]


def names_of_annotators(store: Store) -> dict[str, str]:
    """Return the name of each pseudonym."""
    return {annotator.pseudonym: annotator.name for annotator in annotators(store)}


def active_annotators(store: Store, role: Role) -> list[StoredAnnotator]:
    """Return the people who have a role, paused ones included, by name."""
    return [one for one in annotators(store) if one.state != "left" and role in one.roles]


def paused_annotators(store: Store) -> set[str]:
    """Return the pseudonyms of people who get no tasks until they are resumed."""
    return {one.pseudonym for one in annotators(store) if one.state == "paused"}


def annotator_named(store: Store, name: str) -> StoredAnnotator:
    """Return the annotator with this name.

    Raises:
        UsageError: there is no such annotator; the message lists the known ones.
    """
    found = {annotator.name: annotator for annotator in annotators(store)}
    if name not in found:
        known = ", ".join(found) or "none yet"
        raise UsageError(f"there is no annotator {name!r}; there are: {known}")
    return found[name]


def set_annotator_state(store: Store, name: str, state: AnnotatorState) -> StoredAnnotator:
    """Set whether an annotator is active, paused or left; their work stays.

    Raises:
        UsageError: there is no annotator with that name.
    """
    return _change(store, annotator_named(store, name)._replace(state=state))


@writes
def _change(connection: Connection, changed: StoredAnnotator) -> StoredAnnotator:
    """Store the roles and the state of an annotator."""
    values = {"roles": " ".join(changed.roles), "state": changed.state}
    here = Annotator.pseudonym == changed.pseudonym
    connection.execute(update(Annotator).where(here).values(values))
    return changed


def _ordered(roles: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(roles)))
