"""A cache of embeddings."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "embedding_space",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_embedding_space")),
        sa.UniqueConstraint("key", name=op.f("uq_embedding_space_key")),
    )
    op.create_table(
        "embedding",
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["space_id"], ["embedding_space.id"],
            name=op.f("fk_embedding_space_id_embedding_space"),
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_embedding")),
    )  # fmt: skip


def downgrade() -> None:
    op.drop_table("embedding")
    op.drop_table("embedding_space")
