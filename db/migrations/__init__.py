"""Alembic migrations; run by `loupe.db.store.migrate`."""
