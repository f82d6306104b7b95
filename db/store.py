"""The provenance store: one database, opened once, read and written in short transactions."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from db.engine import migrate, open_engine


class Store:
    """A handle on the database. Safe in threads; every call is a transaction of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str) -> "Store":
        """Opens the database at `url` and brings its tables up to date."""
        engine = open_engine(url)
        migrate(engine)
        return cls(engine)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection in a transaction that sees one state of the database."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A connection in a transaction that writes: all of it happens, or nothing."""
        with (
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()
