"""Withdrawals, their entities, files, notices and steps."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.tables.base import Base, Digest, Number


class Withdrawal(Base):
    """A withdrawal of a target and everything derived from it.

    `key` is computed from the request, so that the same request finds the same row; `target` is the
    target as JSON. `ground` is a value of `schemas.withdrawal.Ground`; `reason` is what the person
    who requested it wrote, and is stored nowhere else. `erases` tells whether files are erased.
    `state` is confirmed, then finished.
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
    """An entity of a withdrawal."""

    __tablename__ = "withdrawn_entity"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)


class WithdrawnDigest(Base):
    """The digest of a file of a withdrawal, or of a text that it erases.

    `media_type` is None if the blob store has no such file (videos, original images, texts). If
    `is_refused`, it is not imported again; if `is_erased`, its blob is erased. If the withdrawal
    erases, no vectors of its files and texts are stored.
    """

    __tablename__ = "withdrawn_digest"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    media_type: Mapped[str | None] = mapped_column(String(32))
    is_refused: Mapped[bool]
    is_erased: Mapped[bool]


class WithdrawalNotice(Base):
    """The notice of a withdrawal for the holders of a release.

    `notice` is a `schemas.withdrawal.WithdrawalNotice`.
    """

    __tablename__ = "withdrawal_notice"

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    release_id: Mapped[str] = mapped_column(ForeignKey("release.id"), primary_key=True)
    notice: Mapped[dict[str, Any]]


class WithdrawalStep(Base):
    """A completed step of a withdrawal, with its details."""

    __tablename__ = "withdrawal_step"

    withdrawal_id: Mapped[int] = mapped_column(ForeignKey("withdrawal.id"), primary_key=True)
    step: Mapped[str] = mapped_column(String(128), primary_key=True)
    details: Mapped[dict[str, Any]]
    done_at: Mapped[datetime]
