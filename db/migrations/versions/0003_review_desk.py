"""The review desk: annotators, assignments, gold items, what is shown, and how far it was read."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "annotator",
        sa.Column("pseudonym", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("pseudonym", name=op.f("pk_annotator")),
        sa.UniqueConstraint("name", name=op.f("uq_annotator_name")),
    )
    op.create_table(
        "desk_cursor",
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("newest", sa.DateTime(timezone=True), nullable=False),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("read_from", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("annotations", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("server", "project_id", name=op.f("pk_desk_cursor")),
    )
    op.create_table(
        "task_return",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("assignee", sa.String(length=32), nullable=False),
        sa.Column("rule", sa.JSON(), nullable=False),
        sa.Column("accuracy", sa.Double(), nullable=False),
        sa.Column("answers", sa.Integer(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("returned_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_return")),
    )
    with op.batch_alter_table("task_return", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_task_return_queue"), ["queue"], unique=False)

    op.create_table(
        "gold_item",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.String(length=32), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["entity_id"], ["entity.id"], name=op.f("fk_gold_item_entity_id_entity")
        ),
        sa.PrimaryKeyConstraint("queue", "entity_id", name=op.f("pk_gold_item")),
    )
    op.create_table(
        "review_image",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("task_key", sa.String(length=32), nullable=False),
        sa.Column("media_type", sa.String(length=32), nullable=False),
        sa.Column("image_id", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(
            ["image_id"], ["entity.id"], name=op.f("fk_review_image_image_id_entity")
        ),
        sa.ForeignKeyConstraint(
            ["task_key"], ["review_task.key"], name=op.f("fk_review_image_task_key_review_task")
        ),
        sa.PrimaryKeyConstraint("sha256", "task_key", name=op.f("pk_review_image")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "gold_check",
        sa.Column("annotation_key", sa.String(length=32), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("assignee", sa.String(length=32), nullable=False),
        sa.Column("correct", sa.Boolean(), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["annotation_key"],
            ["annotation.key"],
            name=op.f("fk_gold_check_annotation_key_annotation"),
        ),
        sa.PrimaryKeyConstraint("annotation_key", name=op.f("pk_gold_check")),
    )
    with op.batch_alter_table("gold_check", schema=None) as batch_op:
        batch_op.create_index("ix_gold_check_queue", ["queue", "assignee"], unique=False)

    with op.batch_alter_table("annotation", schema=None) as batch_op:
        batch_op.add_column(sa.Column("answer", sa.JSON(), nullable=False, server_default="{}"))

    with op.batch_alter_table("review_task", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("assignee", sa.String(length=32), nullable=False, server_default="")
        )
        batch_op.add_column(
            sa.Column("purpose", sa.String(length=16), nullable=False, server_default="review")
        )
        batch_op.add_column(
            sa.Column("gold", sa.Boolean(), nullable=False, server_default=sa.false())
        )


def downgrade() -> None:
    with op.batch_alter_table("review_task", schema=None) as batch_op:
        batch_op.drop_column("gold")
        batch_op.drop_column("purpose")
        batch_op.drop_column("assignee")

    with op.batch_alter_table("annotation", schema=None) as batch_op:
        batch_op.drop_column("answer")

    with op.batch_alter_table("gold_check", schema=None) as batch_op:
        batch_op.drop_index("ix_gold_check_queue")

    op.drop_table("gold_check")
    op.drop_table("review_image")
    op.drop_table("gold_item")
    with op.batch_alter_table("task_return", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_task_return_queue"))

    op.drop_table("task_return")
    op.drop_table("desk_cursor")
    op.drop_table("annotator")
