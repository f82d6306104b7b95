"""Results of work, paid model calls, checkpoints, and claims on work under way."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from db.tables.base import Base, Digest, Number


class Work(Base):
    """The result of one input of one plan: done, or rejected with a reason.

    `input` is the `seq` of an entity or, for an import, the index of a record in its file (whose
    digest is part of the plan).
    """

    __tablename__ = "work"
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
    """The entity number up to which a plan has no pending inputs (`db.pending`).

    `selection` is the digest of the selection of inputs. The mark was computed after `decision` and
    `activation`, the last ones at that time. It is valid while rejections of the plan were dropped
    `resets` times.
    """

    __tablename__ = "low_water_mark"

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

    __tablename__ = "checkpoint"

    plan_id: Mapped[int] = mapped_column(ForeignKey("plan.id"), primary_key=True)
    input: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(Number)
    state: Mapped[bytes] = mapped_column(LargeBinary)


class Process(Base):
    """A process that makes claims: where it runs (`schemas.processes`), and its heartbeat.

    `beats` counts up while it runs, `beat_at` is the last time by the database's clock.
    """

    __tablename__ = "process"

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    place: Mapped[str] = mapped_column(Text)
    beats: Mapped[int] = mapped_column(Number)
    beat_at: Mapped[datetime]


class Claim(Base):
    """A process's claim on a subject, or on the numbers from `lower` to `upper` within it."""

    __tablename__ = "claim"
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
    reported about the model in that run (`schemas.chat.ServedModel`), if anything.

    A search of images on the web is also a call (`db.search_calls`): its `tokens_in` are the
    requests that the service counts.
    """

    __tablename__ = "model_call"
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
    called_at: Mapped[datetime]
