"""The provenance store: one database, read and written in short transactions, and its claims.

Claims prevent concurrent runs from repeating work or paying for it twice. A claim is on a subject
(a model call, a plan's work on a dataset) or on a range of numbers within one. It belongs to a
process, which has a random id and a heartbeat in the store. A claim ends with the heartbeat of its
process, or as soon as the process is known to have died (`schemas.processes`).

The clocks of two machines are never compared. On PostgreSQL, the server's clock gives the age of a
heartbeat. SQLite has no clock of its own (its `now` is the caller's): a heartbeat has ended if it
did not change during one lease on the monotonic clock of the process that waits for it.
"""

import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from uuid import uuid4

from sqlalchemy import Connection, Engine, delete, func, make_url, null, select
from sqlalchemy.exc import DBAPIError, OperationalError

from db.engine import (
    DatabaseLostError,
    faults_as_errors,
    insert_into,
    is_passing,
    is_read_only,
    is_there,
    migrate,
    open_engine,
)
from db.tables import Claim, Process
from schemas.errors import ServiceError, UsageError
from schemas.processes import is_process_dead, own_place

_log = logging.getLogger(__name__)
LEASE_SECONDS = 60.0
"""How long the claims of a process outlive its last heartbeat."""
_BEATS_A_LEASE = 6


def process_id() -> str:
    """Return the random id of this process as the owner of claims; a forked child gets another."""
    return _random_id(os.getpid())


@cache
def _random_id(_pid: int) -> str:
    return uuid4().hex


class Claims:
    """The claims of one store: this process's own and those of others.

    Methods that take a connection take part in its transaction. Thread-safe.
    """

    def __init__(
        self,
        write: Callable[[], AbstractContextManager[Connection]],
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._write = write
        self._clock = clock
        self._renewals = 0  # number of nested `renewed` blocks
        self._changing = threading.Lock()
        self._stop = threading.Event()
        self._renewal: threading.Thread | None = None
        self._last_beats: dict[
            str, tuple[int, float]
        ] = {}  # for each process: beats, and since when

    def take(
        self, connection: Connection, subject: str, lower: int = 0, upper: int = 0
    ) -> str | None:
        """Claim a subject, or numbers from `lower` to `upper` in it; return the claim's id.

        Returns None if there is a claim on the subject that begins at `lower`, also one of another
        thread of this process.
        """
        self.beat(connection)
        claim_id = uuid4().hex
        values = {
            "id": claim_id,
            "subject": subject,
            "lower": lower,
            "upper": upper,
            "process_id": process_id(),
        }
        new = insert_into(connection, Claim).on_conflict_do_nothing().returning(Claim.id)
        if connection.execute(new, values).first() is None:
            self.drop_ended(connection)
            if connection.execute(new, values).first() is None:
                return None
        return claim_id

    def release(self, connection: Connection, claim_id: str) -> bool:
        """Release a claim; return False if another process has taken it over."""
        gone = connection.execute(delete(Claim).where(Claim.id == claim_id))
        return gone.rowcount == 1

    def is_taken(self, connection: Connection, subject: str) -> bool:
        """Return whether there is a claim on the subject or a part of it; writes nothing."""
        is_live = Claim.process_id.not_in([*self.ended(connection)])
        query = select(Claim.id).where(Claim.subject == subject, is_live)
        return connection.execute(query.limit(1)).first() is not None

    def beat(self, connection: Connection) -> None:
        """Renew all claims of this process; call it well within `lease_seconds`."""
        row = {"id": process_id(), "place": own_place(), "beats": 0, "beat_at": func.now()}
        connection.execute(
            insert_into(connection, Process)
            .values(row)
            .on_conflict_do_update(
                index_elements=[Process.id],
                set_={"beats": Process.beats + 1, "beat_at": func.now()},
            )
        )

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew this process's claims from a thread while the block runs; blocks may be nested."""
        with self._changing:
            self._renewals += 1
            if self._renewals == 1:
                self._stop.clear()
                self._renewal = threading.Thread(target=self._keep_beating, daemon=True)
                self._renewal.start()
        try:
            yield
        finally:
            with self._changing:
                self._renewals -= 1
                if self._renewals == 0 and self._renewal is not None:
                    self._stop.set()
                    self._renewal.join()

    def _keep_beating(self) -> None:
        while not self._stop.wait(self.lease_seconds / _BEATS_A_LEASE):
            try:
                with self._write() as connection:
                    self.beat(connection)
            except ServiceError as error:
                _log.warning("claims are not renewed: %s", error)  # the next attempt may succeed

    def drop_ended(self, connection: Connection) -> None:
        """Delete the processes that died or have no heartbeat any more, with their claims."""
        for id_, beats in self.ended(connection).items():
            # Claims are deleted with their process. A process with a heartbeat since then stays.
            same = (Process.id == id_, Process.beats == beats)
            connection.execute(delete(Process).where(*same))

    def ended(self, connection: Connection) -> dict[str, int]:
        """Return the processes that died or have no heartbeat any more, by id, with their beats."""
        has_clock = connection.dialect.name == "postgresql"
        # While the server was down, no heartbeat could be stored.
        heard_at = func.greatest(Process.beat_at, func.pg_postmaster_start_time())
        age = func.extract("epoch", func.now() - heard_at) if has_clock else null()
        query = select(Process.id, Process.place, Process.beats, age).order_by(Process.id)
        others = connection.execute(query.where(Process.id != process_id())).all()
        found: dict[str, int] = {}
        for id_, place, beats, seconds in others:
            silent = self._seconds_unchanged(id_, beats) if seconds is None else float(seconds)
            if silent >= self.lease_seconds or is_process_dead(place):
                found[id_] = beats
        return found

    def _seconds_unchanged(self, id_: str, beats: int) -> float:
        """Return for how many seconds this process has seen no change of that heartbeat."""
        now = self._clock()
        counted, since = self._last_beats.get(id_, (None, now))
        if counted != beats:
            since = now
        self._last_beats[id_] = (beats, since)
        return now - since


def pauses() -> Iterator[float]:
    """Yield the seconds to wait for another process's claim, from 0.01 up to 1."""
    seconds = 0.01
    while True:
        yield seconds
        seconds = min(2 * seconds, 1.0)


_RELEASES = 7061709
_WRITERS = 7061711
_PATIENCE_SECONDS = 60.0
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
        patience_seconds: float = _PATIENCE_SECONDS,
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
        cls, url: str, spool: Path | None = None, patience_seconds: float = _PATIENCE_SECONDS
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


def acquire_release_lock(connection: Connection) -> None:
    """Lock releases and withdrawals against other writers until the transaction ends.

    Each sees the changes of the other, and nothing is released while it is being withdrawn. SQLite
    has one writer and needs no lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_RELEASES)))


@retried
def drop_claims(store: Store, *claim_ids: str) -> None:
    """Release claims on unfinished work."""
    if claim_ids:
        with store.write() as connection:
            connection.execute(delete(Claim).where(Claim.id.in_(claim_ids)))
