"""The tables of the provenance store."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "agent",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent")),
    )
    op.create_table(
        "claim",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("plan_id", sa.Integer(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("lower", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("upper", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_claim")),
    )
    with op.batch_alter_table("claim", schema=None) as batch_op:
        batch_op.create_index("ix_claim_plan", ["plan_id", "dataset"], unique=False)

    op.create_table(
        "plan",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("configuration", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan")),
        sa.UniqueConstraint("key", name=op.f("uq_plan_key")),
    )
    with op.batch_alter_table("plan", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_plan_stage"), ["stage"], unique=False)

    op.create_table(
        "release",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("manifest", sa.JSON(), nullable=False),
        sa.Column("built_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_release")),
    )
    op.create_table(
        "activity",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("plan_id", sa.Integer(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("code_revision", sa.Text(), nullable=False),
        sa.Column("flow_run", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"], name=op.f("fk_activity_plan_id_plan")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_activity")),
    )
    op.create_table(
        "model_call",
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("prompt_digest", sa.Text(), nullable=False),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("response", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("tokens_in", sa.Integer(), nullable=False),
        sa.Column("tokens_out", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("currency", sa.String(length=8), nullable=True),
        sa.Column("called_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agent.id"], name=op.f("fk_model_call_agent_id_agent")
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_model_call")),
    )
    with op.batch_alter_table("model_call", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_model_call_dataset"), ["dataset"], unique=False)

    op.create_table(
        "association",
        sa.Column(
            "activity_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["activity_id"], ["activity.id"], name=op.f("fk_association_activity_id_activity")
        ),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agent.id"], name=op.f("fk_association_agent_id_agent")
        ),
        sa.PrimaryKeyConstraint("activity_id", "agent_id", name=op.f("pk_association")),
    )
    op.create_table(
        "entity",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("split", sa.String(length=8), nullable=True),
        sa.Column("group_key", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column(
            "activity_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("model_call_key", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(
            ["activity_id"], ["activity.id"], name=op.f("fk_entity_activity_id_activity")
        ),
        sa.ForeignKeyConstraint(
            ["model_call_key"], ["model_call.key"], name=op.f("fk_entity_model_call_key_model_call")
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_entity")),
        sa.UniqueConstraint("id", name=op.f("uq_entity_id")),
    )
    with op.batch_alter_table("entity", schema=None) as batch_op:
        batch_op.create_index(
            "ix_entity_group",
            ["group_key"],
            unique=False,
            sqlite_where=sa.text("group_key IS NOT NULL"),
            postgresql_where=sa.text("group_key IS NOT NULL"),
        )
        batch_op.create_index("ix_entity_pending", ["dataset", "kind", "seq"], unique=False)

    op.create_table(
        "work",
        sa.Column("plan_id", sa.Integer(), nullable=False),
        sa.Column("input", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column(
            "activity_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("reason", sa.String(length=64), nullable=True),
        sa.Column("rejection", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["activity_id"], ["activity.id"], name=op.f("fk_work_activity_id_activity")
        ),
        sa.ForeignKeyConstraint(["plan_id"], ["plan.id"], name=op.f("fk_work_plan_id_plan")),
        sa.PrimaryKeyConstraint("plan_id", "input", name=op.f("pk_work")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "derivation",
        sa.Column(
            "child_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column(
            "parent_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["child_seq"], ["entity.seq"], name=op.f("fk_derivation_child_seq_entity")
        ),
        sa.ForeignKeyConstraint(
            ["parent_seq"], ["entity.seq"], name=op.f("fk_derivation_parent_seq_entity")
        ),
        sa.PrimaryKeyConstraint("child_seq", "role", "parent_seq", name=op.f("pk_derivation")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("derivation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_derivation_parent_seq"), ["parent_seq"], unique=False)

    op.create_table(
        "release_item",
        sa.Column("release_id", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["entity_id"], ["entity.id"], name=op.f("fk_release_item_entity_id_entity")
        ),
        sa.ForeignKeyConstraint(
            ["release_id"], ["release.id"], name=op.f("fk_release_item_release_id_release")
        ),
        sa.PrimaryKeyConstraint("release_id", "entity_id", name=op.f("pk_release_item")),
    )
    with op.batch_alter_table("release_item", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_release_item_entity_id"), ["entity_id"], unique=False)

    op.create_table(
        "review_task",
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.String(length=32), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("pushed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["entity_id"], ["entity.id"], name=op.f("fk_review_task_entity_id_entity")
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_review_task")),
    )
    with op.batch_alter_table("review_task", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_review_task_entity_id"), ["entity_id"], unique=False)
        batch_op.create_index("ix_review_task_queue_state", ["queue", "state"], unique=False)

    op.create_table(
        "annotation",
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("review_task_key", sa.String(length=32), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("remote_id", sa.Integer(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("lead_time_seconds", sa.Double(), nullable=True),
        sa.Column("annotated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agent.id"], name=op.f("fk_annotation_agent_id_agent")
        ),
        sa.ForeignKeyConstraint(
            ["review_task_key"],
            ["review_task.key"],
            name=op.f("fk_annotation_review_task_key_review_task"),
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_annotation")),
    )
    with op.batch_alter_table("annotation", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_annotation_review_task_key"), ["review_task_key"], unique=False
        )

    op.create_table(
        "decision",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("entity_id", sa.String(length=32), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("successor_id", sa.String(length=32), nullable=True),
        sa.Column("annotation_key", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agent.id"], name=op.f("fk_decision_agent_id_agent")
        ),
        sa.ForeignKeyConstraint(
            ["annotation_key"],
            ["annotation.key"],
            name=op.f("fk_decision_annotation_key_annotation"),
        ),
        sa.ForeignKeyConstraint(
            ["entity_id"], ["entity.id"], name=op.f("fk_decision_entity_id_entity")
        ),
        sa.ForeignKeyConstraint(
            ["successor_id"], ["entity.id"], name=op.f("fk_decision_successor_id_entity")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
    )
    with op.batch_alter_table("decision", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_decision_entity_id"), ["entity_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("decision", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_decision_entity_id"))

    op.drop_table("decision")
    with op.batch_alter_table("annotation", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_annotation_review_task_key"))

    op.drop_table("annotation")
    with op.batch_alter_table("review_task", schema=None) as batch_op:
        batch_op.drop_index("ix_review_task_queue_state")
        batch_op.drop_index(batch_op.f("ix_review_task_entity_id"))

    op.drop_table("review_task")
    with op.batch_alter_table("release_item", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_release_item_entity_id"))

    op.drop_table("release_item")
    with op.batch_alter_table("derivation", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_derivation_parent_seq"))

    op.drop_table("derivation")
    op.drop_table("work")
    with op.batch_alter_table("entity", schema=None) as batch_op:
        batch_op.drop_index("ix_entity_pending")
        batch_op.drop_index(
            "ix_entity_group",
            sqlite_where=sa.text("group_key IS NOT NULL"),
            postgresql_where=sa.text("group_key IS NOT NULL"),
        )

    op.drop_table("entity")
    op.drop_table("association")
    with op.batch_alter_table("model_call", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_model_call_dataset"))

    op.drop_table("model_call")
    op.drop_table("activity")
    op.drop_table("release")
    with op.batch_alter_table("plan", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_plan_stage"))

    op.drop_table("plan")
    with op.batch_alter_table("claim", schema=None) as batch_op:
        batch_op.drop_index("ix_claim_plan")

    op.drop_table("claim")
    op.drop_table("agent")
