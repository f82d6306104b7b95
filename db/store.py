"""The provenance store: one database, opened once, read and written in short transactions."""

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, Engine, func, make_url, select
from sqlalchemy.exc import DBAPIError, OperationalError

from db.claims import Claims
from db.engine import (
    DatabaseLostError,
    faults_as_errors,
    is_passing,
    is_read_only,
    is_there,
    migrate,
    open_engine,
)
from schemas.errors import UsageError

_WRITERS = 7061711
PATIENCE_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """A handle on the database. Thread-safe; each call is its own transaction.

    If the database restarts, breaks connections or is busy, `read` and `write` wait until they can
    begin, and functions that are `retried` are called again.

    Args:
        engine: the database, with tables at the newest version.
        spool: a folder for paid answers that could not be stored; see `db.calls`.
        patience_seconds: how long to wait for the database.
    """

    def __init__(
        self,
        engine: Engine,
        spool: Path | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.engine = engine
        self.spool = spool
        self.patience_seconds = patience_seconds
        self.claims = Claims(self.write)
        # SQLite has one writer; our threads queue here instead of polling for its lock
        alone = engine.dialect.name == "sqlite"
        self._write_lock: AbstractContextManager[object] = (
            threading.Lock() if alone else nullcontext()
        )

    @classmethod
    def open(
        cls, url: str, spool: Path | None = None, patience_seconds: float = PATIENCE_SECONDS
    ) -> "Store":
        """Open the database at `url` and migrate its tables to the newest version."""
        engine = open_engine(url)
        try:
            migrate(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, spool, patience_seconds)

    @classmethod
    def open_existing(cls, url: str) -> "Store":
        """Open the existing database at `url` to read it.

        Raises:
            UsageError: it does not exist.
        """
        if not is_there(url):
            raise UsageError(
                f"nothing is stored here yet: there is no {make_url(url).database}; go to the "
                f"folder that holds your .loupe, set LOUPE_HOME, or begin with `loupe run`"
            )
        return cls.open(url)

    @property
    def is_read_only(self) -> bool:
        """Whether the store cannot be written to, for example on a read-only file system."""
        return is_read_only(self.engine.url)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a connection in a transaction that sees one state of the database.

        Raises:
            DatabaseLostError: the connection broke, or cannot be opened for `patience_seconds`.
            ServiceError: the database does not answer or failed.
        """
        with faults_as_errors(self.engine), self._connect() as connection:
            if self.engine.dialect.name == "postgresql":  # else each statement has its own state
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a connection in a transaction that writes everything or nothing.

        Raises:
            DatabaseLostError: nothing was stored; try again.
            ServiceError: the database does not answer, is full or locked, or failed otherwise.
        """
        with (
            faults_as_errors(self.engine),
            self._write_lock,
            self._connect().execution_options(writes=True) as connection,
            connection.begin() as transaction,
        ):
            number = self._acquire_writer_lock(connection)
            yield connection
            try:
                transaction.commit()
            except DBAPIError as error:
                if number is None or not is_passing(error) or not self._was_committed(number):
                    raise

    def _acquire_writer_lock(self, connection: Connection) -> str | None:
        """Share a lock with all writers until the end of the transaction, before any other lock.

        Returns:
            The number of the transaction, which tells whether it was committed if the connection
            breaks; None on SQLite, where that is always known.
        """
        if self.engine.dialect.name != "postgresql":
            return None
        lock = func.pg_advisory_xact_lock_shared(_WRITERS)
        return str(connection.execute(select(func.pg_current_xact_id(), lock)).one()[0])

    def _was_committed(self, number: str) -> bool:
        """Return whether the server committed a transaction whose response was lost."""
        with self._connect() as connection:
            query = "SELECT pg_xact_status(%s::xid8)"
            while (
                status := connection.exec_driver_sql(query, (number,)).scalar()
            ) == "in progress":
                time.sleep(_FIRST_PAUSE_SECONDS)
            return status == "committed"

    def _connect(self) -> Connection:
        """Return a connection; waits while the server is unavailable."""
        for is_last in _attempts(self.patience_seconds):
            try:
                return self.engine.connect()
            except OperationalError as error:
                server = self.engine.dialect.name == "postgresql"
                refused = server and getattr(error.orig, "sqlstate", None) is None
                if not (refused or is_passing(error)):
                    raise
                if is_last:
                    error.connection_invalidated = True
                    raise
        raise AssertionError

    def read_only(self) -> "Store":
        """Return a read-only handle on this store."""
        return _ReadOnlyStore(self.engine, self.spool, self.patience_seconds)

    @contextmanager
    def no_writers(self) -> Iterator[None]:
        """Wait for all writers, and block new ones until the block ends.

        SQLite has one writer, whose numbers grow in the order in which they become visible, so
        there is nothing to wait for.
        """
        if self.engine.dialect.name != "postgresql":
            yield
            return
        with self.engine.connect() as connection, connection.begin():
            connection.execute(select(func.pg_advisory_xact_lock(_WRITERS)))
            yield

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


class _ReadOnlyStore(Store):
    """A store that cannot be written to."""

    @contextmanager
    def write(self) -> Iterator[Connection]:
        raise RuntimeError("this store is read-only")
        yield


def retried(
    function: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Decorate a function of one transaction: it is called again if the connection is lost.

    Do not use it for functions with effects elsewhere. Iterator arguments are consumed once.
    """

    @functools.wraps(function)
    def call(store: Store, /, *args: Any, **kwargs: Any) -> T:
        again: Any = [tuple(one) if isinstance(one, Iterator) else one for one in args]
        for is_last in _attempts(store.patience_seconds):
            try:
                return function(store, *again, **kwargs)
            except DatabaseLostError:
                if is_last:
                    raise
        raise AssertionError

    return cast("Callable[Concatenate[Store, P], T]", call)


def _attempts(seconds: float) -> Iterator[bool]:
    """Yield with pauses between attempts; True for the first that begins after the time is over."""
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while True:
        is_last = time.monotonic() >= deadline
        yield is_last
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
