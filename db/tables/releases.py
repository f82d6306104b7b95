"""Releases, their entities, and evaluations on them."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from db.tables.base import Base, Digest, Number


class Release(Base):
    """An immutable snapshot; `id` is the digest of its manifest.

    The marks are the numbers of the last rows that the build read (`db.releases.StateMark`).
    `inputs` is the digest of all inputs of its last build, if known, and `listing` that of the
    names, sizes and times of its files when they were last read.
    """

    __tablename__ = "release"

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


class ReleaseTarget(Base):
    """The version of a dataset that its builds release next, as set by the last of them."""

    __tablename__ = "release_target"

    dataset: Mapped[str] = mapped_column(Text, primary_key=True)
    version: Mapped[str] = mapped_column(Text)


class ReleaseItem(Base):
    """An entity that is a row, or part of a row, of a release."""

    __tablename__ = "release_item"

    release_id: Mapped[str] = mapped_column(ForeignKey("release.id"), primary_key=True)
    entity_id: Mapped[str] = mapped_column(ForeignKey("entity.id"), primary_key=True, index=True)


class Evaluation(Base):
    """The scores of a model on a split of a release; `id` is a digest of all that it depends on.

    The release may have been built elsewhere. `result` is a `schemas.evaluation.EvaluationResult`.
    """

    __tablename__ = "evaluation"
    __table_args__ = (Index("ix_evaluation_release_id", "release_id", "split"),)

    id: Mapped[str] = mapped_column(Digest, primary_key=True)
    release_id: Mapped[str] = mapped_column(String(64))
    split: Mapped[str] = mapped_column(String(16))
    result: Mapped[dict[str, Any]]
    evaluated_at: Mapped[datetime]
