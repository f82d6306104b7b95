"""Entities, activities, agents, derivations and decisions: the graph of W3C PROV."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, aliased, mapped_column

from db.tables.base import Base, Digest, Number


class Agent(Base):
    """A person, a model at a revision, or a piece of software at a version."""

    __tablename__ = "agent"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(Text)
    revision: Mapped[str] = mapped_column(Text, default="")


class Plan(Base):
    """A stage at a version with a configuration, which activities run (`prov:Plan`).

    `resets` counts how often rejections of its inputs were dropped, so that they are pending again.
    """

    __tablename__ = "plan"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(Digest, unique=True)
    stage: Mapped[str] = mapped_column(Text, index=True)
    version: Mapped[str] = mapped_column(String(32))
    configuration: Mapped[dict[str, Any]]
    resets: Mapped[int] = mapped_column(default=0, server_default="0")


class Activity(Base):
    """One run of one plan over one chunk."""

    __tablename__ = "activity"

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"))
    dataset: Mapped[str] = mapped_column(Text)
    code_revision: Mapped[str] = mapped_column(Text)
    flow_run: Mapped[str] = mapped_column(Text)
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime]


class Association(Base):
    """An agent that took part in an activity."""

    __tablename__ = "association"

    activity_id: Mapped[int] = mapped_column(ForeignKey("activity.id"), primary_key=True)
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"), primary_key=True)


class Entity(Base):
    """An item with a content-derived id. Only its `state` changes (`db.decisions.fold`)."""

    __tablename__ = "entity"
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

    __tablename__ = "derivation"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    child_seq: Mapped[int] = mapped_column(ForeignKey("entity.seq"), primary_key=True)
    role: Mapped[str] = mapped_column(String(32), primary_key=True)
    parent_seq: Mapped[int] = mapped_column(ForeignKey("entity.seq"), primary_key=True, index=True)


class Decision(Base):
    """A verdict on an entity, its agent, time and reason. Appended, never changed."""

    __tablename__ = "decision"

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

    __tablename__ = "activation"

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), index=True)
    active: Mapped[bool]
    agent_id: Mapped[str] = mapped_column(ForeignKey("agent.id"))
    changed_at: Mapped[datetime]


ChildEntity, ParentEntity = aliased(Entity), aliased(Entity)
"""Both ends of a derivation, created once, as each alias creates columns in milliseconds."""
