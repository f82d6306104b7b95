"""The provenance store: one database, opened once, read and written in short transactions."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from sqlalchemy import Connection, Engine, func, select

from db.engine import faults_as_errors, migrate, open_engine

_WRITERS = 7061711


class Store:
    """A handle on the database. Safe in threads; every call is a transaction of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # SQLite has one writer; threads of ours queue here instead of polling for its lock
        alone = engine.dialect.name == "sqlite"
        self._turn: AbstractContextManager[object] = threading.Lock() if alone else nullcontext()

    @classmethod
    def open(cls, url: str) -> "Store":
        """Opens the database at `url` and brings its tables up to date."""
        engine = open_engine(url)
        try:
            migrate(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection in a transaction that sees one state of the database.

        Raises:
            ServiceError: the database is gone or failed.
        """
        with (
            faults_as_errors(self.engine),
            self._connect_to_read() as connection,
            connection.begin(),
        ):
            yield connection

    def _connect_to_read(self) -> Connection:
        connection = self.engine.connect()
        if self.engine.dialect.name == "postgresql":  # where each statement sees a state of its own
            connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        return connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A connection in a transaction that writes: all of it happens, or nothing.

        Raises:
            ServiceError: the database is gone, full, locked for too long or failed otherwise.
        """
        with (
            faults_as_errors(self.engine),
            self._turn,
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            self._count_as_writer(connection)
            yield connection

    def _count_as_writer(self, connection: Connection) -> None:
        """Shares a lock with all who write, before anything else is locked, until the end."""
        if self.engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock_shared(_WRITERS)))

    @contextmanager
    def no_writers(self) -> Iterator[None]:
        """A moment in which nobody is writing: waits for who is, and lets others wait for its end.

        On SQLite, which has one writer, whose numbers grow as they are seen, it is any moment.
        """
        if self.engine.dialect.name != "postgresql":
            yield
            return
        with self.engine.connect() as connection, connection.begin():
            connection.execute(select(func.pg_advisory_xact_lock(_WRITERS)))
            yield

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()
