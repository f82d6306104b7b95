"""Run the migrations on the connection that `loupe.db.store.migrate` opened."""

from alembic import context

from loupe.db.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
