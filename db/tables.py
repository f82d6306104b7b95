"""The tables of the provenance store, in the terms of W3C PROV.

Properties that are searched get a column; the rest of an entity is its payload, the record as JSON.
No row is updated, except for the caches `entity.state` and `review_task.state`, which are computed
from appended rows, for leases and for low-water marks.

Outside the store, entities are identified by their content-derived `id`. Tables with one or more
rows per entity (`derivation`, `work`) use the increasing number `seq` instead: an index over random
digests costs a page write per row, one over increasing numbers almost nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import (
    JSON,
    BigInteger,
    Connection,
    DateTime,
    Dialect,
    Executable,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    exists,
    select,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

_NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

SCHEMA = "0005_90c5e245eb71"
"""The version of the tables, as stored in a database: a number, and a digest of their definition.

A database of another version is refused. If you change the tables, `tests/db/test_opening.py` tells
the new digest; raise the number with it.
"""

Digest = String(32)
"""A content-derived id: 32 hex digits."""
Number = BigInteger().with_variant(Integer, "sqlite")
"""An increasing number; SQLite increments `INTEGER` columns only."""


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time, also on SQLite, which does not store time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Raise for naive times and convert others to UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time must name its zone; got {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Return the time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """The base class of all tables.

    We declare tables as SQLAlchemy's ORM does, and use them without the ORM: a class stands for its
    `Table` in statements, and its attributes are the columns. With the ORM's attributes, SQLAlchemy
    takes up to twice the time to execute a statement.
    """

    metadata = MetaData(naming_convention=_NAMING)
    type_annotation_map = {datetime: UtcDateTime(), dict[str, Any]: JSON()}  # noqa: RUF012

    @declared_attr.directive
    def __tablename__(cls) -> str:  # noqa: N805 - as SQLAlchemy calls it
        """Return the name of the class in snake case."""
        return re.sub(r"\B(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def __clause_element__(cls) -> FromClause:
        """Return the table, for SQLAlchemy."""
        return cls.__table__


class _Alias:
    """A table under another name, with its columns as attributes."""

    def __init__(self, table: FromClause) -> None:
        self._table = table
        self.__dict__.update(table.columns.items())

    def __clause_element__(self) -> FromClause:
        return self._table


T = TypeVar("T", bound=Base)


def alias(table: type[T]) -> type[T]:
    """Return `table` under another name, to use it twice in a query."""
    return cast("type[T]", _Alias(table.__table__.alias()))


class Agent(Base):
    """A person, a model at a revision, or a piece of software at a version."""

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(Text)
    revision: Mapped[str] = mapped_column(Text, default="")


class Plan(Base):
    """A stage at a version with a configuration, which activities run (`prov:Plan`).

    `resets` counts how often rejections of its inputs were dropped, so that they are pending again.
    """

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(Digest, unique=True)
    stage: Mapped[str] = mapped_column(Text, index=True)
    version: Mapped[str] = mapped_column(String(32))
    configuration: Mapped[dict[str, Any]]
    resets: Mapped[int] = mapped_column(default=0, server_default="0")


class Activity(Base):
    """One run of one plan over one chunk."""

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"))
    dataset: Mapped[str] = mapped_column(Text)
    code_revision: Mapped[str] = mapped_column(Text)
    flow_run: Mapped[str] = mapped_column(Text)
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime]


class Association(Base):
    """An agent that took part in an activity."""

    activity_id: Mapped[int] = mapped_column(ForeignKey("activity.id"), primary_key=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"), primary_key=True)


class Entity(Base):
    """An item with a content-derived id. Only its `state` changes (`loupe.db.decisions.fold`)."""

    __table_args__ = (
        Index("ix_entity_pending", "dataset", "kind", "seq"),
        Index(
            "ix_entity_group",
            "group_key",
            sqlite_where=text("group_key IS NOT NULL"),
            postgresql_where=text("group_key IS NOT NULL"),
        ),
    )

    seq: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(Digest, unique=True)
    dataset: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(String(32))
    split: Mapped[str | None] = mapped_column(String(8))
    group_key: Mapped[str | None] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    payload: Mapped[str] = mapped_column(Text)
    activity_id: Mapped[int] = mapped_column(ForeignKey("activity.id"))
    model_call_key: Mapped[str | None] = mapped_column(ForeignKey("model_call.key"))


class Derivation(Base):
    """`child` was derived from `parent`, which played `role` in it."""

    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    child_seq: Mapped[int] = mapped_column(ForeignKey("entity.seq"), primary_key=True)
    role: Mapped[str] = mapped_column(String(32), primary_key=True)
    parent_seq: Mapped[int] = mapped_column(ForeignKey("entity.seq"), primary_key=True, index=True)


class Decision(Base):
    """A verdict on an entity, its agent, time and reason. Appended, never changed."""

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), index=True)
    verdict: Mapped[str] = mapped_column(String(16))
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    reason: Mapped[str] = mapped_column(Text, default="")
    decided_at: Mapped[datetime]
    successor_id: Mapped[str | None] = mapped_column(ForeignKey("entity.id"))
    annotation_key: Mapped[str | None] = mapped_column(ForeignKey("annotation.key"))


class Activation(Base):
    """Whether the settings and decisions of a run include an entity; the last row counts.

    Rows are appended and never changed. An entity without any is active.
    """

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), index=True)
    active: Mapped[bool]
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    changed_at: Mapped[datetime]


class Work(Base):
    """The result of one input of one plan: done, or rejected with a reason.

    `input` is the `seq` of an entity or, for an import, the index of a record in its file (whose
    digest is part of the plan).
    """

    __table_args__ = (
        Index(
            "ix_work_rejected",
            "plan_id",
            sqlite_where=text("reason IS NOT NULL"),
            postgresql_where=text("reason IS NOT NULL"),
        ),
        {"sqlite_with_rowid": False},
    )

    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"), primary_key=True)
    input: Mapped[int] = mapped_column(Number, primary_key=True)
    status: Mapped[str] = mapped_column(String(16))
    activity_id: Mapped[int] = mapped_column(ForeignKey("activity.id"))
    reason: Mapped[str | None] = mapped_column(String(64))  # set for rejections only
    rejection: Mapped[str | None] = mapped_column(Text)  # a `Rejection` as JSON


class LowWaterMark(Base):
    """The entity number up to which a plan has no pending inputs (`loupe.db.work`).

    `selection` is the digest of the selection of inputs. The mark was computed after `decision` and
    `activation`, the last ones at that time. It is valid while rejections of the plan were dropped
    `resets` times.
    """

    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"), primary_key=True)
    selection: Mapped[str] = mapped_column(Digest, primary_key=True)
    seq: Mapped[int] = mapped_column(Number)
    decision: Mapped[int] = mapped_column(Number)
    activation: Mapped[int] = mapped_column(Number)
    resets: Mapped[int]


class Checkpoint(Base):
    """The progress of the work on one input; deleted once the input has its work row.

    `position` is the next step (the number of a frame), `state` is the information needed to
    continue from there.
    """

    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"), primary_key=True)
    input: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(Number)
    state: Mapped[bytes] = mapped_column(LargeBinary)


class Process(Base):
    """A process that makes claims: where it runs (`loupe.schemas.processes`), and its heartbeat.

    `beats` counts up while it runs, `beat_at` is the last time by the database's clock.
    """

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    place: Mapped[str] = mapped_column(Text)
    beats: Mapped[int] = mapped_column(Number)
    beat_at: Mapped[datetime]


class Claim(Base):
    """A process's claim on a subject, or on the numbers from `lower` to `upper` within it."""

    __table_args__ = (UniqueConstraint("subject", "lower"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    subject: Mapped[str] = mapped_column(Text)
    lower: Mapped[int] = mapped_column(Number)
    upper: Mapped[int] = mapped_column(Number)
    process_id: Mapped[str] = mapped_column(ForeignKey("process.id", ondelete="CASCADE"))


class ModelCall(Base):
    """A request to a model and its answer, stored as soon as it returned, so that it is paid once.

    `response` is the text of the answer, or what is wrong with it; `raw` is the whole body that the
    server sent, readable or not. Unknown tokens and cost are NULL. `served` is what the server
    reported about the model in that run (`loupe.schemas.chat.ServedModel`), if anything. `repairs`
    says what was wrong with the form of an answer that was used nevertheless.

    A search of images on the web is also a call (`loupe.db.calls`): its `tokens_in` are the
    requests that the service counts.
    """

    __table_args__ = (
        Index("ix_model_call_agent_id_called_at", "agent_id", "called_at"),
        Index(  # all that costs are counted from, as rows with long requests are slow to read
            "ix_model_call_costs",
            *("dataset", "agent_id", "stage", "currency", "status"),
            *("tokens_in", "tokens_out", "seconds", "cost"),
        ),
    )

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    stage: Mapped[str] = mapped_column(Text)
    dataset: Mapped[str] = mapped_column(Text)
    prompt_digest: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any]]
    request: Mapped[dict[str, Any]]
    response: Mapped[str] = mapped_column(Text)
    raw: Mapped[str | None] = mapped_column(Text)
    status: Mapped[str] = mapped_column(String(32))
    tokens_in: Mapped[int | None]
    tokens_out: Mapped[int | None]
    seconds: Mapped[float]
    cost: Mapped[float | None]
    currency: Mapped[str | None] = mapped_column(String(8))
    served: Mapped[str | None] = mapped_column(Text)
    repairs: Mapped[str | None] = mapped_column(Text)
    called_at: Mapped[datetime]


class ReviewTask(Base):
    """A question about an entity; `key` is made from queue, entity, assignee, purpose.

    `assignee` is a pseudonym, or empty for the account of the installation itself. `state` is open,
    answered, skipped, returned (the answer no longer counts) or closed (no answer is needed any
    more). `erased_by` is the withdrawal for which the task, with its answers, is still to be
    deleted on the server.
    """

    __table_args__ = (Index("ix_review_task_queue_state", "queue", "state"),)

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    queue: Mapped[str] = mapped_column(Text)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), index=True)
    assignee: Mapped[str] = mapped_column(String(32), default="")
    purpose: Mapped[str] = mapped_column(String(16), default="review")
    gold: Mapped[bool] = mapped_column(default=False)
    server: Mapped[str] = mapped_column(Text)
    project_id: Mapped[int]
    task_id: Mapped[int | None]
    state: Mapped[str] = mapped_column(String(16))
    pushed_at: Mapped[datetime]
    erased_by: Mapped[int | None] = mapped_column(ForeignKey("withdrawal.id"))


class ReviewImage(Base):
    """An image that a review task shows; the image server serves only those of open tasks."""

    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    task_key: Mapped[str] = mapped_column(ForeignKey("review_task.key"), primary_key=True)
    media_type: Mapped[str] = mapped_column(String(32))
    image_id: Mapped[str | None] = mapped_column(ForeignKey("entity.id"))


class Annotation(Base):
    """What Label Studio returned for a review task; `key` is made from its content.

    `result` is the content of the page, `answer` the parsed answer. `state` is clear, unclear (not
    an answer), sent_back (it was unclear, and its author has the task again), quarantined (another
    person's answer, or one that belonged to another task before; it never counts) or discarded
    (unclear or quarantined, and discarded by the lead). `instructions` is the digest of the
    instructions that its author had (`loupe.annotate.instructions`).
    """

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    review_task_key: Mapped[str] = mapped_column(ForeignKey("review_task.key"), index=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    remote_id: Mapped[int] = mapped_column(index=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    result: Mapped[dict[str, Any]]
    answer: Mapped[dict[str, Any]]
    lead_time_seconds: Mapped[float | None]
    instructions: Mapped[str | None] = mapped_column(Digest)
    annotated_at: Mapped[datetime]
    received_at: Mapped[datetime]


class Pseudonym(Base):
    """The pseudonym of a user of a review server.

    It is random, so that a release does not identify users even to those who know them. If the row
    is erased, the person is permanently anonymous.
    """

    server: Mapped[str] = mapped_column(Text, primary_key=True)
    user_id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(32), unique=True)


class Annotator(Base):
    """A person who reviews.

    `name` is known to colleagues only; releases contain the pseudonym. `project_id`s belong to the
    person's own workspace on `server`, in which no one else works. `roles` are annotator and
    adjudicator, separated by a space; `state` is active, paused (no tasks, but a login) or left.
    `asked_at` is when their page last asked for tasks because it had none.
    """

    pseudonym: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    server: Mapped[str] = mapped_column(Text)
    user_id: Mapped[int]
    roles: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    added_at: Mapped[datetime]
    asked_at: Mapped[datetime | None]


class ReviewPriority(Base):
    """The priority of an item of a queue; items with a higher one are assigned first."""

    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    queue: Mapped[str] = mapped_column(Text, primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True)
    priority: Mapped[int]


class DeskEvent(Base):
    """What somebody said or did on the desk; appended, never changed.

    `kind` is question (of an annotator about an item), answer (of the lead to it), message (of the
    lead to an annotator), instruction (which the lead added to a queue) or action (of the lead).
    `author` is the login of the lead, or a pseudonym; `annotator` is the pseudonym of the person
    that it is about or for. `details` is the request of an action.
    """

    __table_args__ = (
        Index("ix_desk_event_annotator", "annotator", "id"),
        Index("ix_desk_event_entity_id", "entity_id"),
    )

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(16))
    author: Mapped[str] = mapped_column(Text)
    queue: Mapped[str] = mapped_column(Text, default="")
    entity_id: Mapped[str | None] = mapped_column(ForeignKey("entity.id"))
    annotator: Mapped[str] = mapped_column(String(32), default="")
    text: Mapped[str] = mapped_column(Text)
    details: Mapped[dict[str, Any]]


class DeskCursor(Base):
    """Position up to which a project on a review server was read (`loupe.db.reviews.Cursor`)."""

    server: Mapped[str] = mapped_column(Text, primary_key=True)
    project_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    newest: Mapped[datetime]
    found_at: Mapped[datetime]
    read_from: Mapped[datetime]
    tasks: Mapped[int]
    annotations: Mapped[int]


# Reliability of answers: gold items, returned work and audits.


class GoldItem(Base):
    """An item of a queue with a known answer, with which annotators are tested.

    `origin` tells how the answer is known (adjudicated, or given in a file). `explanation` tells
    annotators with another answer why it is right.
    """

    queue: Mapped[str] = mapped_column(Text, primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True)
    answer: Mapped[dict[str, Any]]
    origin: Mapped[str] = mapped_column(Text)
    explanation: Mapped[str] = mapped_column(Text, default="", server_default="")
    added_at: Mapped[datetime]


class GoldCheck(Base):
    """The comparison of an annotation with the known answer of its gold item."""

    __table_args__ = (Index("ix_gold_check_queue", "queue", "assignee"),)

    annotation_key: Mapped[str] = mapped_column(ForeignKey("annotation.key"), primary_key=True)
    queue: Mapped[str] = mapped_column(Text)
    assignee: Mapped[str] = mapped_column(String(32))
    correct: Mapped[bool]
    answered_at: Mapped[datetime]


class TaskReturn(Base):
    """A revocation, which returns an annotator's unreviewed work to the queue.

    `rule` holds floor, window and least as they were. `accuracy` was computed over `answers` gold
    answers. `tasks` is how many answers no longer count. `state` is in force or lifted; gold
    answers from before `lifted_at` do not count again.
    """

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    queue: Mapped[str] = mapped_column(Text, index=True)
    assignee: Mapped[str] = mapped_column(String(32))
    rule: Mapped[dict[str, Any]]
    accuracy: Mapped[float]
    answers: Mapped[int]
    tasks: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    returned_at: Mapped[datetime]
    lifted_at: Mapped[datetime | None]


class AuditDraw(Base):
    """A sample of a queue's accepted items, drawn to be reviewed again.

    If it has an `annotator`, it was drawn from that person's work only. `strata` holds the number
    of accepted items for each value of the properties in `by`.
    """

    __table_args__ = (UniqueConstraint("queue", "seed", "size", "by", "annotator"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    queue: Mapped[str] = mapped_column(Text)
    seed: Mapped[int] = mapped_column(Number)
    size: Mapped[int]
    by: Mapped[str] = mapped_column(Text)
    annotator: Mapped[str] = mapped_column(String(32), default="", server_default="")
    strata: Mapped[dict[str, Any]]
    drawn_at: Mapped[datetime]


class AuditItem(Base):
    """An item of an audit sample; its result is the answer of its `audit` task."""

    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    draw_id: Mapped[int] = mapped_column(ForeignKey("audit_draw.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)
    stratum: Mapped[str] = mapped_column(Text)


class Release(Base):
    """An immutable snapshot; `id` is the digest of its manifest.

    The marks are the numbers of the last rows that the build read (`loupe.db.releases.StateMark`).
    `inputs` is the digest of all inputs of its last build, if known, and `listing` that of the
    names, sizes and times of its files when they were last read.
    """

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    dataset: Mapped[str] = mapped_column(Text)
    version: Mapped[str] = mapped_column(Text)
    folder: Mapped[str] = mapped_column(Text)
    manifest: Mapped[dict[str, Any]]
    built_at: Mapped[datetime]
    entity_mark: Mapped[int] = mapped_column(Number)
    decision_mark: Mapped[int] = mapped_column(Number)
    activation_mark: Mapped[int] = mapped_column(Number)
    withdrawal_mark: Mapped[int] = mapped_column(Number)
    correction_mark: Mapped[int] = mapped_column(Number)
    inputs: Mapped[str | None] = mapped_column(Digest)
    listing: Mapped[str | None] = mapped_column(Digest)


class ReleaseItem(Base):
    """An entity that is a row, or part of a row, of a release."""

    release_id: Mapped[str] = mapped_column(ForeignKey("release.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)


class Evaluation(Base):
    """The scores of a model on a split of a release; `id` is a digest of all that it depends on.

    The release may have been built elsewhere. `result` is a
    `loupe.schemas.evaluation.EvaluationResult`.
    """

    __table_args__ = (Index("ix_evaluation_release_id", "release_id", "split"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    release_id: Mapped[str] = mapped_column(String(64))
    split: Mapped[str] = mapped_column(String(16))
    result: Mapped[dict[str, Any]]
    evaluated_at: Mapped[datetime]


class Withdrawal(Base):
    """A withdrawal of a target and everything derived from it.

    `key` is computed from the request, so that the same request finds the same row; `target` is the
    target as JSON. `ground` is a value of `loupe.schemas.withdrawal.Ground`; `reason` is what the
    person who requested it wrote, and is stored nowhere else. `erases` tells whether files are
    erased. `state` is confirmed, then finished.
    """

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(Digest, unique=True)
    target: Mapped[dict[str, Any]]
    ground: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text)
    erases: Mapped[bool]
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    state: Mapped[str] = mapped_column(String(16))
    confirmed_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]


class WithdrawnEntity(Base):
    """An entity of a withdrawal."""

    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)


class WithdrawnDigest(Base):
    """The digest of a file of a withdrawal, or of a text that it erases.

    `media_type` is None if the blob store has no such file (videos, original images, texts). If
    `is_refused`, it is not imported again; if `is_erased`, its blob is erased. If the withdrawal
    erases, no vectors of its files and texts are stored.
    """

    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    media_type: Mapped[str | None] = mapped_column(String(32))
    is_refused: Mapped[bool]
    is_erased: Mapped[bool]


class WithdrawalNotice(Base):
    """The notice of a withdrawal for the holders of a release.

    `notice` is a `loupe.schemas.withdrawal.WithdrawalNotice`.
    """

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    release_id: Mapped[str] = mapped_column(ForeignKey("release.id"), primary_key=True)
    notice: Mapped[dict[str, Any]]


class WithdrawalStep(Base):
    """A completed step of a withdrawal, with its details."""

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    step: Mapped[str] = mapped_column(String(128), primary_key=True)
    details: Mapped[dict[str, Any]]
    done_at: Mapped[datetime]


class Embedding(Base):
    """An embedding: float32, little-endian. This is a cache and may be emptied.

    `sha256` is the digest of the image's file or of the text in UTF-8. `space` is the digest of
    model, revision, parameters and kind (image or text).
    """

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    space: Mapped[str] = mapped_column(Digest, primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)


for _mapper in Base.registry.mappers:
    for _column in _mapper.local_table.columns:
        # `setattr` of the ORM's classes would add a column
        type.__setattr__(_mapper.class_, _column.key, _column)

ChildEntity, ParentEntity = alias(Entity), alias(Entity)
"""Both ends of a derivation, created once, as each alias creates columns in milliseconds."""

_Later = alias(Decision)
IS_LAST = ~exists().where(_Later.entity_id == Decision.entity_id, _Later.id > Decision.id)
"""The condition that a decision is the last one on its entity."""


# Statements that both databases understand.


def insert_into(dialect: str, table: type[Base]) -> "postgresql.Insert | sqlite.Insert":
    """Return an `INSERT` in the dialect of a database, which supports `ON CONFLICT`."""
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    return sqlite.insert(table)


def insert_new(
    connection: Connection, table: type[Base], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Insert `rows` into `table`; rows whose key exists are not changed."""
    values = list(rows)
    if not values:
        return
    connection.execute(_insert_new_into(connection.dialect.name, table), values)


@cache
def _insert_new_into(dialect: str, table: type[Base]) -> Executable:
    """Build the statement of `insert_new`, which takes as long as to execute it."""
    return insert_into(dialect, table).on_conflict_do_nothing()


def insert_new_text(
    connection: Connection, table: type[Base], columns: Sequence[str], rows: list[tuple[Any, ...]]
) -> int:
    """Like `insert_new`, for columns of plain text; five times faster, for tables with many rows.

    Values go to the driver without SQLAlchemy's conversions. Returns how many rows were new.
    """
    if not rows:
        return 0
    into = f"INSERT INTO {table.__tablename__} ({', '.join(columns)})"
    if connection.dialect.name == "postgresql":
        arrays = ", ".join(
            f"%s::{_ARRAYS[table.__table__.c[name].type.python_type]}" for name in columns
        )
        return connection.exec_driver_sql(
            f"{into} SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING",  # noqa: S608 our own names
            tuple(map(list, zip(*rows, strict=True))),
        ).rowcount
    return insert_rows(connection, f"{into} VALUES {{}} ON CONFLICT DO NOTHING", rows)


_STATEMENT_ROWS = (1000, 100)
"""How many rows a statement inserts on SQLite. Only a few numbers, as each is a new statement."""


def insert_rows(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Execute an `INSERT` on SQLite with `rows` in place of `{}`; return how many rows were new.

    It inserts many rows at once because other threads run while SQLite executes a statement.
    """
    row_marks = f"({', '.join('?' for _ in rows[0])})"
    first = new = 0
    for size in _STATEMENT_ROWS:
        while len(rows) - first >= size:
            page = rows[first : first + size]
            first += size
            many = statement.format(", ".join([row_marks] * size))
            new += connection.exec_driver_sql(many, tuple(chain.from_iterable(page))).rowcount
    if rest := rows[first:]:
        new += connection.exec_driver_sql(statement.format(row_marks), rest).rowcount
    return new


_ARRAYS = {str: "text[]", int: "bigint[]", bytes: "bytea[]"}
"""Types for values, which PostgreSQL converts to those of the columns.

Shorter types would cut values off.
"""


def select_columns(table: type[Base], names: Iterable[str]) -> Select[*tuple[Any, ...]]:
    """Return a query for the columns of `table` with these names."""
    return select(*(table.__table__.c[name] for name in names))


def escape_like(text: str) -> str:
    r"""Escape `text`, so that `LIKE … ESCAPE '\'` takes it literally."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
