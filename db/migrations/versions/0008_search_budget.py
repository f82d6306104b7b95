"""Finds the calls of a day, for budgets that are kept across runs."""

from collections.abc import Sequence

from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_index("ix_model_call_agent_id_called_at", "model_call", ["agent_id", "called_at"])


def downgrade() -> None:
    op.drop_index("ix_model_call_agent_id_called_at", table_name="model_call")
