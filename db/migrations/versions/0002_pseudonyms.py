"""Pseudonyms of the people who review."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "pseudonym",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("server", "user_id", name=op.f("pk_pseudonym")),
        sa.UniqueConstraint("name", name=op.f("uq_pseudonym_name")),
    )


def downgrade() -> None:
    op.drop_table("pseudonym")
