"""Alembic migrations; run by `db.store.migrate`."""
