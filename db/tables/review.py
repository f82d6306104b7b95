"""Review: questions, annotators and their answers, gold items and audits."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from db.tables.base import Base, Digest, Number


class ReviewTask(Base):
    """A question about an entity; `key` is made from queue, entity, assignee, purpose.

    `assignee` is a pseudonym, or empty for the account of the installation itself. `state` is open,
    answered, skipped, returned (the answer no longer counts) or closed (no answer is needed any
    more). `erased_by` is the withdrawal for which the task, with its answers, is still to be
    deleted on the server.
    """

    __tablename__ = "review_task"
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

    __tablename__ = "review_image"
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
    (unclear or quarantined, and discarded by the lead).
    """

    __tablename__ = "annotation"

    key: Mapped[str] = mapped_column(Digest, primary_key=True)
    review_task_key: Mapped[str] = mapped_column(ForeignKey("review_task.key"), index=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    remote_id: Mapped[int] = mapped_column(index=True)
    state: Mapped[str] = mapped_column(String(16), index=True)
    result: Mapped[dict[str, Any]]
    answer: Mapped[dict[str, Any]]
    lead_time_seconds: Mapped[float | None]
    annotated_at: Mapped[datetime]
    received_at: Mapped[datetime]


class Pseudonym(Base):
    """The pseudonym of a user of a review server.

    It is random, so that a release does not identify users even to those who know them. If the row
    is erased, the person is permanently anonymous.
    """

    __tablename__ = "pseudonym"

    server: Mapped[str] = mapped_column(Text, primary_key=True)
    user_id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(32), unique=True)


class Annotator(Base):
    """A person who reviews.

    `name` is known to colleagues only; releases contain the pseudonym. `project_id`s belong to the
    person's own workspace on `server`, in which no one else works. `roles` are annotator and
    adjudicator, separated by a space; `state` is active, paused (no tasks, but a login) or left.
    """

    __tablename__ = "annotator"

    pseudonym: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    server: Mapped[str] = mapped_column(Text)
    user_id: Mapped[int]
    roles: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    added_at: Mapped[datetime]


class ReviewPriority(Base):
    """The priority of an item of a queue; items with a higher one are assigned first."""

    __tablename__ = "review_priority"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    queue: Mapped[str] = mapped_column(Text, primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True)
    priority: Mapped[int]


class DeskCursor(Base):
    """Position up to which a project on a review server was read (`db.reviews.Cursor`)."""

    __tablename__ = "desk_cursor"

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

    __tablename__ = "gold_item"

    queue: Mapped[str] = mapped_column(Text, primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True)
    answer: Mapped[dict[str, Any]]
    origin: Mapped[str] = mapped_column(Text)
    explanation: Mapped[str] = mapped_column(Text, default="", server_default="")
    added_at: Mapped[datetime]


class GoldCheck(Base):
    """The comparison of an annotation with the known answer of its gold item."""

    __tablename__ = "gold_check"
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

    __tablename__ = "task_return"

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

    __tablename__ = "audit_draw"
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

    __tablename__ = "audit_item"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    draw_id: Mapped[int] = mapped_column(ForeignKey("audit_draw.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)
    stratum: Mapped[str] = mapped_column(Text)
