"""Opens the database, SQLite or PostgreSQL, and brings its tables up to date."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psycopg
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Select,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
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

from db.tables import Base
from schemas.errors import ConfigurationError, ServiceError

NEWEST_VERSION: Final = "0001"
"""The last of `db/migrations/versions`."""
BUSY_TIMEOUT_SECONDS = 30
DATABASE_FAULTS: Final = (SQLAlchemyError, sqlite3.Error, psycopg.Error)
"""What the libraries of databases raise, those of scratch files included."""
_BUSY_OR_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_OF_THE_DISK: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
# PostgreSQL: serialization, deadlock, too many connections, shutdown, crash, start.
_PASSING: Final = frozenset({"40001", "40P01", "53300", "57P01", "57P02", "57P03"})
_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space and run again",
    sqlite3.SQLITE_IOERR: "the disk is full or faulty: free some space and run again",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: put a copy of it in its place",
    sqlite3.SQLITE_NOTADB: "the file is no database, or damaged: put a copy of it in its place",
    sqlite3.SQLITE_READONLY: "nothing can be stored here: make the folder writable",
    sqlite3.SQLITE_CANTOPEN: "it or the journal next to it cannot be opened or created: check the "
    "permissions, space and inodes of its folder",
}
_DIALECTS = ("sqlite", "postgresql")
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "foreign_keys=ON",
    "secure_delete=ON",  # what is erased does not stay in free pages
    "cache_size=-8192",  # 8 MiB a connection
    "wal_autocheckpoint=4096",  # ids are random, so a checkpoint touches many pages: be rare
)


def open_engine(url: str) -> Engine:
    """An engine for `url`: `sqlite:///file.db` or `postgresql://user@host/database`.

    SQLite is put into WAL mode with foreign keys on; transactions that write begin `IMMEDIATE`, so
    that two writers wait for each other instead of failing.

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
        return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    return _open_sqlite(parsed.set(drivername="sqlite"))


def is_there(url: str) -> bool:
    """Whether there is a database at `url`: a file of SQLite; of a server it is taken for granted.

    Raises:
        ConfigurationError: the URL is malformed.
    """
    parsed = _parsed(url)
    return parsed.get_backend_name() != "sqlite" or Path(str(parsed.database)).is_file()


def shown_url(url: URL) -> str:
    """A database's URL as it may be shown: without its password."""
    return repr(url.render_as_string(hide_password=True))


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: the port is no number
        scheme, separator, rest = url.rpartition("://")
        shown = f"{scheme}{separator}{'***@' * ('@' in rest)}{rest.rpartition('@')[2]}"
        raise ConfigurationError(
            f"database URL must be like 'sqlite:///loupe.db' or "
            f"'postgresql://user@host/name'; got {shown!r}"
        ) from error


def _open_sqlite(url: URL) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise ConfigurationError(f"the SQLite database must be a file; got {shown_url(url)}")
    file = Path(str(url.database))
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of the database {shown_url(url)} cannot be made: {error.strerror}"
        ) from error
    if is_read_only(url):
        return _open_sqlite_to_read(url)
    _close_to_others(file)
    engine = create_engine(
        url,
        pool_use_lifo=True,  # few connections in use, so few caches, and warm ones
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def is_read_only(url: URL) -> bool:
    """Whether `url` is a file of SQLite that is there and cannot be written, nor beside it."""
    file = Path(str(url.database))
    return (
        url.get_backend_name() == "sqlite"
        and file.is_file()
        and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))
    )


def _open_sqlite_to_read(url: URL) -> Engine:
    """An engine that only reads; without a journal beside the file no other file is looked for."""
    file = Path(str(url.database)).absolute()
    journal = file.with_name(f"{file.name}-wal")
    has_journal = journal.is_file() and journal.stat().st_size > 0
    mode = "mode=ro" if has_journal else "mode=ro&immutable=1"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(f"file:{quote(str(file))}?{mode}", uri=True, check_same_thread=False)

    engine = create_engine(url, creator=connect)
    event.listen(engine, "begin", _begin_to_read)
    return engine


def _begin_to_read(connection: Connection) -> None:
    if connection.get_execution_options().get("writes", False):
        raise ServiceError(
            f"the database {shown_url(connection.engine.url)} cannot be written: its folder is "
            f"read-only, so that nothing can be stored"
        )
    connection.exec_driver_sql("BEGIN")


def _close_to_others(file: Path) -> None:
    """Lets nobody but the owner read a SQLite file, made if absent: it knows who pseudonyms are.

    SQLite gives its journal the same mode.
    """
    with suppress(OSError):  # not ours to change, or not to be made, which SQLite says better
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        for one in (file, *(file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm"))):
            if one.is_file() and (mode := one.stat().st_mode) & 0o077:
                one.chmod(mode & 0o700)


def _set_pragmas(connection: Any, _record: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # SQLAlchemy, not the driver, begins transactions
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def migrate(engine: Engine) -> None:
    """Brings the tables of `engine` to the newest version. Does nothing where they are.

    Raises:
        ConfigurationError: the database does not answer, or was written by a newer Loupe; or it
            can only be read and is not at the newest version.
        ServiceError: its disk is full or faulty.
    """
    if is_read_only(engine.url):
        _require_newest(engine)
        return
    try:
        if not _is_newest(engine):
            _upgrade(engine)
    except DBAPIError as error:
        if _sqlite_code(error) in _OF_THE_DISK:
            raise ServiceError(fault_sentence(error, shown_url(engine.url))) from error
        raise ConfigurationError(
            f"the database {shown_url(engine.url)} does not answer: {_reason(error)}"
        ) from error


def _is_newest(engine: Engine) -> bool:
    """Whether the tables are up to date, seen without the lock of who writes."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return False
        versions = connection.execute(text("SELECT version_num FROM alembic_version"))
        return versions.scalars().all() == [NEWEST_VERSION]


def _upgrade(engine: Engine) -> None:
    # imported where there is something to do: it takes a tenth of a command's start
    import alembic.command
    import alembic.config
    from alembic.util import CommandError

    config = alembic.config.Config()
    config.set_main_option("script_location", "db:migrations")
    try:
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7061708)")
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "head")
    except CommandError as error:
        raise ConfigurationError(
            f"the database {shown_url(engine.url)} was written by a newer Loupe: {error}"
        ) from error


def _require_newest(engine: Engine) -> None:
    with faults_as_errors(engine):
        is_newest = _is_newest(engine)
    if not is_newest:
        raise ConfigurationError(
            f"the database {shown_url(engine.url)} was written by another version of Loupe and "
            f"its folder is read-only; make it writable once, to bring the tables up to date"
        )


class DatabaseLostError(ServiceError):
    """The connection broke, or the database is busy or restarting; nothing was done, try again."""


def is_passing(error: BaseException) -> bool:
    """Whether the database may do in a moment what it could not do now."""
    if isinstance(error, PoolTimeoutError):
        return True
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _PASSING:
        return True
    return _sqlite_code(error) in _BUSY_OR_LOCKED


def _sqlite_code(error: DBAPIError) -> int:
    """SQLite's primary code; 0 for other databases."""
    return getattr(error.orig, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def faults_as_errors(engine: Engine) -> Iterator[None]:
    """Turns faults of the database itself (gone, full, locked, damaged) into one sentence.

    Raises:
        DatabaseLostError: it may be able to in a moment; nothing was done.
        ServiceError: the database could not do what was asked; nothing of it was done.
    """
    try:
        yield
    except (DatabaseError, PoolTimeoutError) as error:
        passing = is_passing(error)
        if not passing and not _is_of_the_database(error):
            raise
        kind = DatabaseLostError if passing else ServiceError
        raise kind(fault_sentence(error, shown_url(engine.url))) from error


def _is_of_the_database(error: SQLAlchemyError) -> bool:
    """Whether the database is at fault, and not what it was asked."""
    damaged = type(error) is DatabaseError or (
        isinstance(error, InternalError) and getattr(error.orig, "sqlstate", None) == "XX001"
    )
    return damaged or isinstance(error, OperationalError)


def fault_sentence(error: BaseException, name: str = "of Loupe") -> str:
    """What is wrong with the database `name`, or with temporary files, in one sentence."""
    if isinstance(error, sqlite3.Error):  # not by way of SQLAlchemy, as temporary files only are
        return (
            f"temporary files cannot be written in {sqlite_temporary_folder()} ({error}); make "
            f"room there or set TMPDIR to another folder, and run again"
        )
    at_fault = error.orig if isinstance(error, DBAPIError) and error.orig else error
    reason = " ".join(str(at_fault).split())
    code = getattr(at_fault, "sqlite_errorcode", 0) & 0xFF
    advice = _ADVICE.get(code, "what was finished is stored, run again to go on")
    return f"the database {name} failed: {reason}; {advice}"


def sqlite_temporary_folder() -> Path:
    """Where SQLite keeps files without a name, by its own rules: the first that is writable."""
    named = (os.environ.get(name) for name in ("SQLITE_TMPDIR", "TMPDIR"))
    for folder in filter(None, (*named, "/var/tmp", "/usr/tmp", "/tmp")):  # noqa: S108
        if Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    return Path.cwd()


def _reason(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())


def insert_into(connection: Connection, table: type[Base]) -> postgresql.Insert | sqlite.Insert:
    """An `INSERT` in the dialect of the database, which can say what happens on a conflict."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def insert_new(
    connection: Connection, table: type[Base], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Inserts `rows` into `table`; rows whose key is there already are left as they are."""
    values = list(rows)
    if not values:
        return
    connection.execute(insert_into(connection, table).on_conflict_do_nothing(), values)


def insert_new_text(
    connection: Connection, table: type[Base], columns: Sequence[str], rows: list[tuple[Any, ...]]
) -> int:
    """As `insert_new`, for columns of plain text: five times faster, for the rows of every record.

    Values go to the driver as they are, without SQLAlchemy's conversion of each. Gives how many
    rows were new.
    """
    if not rows:
        return 0
    into = f"INSERT INTO {table.__tablename__} ({', '.join(columns)})"
    if connection.dialect.name == "postgresql":
        arrays = ", ".join(
            f"%s::{_ARRAYS[table.__table__.c[name].type.python_type]}" for name in columns
        )
        return connection.exec_driver_sql(
            f"{into} SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING",  # noqa: S608 our own names
            tuple(map(list, zip(*rows, strict=True))),
        ).rowcount
    marks = ", ".join("?" for _ in columns)
    return connection.exec_driver_sql(
        f"{into} VALUES ({marks}) ON CONFLICT DO NOTHING", rows
    ).rowcount


_ARRAYS = {str: "text[]", int: "bigint[]", bytes: "bytea[]"}
"""Types for values that PostgreSQL then fits into columns; a shorter one would cut them off."""


def select_columns(table: type[Base], names: Iterable[str]) -> Select[*tuple[Any, ...]]:
    """A query for the columns of `table` with these names."""
    return select(*(table.__table__.c[name] for name in names))


def escape_like(text: str) -> str:
    r"""`text` so that `LIKE … ESCAPE '\'` takes it literally."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
