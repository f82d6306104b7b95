"""What a withdrawal tells holders of releases, which files it takes back, and how far it is."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "withdrawn_digest",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("withdrawal_id", _NUMBER, nullable=False),
        sa.Column("media_type", sa.String(length=32), nullable=True),
        sa.Column("is_refused", sa.Boolean(), nullable=False),
        sa.Column("is_erased", sa.Boolean(), nullable=False),
        _to_withdrawal("withdrawn_digest"),
        sa.PrimaryKeyConstraint("sha256", "withdrawal_id", name=op.f("pk_withdrawn_digest")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "withdrawal_notice",
        sa.Column("withdrawal_id", _NUMBER, nullable=False),
        sa.Column("release_id", sa.String(length=64), nullable=False),
        sa.Column("notice", sa.JSON(), nullable=False),
        _to_withdrawal("withdrawal_notice"),
        sa.ForeignKeyConstraint(
            ["release_id"], ["release.id"], name=op.f("fk_withdrawal_notice_release_id_release")
        ),
        sa.PrimaryKeyConstraint("withdrawal_id", "release_id", name=op.f("pk_withdrawal_notice")),
    )
    op.create_table(
        "withdrawal_step",
        sa.Column("withdrawal_id", _NUMBER, nullable=False),
        sa.Column("step", sa.String(length=128), nullable=False),
        sa.Column("told", sa.JSON(), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=False),
        _to_withdrawal("withdrawal_step"),
        sa.PrimaryKeyConstraint("withdrawal_id", "step", name=op.f("pk_withdrawal_step")),
    )


def _to_withdrawal(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_withdrawal_id_withdrawal")
    return sa.ForeignKeyConstraint(["withdrawal_id"], ["withdrawal.id"], name=name)


def downgrade() -> None:
    for table in ("withdrawal_step", "withdrawal_notice", "withdrawn_digest"):
        op.drop_table(table)
