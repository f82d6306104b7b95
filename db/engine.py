"""Open the database, SQLite or PostgreSQL, and migrate its tables to the newest version."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

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
from sqlalchemy.dialects import sqlite
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

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

NEWEST_VERSION: Final = "0001"
"""The last of `db/migrations/versions`."""
_BUSY_TIMEOUT_SECONDS = 30
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
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "foreign_keys=ON",
    "secure_delete=ON",  # erased content does not stay in free pages
    "cache_size=-8192",  # 8 MiB per connection
    "wal_autocheckpoint=4096",  # ids are random, so a checkpoint touches many pages: keep them rare
)


def open_engine(url: str) -> Engine:
    """Return an engine for `url`: `sqlite:///file.db` or `postgresql://user@host/database`.

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
        return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    return _open_sqlite(parsed.set(drivername="sqlite"))


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


def _open_sqlite(url: URL) -> Engine:
    if url.database in (None, "", ":memory:"):
        raise ConfigurationError(f"the SQLite database must be a file; got {shown_url(url)}")
    file = Path(str(url.database))
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of the database {shown_url(url)} cannot be created: {error.strerror}"
        ) from error
    if is_read_only(url):
        return _open_sqlite_to_read(url)
    _restrict_to_owner(file)
    engine = create_engine(
        url,
        pool_use_lifo=True,  # few connections, so that each has a warm cache
        connect_args={"timeout": _BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def is_read_only(url: URL) -> bool:
    """Return whether `url` is an existing SQLite file in a place that cannot be written to."""
    file = Path(str(url.database))
    return (
        url.get_backend_name() == "sqlite"
        and file.is_file()
        and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK))
    )


def _open_sqlite_to_read(url: URL) -> Engine:
    """Return a read-only engine; without a journal beside the file, no other file is read."""
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
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def migrate(engine: Engine) -> None:
    """Migrate the tables of `engine` to the newest version, if they are older.

    Raises:
        ConfigurationError: the database does not answer, was written by a newer Loupe, or is
            read-only and not at the newest version.
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
    """Return whether the tables are up to date, without waiting for writers."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return False
        versions = connection.execute(text("SELECT version_num FROM alembic_version"))
        return versions.scalars().all() == [NEWEST_VERSION]


def _upgrade(engine: Engine) -> None:
    # imported only if needed: it takes a tenth of the start of a command
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


def sqlite_temporary_folder() -> Path:
    """Return SQLite's folder for temporary files, by its own rules: the first writable one."""
    named = (os.environ.get(name) for name in ("SQLITE_TMPDIR", "TMPDIR"))
    for folder in filter(None, (*named, "/var/tmp", "/usr/tmp", "/tmp")):  # noqa: S108
        if Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    return Path.cwd()


def _reason(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())


def insert_into(connection: Connection, table: type[Base]) -> "postgresql.Insert | sqlite.Insert":
    """Return an `INSERT` in the dialect of the database, which supports `ON CONFLICT`."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    return sqlite.insert(table)


def insert_new(
    connection: Connection, table: type[Base], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Insert `rows` into `table`; rows whose key exists are not changed."""
    values = list(rows)
    if not values:
        return
    connection.execute(insert_into(connection, table).on_conflict_do_nothing(), values)


def insert_new_text(
    connection: Connection, table: type[Base], columns: Sequence[str], rows: list[tuple[Any, ...]]
) -> int:
    """Like `insert_new`, for columns of plain text; five times faster, for tables with many rows.

    Values go to the driver without SQLAlchemy's conversions. Returns how many rows were new.
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
"""Types for values, which PostgreSQL converts to those of the columns.

Shorter types would cut values off.
"""


def select_columns(table: type[Base], names: Iterable[str]) -> Select[*tuple[Any, ...]]:
    """Return a query for the columns of `table` with these names."""
    return select(*(table.__table__.c[name] for name in names))


def escape_like(text: str) -> str:
    r"""Escape `text`, so that `LIKE … ESCAPE '\'` takes it literally."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
