"""Alembic migrations; run by `db.engine.migrate`."""
