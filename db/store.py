"""The provenance store: one database, read and written in short transactions, and its claims.

The database is SQLite or PostgreSQL; its tables are created when it is opened for the first time.

Claims prevent concurrent runs from repeating work or paying for it twice. A claim is on a subject
(a model call, a plan's work on a dataset) or on a range of numbers within one. It belongs to a
process, which has a random id and a heartbeat in the store. A claim ends with the heartbeat of its
process, or as soon as the process is known to have died (`loupe.schemas.processes`).

The clocks of two machines are never compared. On PostgreSQL, the server's clock gives the age of a
heartbeat. SQLite has no clock of its own (its `now` is the caller's): a heartbeat has ended if it
did not change during one lease on the monotonic clock of the process that waits for it.
"""

import atexit
import functools
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast
from urllib.parse import quote
from uuid import uuid4
from weakref import WeakSet

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Executable,
    RootTransaction,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    inspect,
    make_url,
    null,
    select,
    text,
)
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from loupe.db.sqlite_writer import writer_of
from loupe.db.tables import SCHEMA, Base, Claim, Process, insert_into
from loupe.schemas.errors import ConfigurationError, ServiceError, UsageError
from loupe.schemas.processes import is_process_dead, own_place, sqlite_temporary_folder

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


@cache
def _new_claim(dialect: str) -> Executable:
    """Build the statement of a claim, which takes as long as to execute it."""
    return insert_into(dialect, Claim).on_conflict_do_nothing().returning(Claim.id)


@cache
def _heartbeat(dialect: str) -> Executable:
    """Build the statement of a heartbeat."""
    now = {"beat_at": func.now()}
    return (
        insert_into(dialect, Process)
        .values(id=bindparam("id"), place=bindparam("place"), beats=bindparam("beats"), **now)
        .on_conflict_do_update(
            index_elements=[Process.id], set_={"beats": Process.beats + 1, **now}
        )
    )


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
        self._given_up: frozenset[str] = frozenset()
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
        new = _new_claim(connection.dialect.name)
        if connection.execute(new, values).first() is None:
            self.drop_ended(connection)
            if connection.execute(new, values).first() is None:
                return None
        return claim_id

    def release(self, connection: Connection, claim_id: str) -> bool:
        """Release a claim; return False if it had ended."""
        gone = connection.execute(delete(Claim).where(Claim.id == claim_id))
        return gone.rowcount == 1

    def give_up(self, *claim_ids: str) -> None:
        """Count claims as released that cannot be deleted now; the next heartbeat deletes them."""
        with self._changing:
            self._given_up |= frozenset(claim_ids)

    def delete_given_up(self) -> None:
        """Delete the claims that were given up, before a search for inputs without a claim."""
        if given_up := self._given_up:
            with self._write() as connection:
                self.beat(connection)
            with self._changing:
                self._given_up -= given_up

    def is_taken(self, connection: Connection, subject: str) -> bool:
        """Return whether there is a claim on the subject or a part of it; writes nothing."""
        is_live = Claim.process_id.not_in([*self.ended(connection)])
        is_wanted = Claim.id.not_in(self._given_up)
        query = select(Claim.id).where(Claim.subject == subject, is_live, is_wanted)
        return connection.execute(query.limit(1)).first() is not None

    def beat(self, connection: Connection) -> None:
        """Renew all claims of this process; call it well within `lease_seconds`."""
        if self._given_up:
            connection.execute(delete(Claim).where(Claim.id.in_(self._given_up)))
        row = {"id": process_id(), "place": own_place(), "beats": 0}
        connection.execute(_heartbeat(connection.dialect.name), row)

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


def pauses(first: float = 0.01, longest: float = 1.0) -> Iterator[float]:
    """Yield the seconds to wait for another process's claim, from the `first` to the `longest`."""
    while True:
        yield first
        first = min(2 * first, longest)


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
        engine: the database, with tables of this version (`open_engine`).
        patience_seconds: how long to wait for the database.
    """

    def __init__(
        self,
        engine: Engine,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self.engine = engine
        self.home = home_of(engine)
        self.spool = self.home / "spool" if self.home else None
        self.patience_seconds = patience_seconds
        self.claims = Claims(self.write)
        self._blocked_since: float | None = None  # by another process that is writing
        # SQLite has one writer; our threads queue here instead of polling for its lock
        alone = engine.dialect.name == "sqlite"
        self._write_lock: AbstractContextManager[object] = (
            threading.Lock() if alone else nullcontext()
        )

    @classmethod
    def open(
        cls, url: str, home: Path | None = None, patience_seconds: float = _PATIENCE_SECONDS
    ) -> "Store":
        """Open the database at `url`, and create its tables if it is new; see `open_engine`."""
        engine = open_engine(url, home)
        try:
            migrate(engine)
        except BaseException:
            _close(engine)
            raise
        return cls(engine, patience_seconds)

    @classmethod
    def open_existing(cls, url: str, home: Path | None = None) -> "Store":
        """Open the existing database at `url` to read it.

        Raises:
            UsageError: it does not exist.
        """
        if not is_there(url):
            raise UsageError(
                f"nothing is stored here yet: there is no {make_url(url).database}; go to the "
                f"folder that holds your .loupe, set LOUPE_HOME, or begin with `loupe run`"
            )
        return cls.open(url, home)

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
        options = {"writes": True, _BUSY_SECONDS: _SECONDS_BETWEEN_LOOKS}
        with (
            faults_as_errors(self.engine),
            self._write_lock,
            self._connect().execution_options(**options) as connection,
            self._begun(connection) as transaction,
        ):
            number = self._acquire_writer_lock(connection)
            yield connection
            try:
                transaction.commit()
            except DBAPIError as error:
                if number is None or not is_passing(error) or not self._was_committed(number):
                    raise

    def _begun(self, connection: Connection) -> RootTransaction:
        """Begin to write; wait for another process that is writing to a SQLite database.

        A process that is stopped in a transaction blocks all others until it goes on or ends.

        Raises:
            DatabaseLostError: another process has been writing for `patience_seconds`.
        """
        is_said = False
        while True:
            try:
                transaction = connection.begin()
            except OperationalError as error:
                if _sqlite_code(error) != sqlite3.SQLITE_BUSY:
                    raise
                now = time.monotonic()
                self._blocked_since = self._blocked_since or now
                seconds = now - self._blocked_since
                name, other = shown_url(self.engine.url), writer_of(str(self.engine.url.database))
                if seconds >= self.patience_seconds:
                    raise DatabaseLostError(
                        f"the database {name} has been locked for {seconds:.0f} s by {other}; "
                        f"nothing that was stored is lost: let that process go on or end it, and "
                        f"run again to continue"
                    ) from error
                if seconds >= _SILENT_SHARE * self.patience_seconds and not is_said:
                    is_said = True
                    _log.warning(
                        "waiting for %s, which has locked the database %s; this ends after %.0f s",
                        *(other, name, self.patience_seconds),
                    )
            else:
                self._blocked_since = None
                return transaction

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
        """Close all connections; the file of a SQLite database is whole afterwards."""
        _close(self.engine)


def retried(
    function: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """Decorate a function of one transaction: it is called again if the connection is lost.

    Do not use it for functions with effects elsewhere. Iterator arguments are consumed once.
    """

    @functools.wraps(function)
    def call(store: Store, /, *args: Any, **kwargs: Any) -> T:
        again: Any = [_repeatable(one) for one in args]
        named: Any = {name: _repeatable(one) for name, one in kwargs.items()}
        for is_last in _attempts(store.patience_seconds):
            try:
                return function(store, *again, **named)
            except DatabaseLostError:
                if is_last:
                    raise
        raise AssertionError

    return cast("Callable[Concatenate[Store, P], T]", call)


def _repeatable(argument: object) -> object:
    return tuple(argument) if isinstance(argument, Iterator) else argument


_Query = Callable[Concatenate[Connection, P], T]
_StoreQuery = Callable[Concatenate[Store | Connection, P], T]


def reads(function: _Query[P, T]) -> _StoreQuery[P, T]:
    """Decorate a query, so that it takes a store as well as a connection.

    With a connection, it is part of that transaction. With a store, it is a transaction of its own
    and `retried`.
    """
    return _of_store_or_connection(function, lambda store: store.read())


def writes(function: _Query[P, T]) -> _StoreQuery[P, T]:
    """Like `reads`, for statements that change something."""
    return _of_store_or_connection(function, lambda store: store.write())


def _of_store_or_connection(
    function: _Query[P, T], begin: Callable[[Store], AbstractContextManager[Connection]]
) -> _StoreQuery[P, T]:
    @retried
    def in_transaction(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with begin(store) as connection:
            return function(connection, *args, **kwargs)

    @functools.wraps(function)
    def call(source: Store | Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if isinstance(source, Connection):
            return function(source, *args, **kwargs)
        return in_transaction(source, *args, **kwargs)

    return call


def _attempts(seconds: float) -> Iterator[bool]:
    """Yield with pauses between attempts; True for the first that begins after the time is over."""
    deadline = time.monotonic() + seconds
    for pause in pauses(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS):
        yield time.monotonic() >= deadline
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))


def acquire_lock(connection: Connection, name: str) -> None:
    """Wait for other transactions with the lock `name`, and keep it until this one ends.

    SQLite has one writer and needs no lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))


def acquire_release_lock(connection: Connection) -> None:
    """Lock releases and withdrawals against other writers until the transaction ends.

    Each sees the changes of the other, and nothing is released while it is being withdrawn.
    """
    acquire_lock(connection, "releases")


@retried
def claim_subject(store: Store, subject: str) -> str | None:
    """Claim a subject as a whole; return the claim's id, or None while another has a claim."""
    with store.write() as connection:
        return store.claims.take(connection, subject)


def drop_claims(store: Store, *claim_ids: str) -> None:
    """Release claims on unfinished work, at the next heartbeat if nothing can be stored now.

    The work has mostly failed for a reason of its own, which an error here would hide.
    """
    if not claim_ids:
        return
    try:
        _delete_claims(store, claim_ids)
    except ServiceError as error:
        _log.info("claims are released later: %s", error)
        store.claims.give_up(*claim_ids)


@writes
def _delete_claims(connection: Connection, claim_ids: Sequence[str]) -> None:
    connection.execute(delete(Claim).where(Claim.id.in_(claim_ids)))


@retried
def release_claim(store: Store, claim_id: str) -> bool:
    """Release a claim; return False if another process had taken it over."""
    with store.write() as connection:
        return store.claims.release(connection, claim_id)


@reads
def is_claim_held(connection: Connection, claim_id: str) -> bool:
    """Return whether a claim of this process has not been taken over."""
    return connection.execute(select(Claim.id).where(Claim.id == claim_id)).first() is not None


@contextmanager
def claimed(
    store: Store, subject: str, on_wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Keep a claim on a subject while the block runs; wait while another has one.

    A claim that is not renewed, for example because its process was killed, is taken over.
    """
    waiting = pauses()
    claim_id = claim_subject(store, subject)
    if claim_id is None:
        on_wait()
    while claim_id is None:
        time.sleep(next(waiting))
        claim_id = claim_subject(store, subject)
    try:
        with store.claims.renewed():
            yield
    finally:
        drop_claims(store, claim_id)


# Open a database, SQLite or PostgreSQL, and create its tables if it is new.

_BUSY_TIMEOUT_SECONDS = 30
_BUSY_SECONDS: Final = "busy_seconds"
_SECONDS_BETWEEN_LOOKS = 1.0
_SILENT_SHARE = 1 / 6  # of the patience with another process that is writing: ten seconds
_BUSY_OR_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_OF_THE_DISK: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
# PostgreSQL: serialization, deadlock, too many connections, shutdown, crash, start.
_PASSING: Final = frozenset({"40001", "40P01", "53300", "57P01", "57P02", "57P03"})
_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and run again",
    sqlite3.SQLITE_IOERR: "the disk is full or faulty: free some space and run again",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the file is not a database or is damaged: restore it from a backup",
    sqlite3.SQLITE_READONLY: "nothing can be stored here: make the folder writable",
    sqlite3.SQLITE_CANTOPEN: "it or the journal next to it cannot be opened or created: check the "
    "permissions, space and inodes of its folder",
}
_DIALECTS = ("sqlite", "postgresql")
_HOME: Final = "home"
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "foreign_keys=ON",
    "secure_delete=ON",  # erased content does not stay in free pages
    "cache_size=-8192",  # 8 MiB per connection
    "wal_autocheckpoint=4096",  # ids are random, so a checkpoint touches many pages: keep them rare
)


def open_engine(url: str, home: Path | None = None) -> Engine:
    """Return an engine for `url`: `sqlite:///file.db` or `postgresql://user@host/database`.

    `home` is the installation's folder (default: that of a SQLite file). Releases below it are
    stored relative to it, and answers that cannot be stored are kept in its `spool`
    (`loupe.db.calls`).

    SQLite uses WAL mode and foreign keys. Its write transactions begin with `IMMEDIATE`, so that
    two writers wait for each other instead of failing.

    Raises:
        ConfigurationError: the URL is malformed or names another database.
    """
    parsed = _parsed(url)
    backend = parsed.get_backend_name()
    if backend not in _DIALECTS:
        raise ConfigurationError(
            f"database must be one of {', '.join(_DIALECTS)}; got {backend!r} "
            f"in {shown_url(parsed)}"
        )
    if backend == "postgresql":
        server = parsed.set(drivername="postgresql+psycopg")
        return create_engine(server, pool_pre_ping=True, execution_options={_HOME: home})
    return _open_sqlite(parsed.set(drivername="sqlite"), home)


def home_of(database: Engine | Connection) -> Path | None:
    """Return the folder of the installation; None if a PostgreSQL was opened without one."""
    home: Path | None = database.get_execution_options().get(_HOME)
    return home


def is_there(url: str) -> bool:
    """Return whether the database at `url` exists; always True for a server.

    Raises:
        ConfigurationError: the URL is malformed.
    """
    parsed = _parsed(url)
    return parsed.get_backend_name() != "sqlite" or Path(str(parsed.database)).is_file()


def shown_url(url: URL) -> str:
    """Return the URL of a database without its password, for messages."""
    return repr(url.render_as_string(hide_password=True))


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: the port is not a number
        scheme, separator, rest = url.rpartition("://")
        shown = f"{scheme}{separator}{'***@' * ('@' in rest)}{rest.rpartition('@')[2]}"
        raise ConfigurationError(
            f"database URL must be like 'sqlite:///loupe.db' or "
            f"'postgresql://user@host/name'; got {shown!r}"
        ) from error


def _open_sqlite(url: URL, home: Path | None) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise ConfigurationError(f"the SQLite database must be a file; got {shown_url(url)}")
    file = Path(str(url.database))
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of the database {shown_url(url)} cannot be created: {error.strerror}"
        ) from error
    home = home or file.absolute().parent
    if is_read_only(url):
        return _open_sqlite_to_read(url, home)
    _restrict_to_owner(file)
    engine = create_engine(
        url,
        execution_options={_HOME: home},
        pool_use_lifo=True,  # few connections, so that each has a warm cache
        connect_args={"timeout": _BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    _written.add(engine)
    return engine


_written: WeakSet[Engine] = WeakSet()
"""SQLite databases that this process may have written to."""


def _close(engine: Engine) -> None:
    """Close all connections; move what is in the journal of a SQLite database to its file.

    SQLite does so itself when the last connection is closed. Another process, or a connection that
    was not given back, may keep one open: this waits for neither, and hinders neither.
    """
    engine.dispose()
    if engine not in _written:
        return
    file = Path(str(engine.url.database)).absolute()
    journal = file.with_name(f"{file.name}-wal")
    with suppress(OSError, sqlite3.Error):  # a full disk: nothing is lost, it stays in the journal
        if journal.stat().st_size:
            own = sqlite3.connect(f"file:{quote(str(file))}?mode=rw", uri=True)
            with closing(own) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


@atexit.register
def _close_all() -> None:
    """Close what a command left open, also one that failed."""
    for engine in tuple(_written):
        _close(engine)


def is_read_only(url: URL) -> bool:
    """Return whether `url` is an existing SQLite file in a place that cannot be written to."""
    file = Path(str(url.database))
    return (
        url.get_backend_name() == "sqlite"
        and file.is_file()
        and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))
    )


def _open_sqlite_to_read(url: URL, home: Path) -> Engine:
    """Return a read-only engine; without a journal beside the file, no other file is read."""
    file = Path(str(url.database)).absolute()
    journal = file.with_name(f"{file.name}-wal")
    has_journal = journal.is_file() and journal.stat().st_size > 0
    mode = "mode=ro" if has_journal else "mode=ro&immutable=1"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"file:{quote(str(file))}?{mode}", uri=True, check_same_thread=False)

    engine = create_engine(url, creator=connect, execution_options={_HOME: home})
    event.listen(engine, "begin", _begin_to_read)
    return engine


def _begin_to_read(connection: Connection) -> None:
    if connection.get_execution_options().get("writes", False):
        raise ServiceError(
            f"the database {shown_url(connection.engine.url)} cannot be written: its folder is "
            f"read-only, so that nothing can be stored"
        )
    connection.exec_driver_sql("BEGIN")


def _restrict_to_owner(file: Path) -> None:
    """Give only the owner access to a SQLite file, as it links pseudonyms to people.

    Creates the file if it does not exist. SQLite gives its journal the same mode.
    """
    with suppress(OSError):  # we may not change or create it; SQLite reports that better
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        for one in (file, *(file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm"))):
            if one.is_file() and (mode := one.stat().st_mode) & 0o077:
                one.chmod(mode & 0o700)


def _set_pragmas(connection: Any, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # SQLAlchemy, not the driver, begins transactions
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get("writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    driver: Any = connection.connection
    driver.execute(
        f"PRAGMA busy_timeout={1000 * options.get(_BUSY_SECONDS, _BUSY_TIMEOUT_SECONDS):.0f}"
    )
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        driver.execute(f"PRAGMA busy_timeout={1000 * _BUSY_TIMEOUT_SECONDS}")


def migrate(engine: Engine) -> None:
    """Create the tables of `engine` if it has none.

    Raises:
        ConfigurationError: the database does not answer, was written by another version of Loupe,
            or has no tables and is read-only.
        ServiceError: its disk is full or faulty.
    """
    name = shown_url(engine.url)
    try:
        found = _schema_of(engine)
        if found == SCHEMA:
            return
        if found is not None:
            raise ConfigurationError(f"the database {name} {_other_schema(found)}")
        if is_read_only(engine.url):
            raise ConfigurationError(
                f"the database {name} has no tables yet and its folder is read-only; make it "
                f"writable"
            )
        _create(engine)
    except DBAPIError as error:
        if _sqlite_code(error) in _OF_THE_DISK:
            raise ServiceError(fault_sentence(error, name)) from error
        raise ConfigurationError(
            f"the database {name} does not answer: {_reason(error)}"
        ) from error


_UNSTATED = ""


def _schema_of(engine: Engine) -> str | None:
    """Return the stored version of the tables, without waiting for writers.

    It is None without tables, and `_UNSTATED` if there are tables that state none.
    """
    with engine.connect() as connection:
        tables = set(inspect(connection).get_table_names())
        if "alembic_version" in tables:
            stated = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            return _UNSTATED if stated is None else str(stated)
        return None if tables.isdisjoint(Base.metadata.tables) else _UNSTATED


def _other_schema(found: str) -> str:
    """Say which Loupe wrote tables of another version, and what to do."""
    if found == _UNSTATED:
        return (
            "has tables but does not say of which version: it is damaged, half restored, or not "
            "one of Loupe; restore a copy of it, or name another (LOUPE_DATABASE_URL)"
        )
    theirs, ours = (one.partition("_")[0] for one in (found, SCHEMA))
    if not theirs.isdigit():
        return f"is not one of Loupe: its tables have the version {found!r}; name another"
    if int(theirs) > int(ours):
        return f"was written by a newer Loupe (tables {found}, here {SCHEMA}): update Loupe"
    return (
        f"was written by {'an older' if int(theirs) < int(ours) else 'another'} Loupe (tables "
        f"{found}, here {SCHEMA}): continue with that one, or build again in a new LOUPE_HOME"
    )


def _create(engine: Engine) -> None:
    # imported only if needed: it takes a tenth of the start of a command
    import alembic.command
    import alembic.config

    config = alembic.config.Config()
    config.set_main_option("script_location", "loupe.db:migrations")
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        acquire_lock(connection, "migration")
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "head")


class DatabaseLostError(ServiceError):
    """The connection broke, or the database is busy or restarting. Nothing was done; try again."""


def is_passing(error: BaseException) -> bool:
    """Return whether the error is temporary, so that a retry may succeed."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _PASSING:
        return True
    return _sqlite_code(error) in _BUSY_OR_LOCKED


def _sqlite_code(error: DBAPIError) -> int:
    """Return SQLite's primary error code; 0 for other databases."""
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def faults_as_errors(engine: Engine) -> Iterator[None]:
    """Turn faults of the database itself (gone, full, locked, damaged) into one sentence.

    Raises:
        DatabaseLostError: the fault is temporary; nothing was done.
        ServiceError: the fault is not temporary; nothing was done.
    """
    try:
        yield
    except (DatabaseError, PoolTimeoutError) as error:
        passing = is_passing(error)
        if not passing and not _is_database_fault(error):
            raise
        kind = DatabaseLostError if passing else ServiceError
        raise kind(fault_sentence(error, shown_url(engine.url))) from error


def _is_database_fault(error: SQLAlchemyError) -> bool:
    """Return whether the fault is in the database and not in the statement."""
    damaged = type(error) is DatabaseError or (
        isinstance(error, InternalError) and getattr(error.orig, "sqlstate", None) == "XX001"
    )
    return damaged or isinstance(error, OperationalError)


def comes_from_database(error: BaseException) -> bool:
    """Return whether an exception comes from a database library, also from temporary files."""
    library = type(error).__module__.partition(".")[0]  # psycopg is imported only if it is used
    return isinstance(error, (SQLAlchemyError, sqlite3.Error)) or library == "psycopg"


def fault_sentence(error: BaseException, name: str = "of Loupe") -> str:
    """Return one sentence on what is wrong with the database `name` or with temporary files."""
    if isinstance(error, sqlite3.Error):  # not from SQLAlchemy, as only temporary files are
        return (
            f"temporary files cannot be written in {sqlite_temporary_folder()} ({error}); make "
            f"room there or set TMPDIR to another folder, and run again"
        )
    at_fault = error.orig if isinstance(error, DBAPIError) and error.orig else error
    reason = " ".join(str(at_fault).split())
    code = getattr(at_fault, "sqlite_errorcode", 0) & 0xFF
    advice = _ADVICE.get(code, "finished work is stored; run again to continue")
    return f"the database {name} failed: {reason}; {advice}"


def _reason(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())
