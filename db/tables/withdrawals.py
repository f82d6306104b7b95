"""What was taken back, with all that was derived from it, and what came of that."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.tables.base import Base, Digest, Number


class Withdrawal(Base):
    """Something that was taken back, with everything derived from it: by whom, why, how far it is.

    `key` is made from what was asked for, so that asking again finds the same row; `target` is that
    as JSON. `ground` is a word of `schemas.withdrawal`, `reason` the words of who asked, which stay
    here. `erases` says whether bytes go as well. `state` is confirmed, then finished.
    """

    __tablename__ = "withdrawal"

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
    """An entity that a withdrawal takes back."""

    __tablename__ = "withdrawn_entity"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)


class WithdrawnDigest(Base):
    """A file that a withdrawal takes back, or a text that it erases: by its digest.

    `media_type` is None where no file of ours has it (videos, images as they came, texts).
    `is_refused` says that it is not taken in again, `is_erased` that ours goes, on grounds that
    demand it. Where the withdrawal erases, no vectors of any of them are stored.
    """

    __tablename__ = "withdrawn_digest"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    media_type: Mapped[str | None] = mapped_column(String(32))
    is_refused: Mapped[bool]
    is_erased: Mapped[bool]


class WithdrawalNotice(Base):
    """What holders of a release are told of a withdrawal, as it was decided with it.

    `notice` is a `schemas.withdrawal.WithdrawalNotice`.
    """

    __tablename__ = "withdrawal_notice"

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    release_id: Mapped[str] = mapped_column(ForeignKey("release.id"), primary_key=True)
    notice: Mapped[dict[str, Any]]


class WithdrawalStep(Base):
    """A step of a withdrawal that was done, and what it came to."""

    __tablename__ = "withdrawal_step"

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    step: Mapped[str] = mapped_column(String(128), primary_key=True)
    told: Mapped[dict[str, Any]]
    done_at: Mapped[datetime]
