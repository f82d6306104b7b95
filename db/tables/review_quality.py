"""How far answers can be relied on: gold items, returned work and audits."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from db.tables.base import Base, Number


class GoldItem(Base):
    """An item of a queue whose answer is known: what annotators are measured with.

    `origin` says how it is known (adjudicated, or given in a file).
    """

    __tablename__ = "gold_item"

    queue: Mapped[str] = mapped_column(Text, primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True)
    answer: Mapped[dict[str, Any]]
    origin: Mapped[str] = mapped_column(Text)
    added_at: Mapped[datetime]


class GoldCheck(Base):
    """How an annotation compares with the known answer of its gold item."""

    __tablename__ = "gold_check"
    __table_args__ = (Index("ix_gold_check_queue", "queue", "assignee"),)

    annotation_key: Mapped[str] = mapped_column(ForeignKey("annotation.key"), primary_key=True)
    queue: Mapped[str] = mapped_column(Text)
    assignee: Mapped[str] = mapped_column(String(32))
    correct: Mapped[bool]
    answered_at: Mapped[datetime]


class TaskReturn(Base):
    """A use of the rule that returns an annotator's unreviewed work to the queue.

    `rule` holds floor, window and least as they were; `accuracy` was found over `answers` gold
    answers; `tasks` is how many answers no longer count. `state` is in force or lifted; gold
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
    """A sample of a queue's accepted items, drawn to be looked at again.

    `strata` gives, for each value of what it was stratified `by`, how many accepted items there
    were.
    """

    __tablename__ = "audit_draw"
    __table_args__ = (UniqueConstraint("queue", "seed", "size", "by"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    queue: Mapped[str] = mapped_column(Text)
    seed: Mapped[int] = mapped_column(Number)
    size: Mapped[int]
    by: Mapped[str] = mapped_column(Text)
    strata: Mapped[dict[str, Any]]
    drawn_at: Mapped[datetime]


class AuditItem(Base):
    """An item of such a sample; what was found is the answer of its `audit` task."""

    __tablename__ = "audit_item"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    draw_id: Mapped[int] = mapped_column(ForeignKey("audit_draw.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)
    stratum: Mapped[str] = mapped_column(Text)
