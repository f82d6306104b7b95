"""Opens the database, SQLite or PostgreSQL, and brings its tables up to date."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import alembic.command
import alembic.config
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

from db.tables import Base
from schemas.errors import ConfigurationError, ServiceError

BUSY_TIMEOUT_SECONDS = 30
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
    try:
        Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of the database {shown_url(url)} cannot be made: {error.strerror}"
        ) from error
    engine = create_engine(
        url,
        pool_use_lifo=True,  # few connections in use, so few caches, and warm ones
        connect_args={"timeout": BUSY_TIMEOUT_SECONDS, "check_same_thread": False},
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


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
        ConfigurationError: the database does not answer, or was written by a newer Loupe.
    """
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
    except DBAPIError as error:
        raise ConfigurationError(
            f"the database {shown_url(engine.url)} does not answer: {_reason(error)}"
        ) from error


@contextmanager
def faults_as_errors(engine: Engine) -> Iterator[None]:
    """Turns faults of the database itself (gone, full, locked, read-only) into one sentence.

    Raises:
        ServiceError: the database could not do what was asked; nothing of it was done.
    """
    try:
        yield
    except OperationalError as error:
        raise ServiceError(
            f"the database {shown_url(engine.url)} failed: {_reason(error)}; "
            f"what was finished is stored, run again to go on"
        ) from error


def _reason(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())


def insert_new(
    connection: Connection, table: type[Base], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Inserts `rows` into `table`; rows whose key is there already are left as they are."""
    values = list(rows)
    if not values:
        return
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(dialect.insert(table).on_conflict_do_nothing(), values)


def insert_new_text(
    connection: Connection, table: type[Base], columns: Sequence[str], rows: list[tuple[Any, ...]]
) -> None:
    """As `insert_new`, for columns of plain text: five times faster, for the rows of every record.

    Values go to the driver as they are, without SQLAlchemy's conversion of each.
    """
    if not rows:
        return
    mark = "%s" if connection.dialect.name == "postgresql" else "?"
    connection.exec_driver_sql(
        f"INSERT INTO {table.__tablename__} ({', '.join(columns)}) "  # noqa: S608 our own names
        f"VALUES ({', '.join(mark for _ in columns)}) ON CONFLICT DO NOTHING",
        rows,
    )


def escape_like(text: str) -> str:
    r"""`text` so that `LIKE … ESCAPE '\'` takes it literally."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
