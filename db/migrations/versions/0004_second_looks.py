"""Second looks at samples of accepted items; when a return was lifted."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "second_look_draw",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("strata", sa.JSON(), nullable=False),
        sa.Column("drawn_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_second_look_draw")),
        sa.UniqueConstraint(
            "queue", "seed", "size", "by", name=op.f("uq_second_look_draw_queue_seed_size_by")
        ),
    )
    op.create_table(
        "second_look",
        sa.Column("draw_id", sa.Integer(), nullable=False),
        sa.Column("entity_id", sa.String(length=32), nullable=False),
        sa.Column("stratum", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["draw_id"],
            ["second_look_draw.id"],
            name=op.f("fk_second_look_draw_id_second_look_draw"),
        ),
        sa.ForeignKeyConstraint(
            ["entity_id"], ["entity.id"], name=op.f("fk_second_look_entity_id_entity")
        ),
        sa.PrimaryKeyConstraint("draw_id", "entity_id", name=op.f("pk_second_look")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("second_look", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_second_look_entity_id"), ["entity_id"], unique=False)

    with op.batch_alter_table("task_return", schema=None) as batch_op:
        batch_op.add_column(sa.Column("lifted_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("task_return", schema=None) as batch_op:
        batch_op.drop_column("lifted_at")

    with op.batch_alter_table("second_look", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_second_look_entity_id"))

    op.drop_table("second_look")
    op.drop_table("second_look_draw")
