"""Create the tables of the provenance store.

Nothing is released yet, so there is one migration: the tables as declared in `db/tables.py`.
"""

from collections.abc import Sequence

from alembic import op

from loupe.db.tables import SCHEMA, Base

revision: str = SCHEMA
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    Base.metadata.create_all(op.get_bind())


def downgrade() -> None:
    Base.metadata.drop_all(op.get_bind())
