"""Releases are stored, and things are taken back, one after the other."""

from sqlalchemy import Connection, func, select

_LOCK = 7061709


def take_turn(connection: Connection) -> None:
    """Waits until no other transaction stores a release or takes something back, until its end.

    So each sees what the other did: none releases what is being withdrawn, unseen. On SQLite, which
    has one writer, that is so anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
