"""Up to where the store was read for a release; what was withdrawn."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_MARKS = ("entity_mark", "decision_mark", "withdrawal_mark")


def upgrade() -> None:
    with op.batch_alter_table("release") as table:
        for mark in _MARKS:
            table.add_column(sa.Column(mark, _NUMBER, nullable=False, server_default="0"))
    op.create_table(
        "withdrawal",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("target", sa.JSON(), nullable=False),
        sa.Column("ground", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("erases", sa.Boolean(), nullable=False),
        sa.Column("agent_id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("confirmed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agent.id"], name=op.f("fk_withdrawal_agent_id_agent")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_withdrawal")),
        sa.UniqueConstraint("key", name=op.f("uq_withdrawal_key")),
    )
    op.create_table(
        "withdrawn_entity",
        sa.Column("withdrawal_id", _NUMBER, nullable=False),
        sa.Column("entity_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["withdrawal_id"],
            ["withdrawal.id"],
            name=op.f("fk_withdrawn_entity_withdrawal_id_withdrawal"),
        ),
        sa.ForeignKeyConstraint(
            ["entity_id"], ["entity.id"], name=op.f("fk_withdrawn_entity_entity_id_entity")
        ),
        sa.PrimaryKeyConstraint("withdrawal_id", "entity_id", name=op.f("pk_withdrawn_entity")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_withdrawn_entity_entity_id", "withdrawn_entity", ["entity_id"])


def downgrade() -> None:
    op.drop_index("ix_withdrawn_entity_entity_id", table_name="withdrawn_entity")
    op.drop_table("withdrawn_entity")
    op.drop_table("withdrawal")
    with op.batch_alter_table("release") as table:
        for mark in _MARKS:
            table.drop_column(mark)
