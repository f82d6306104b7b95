"""Checkpoints within long inputs: videos that are half tracked."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "checkpoint",
        sa.Column("plan_id", sa.Integer(), nullable=False),
        sa.Column("input", number, autoincrement=False, nullable=False),
        sa.Column("position", number, nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"], name=op.f("fk_checkpoint_plan_id_plan")),
        sa.PrimaryKeyConstraint("plan_id", "input", name=op.f("pk_checkpoint")),
    )


def downgrade() -> None:
    op.drop_table("checkpoint")
