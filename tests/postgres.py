"""A private PostgreSQL server for the tests, on localhost and in a temporary folder."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import create_engine

from loupe.services.process import free_port

_UNPRIVILEGED = "postgres"
_SECONDS_TO_START = 300.0
_INITIAL = ("-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=64MB")


def postgres_programs() -> Path | None:
    """Return the folder of `initdb` and `postgres` of the newest version, or None."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((path.parent for path in versions), key=lambda path: path.parent.name, default=None)


class Postgres:
    """A running server. Databases are not dropped; they are deleted with the server."""

    def __init__(self, port: int, programs: Path) -> None:
        self._port = port
        self._programs = programs
        self._databases = 0

    @property
    def version(self) -> str:
        """The version that the server's program reports."""
        command: list[Path | str] = [self._programs / "postgres", "--version"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True)
        return str(printed.stdout)

    def url(self, database: str) -> str:
        """Return the URL of a database, in the form that users write."""
        return f"postgresql://{_UNPRIVILEGED}@127.0.0.1:{self._port}/{database}"

    def create_database(self) -> str:
        """Create an empty database and return its name."""
        self._databases += 1
        name = f"test_{self._databases}"
        self._execute("postgres", f"CREATE DATABASE {name}")
        return name

    def dump(self, database: str, file: Path) -> None:
        """Write the content of a database to `file`, as SQL."""
        self._client("pg_dump", "--no-owner", "--file", file, database)

    def restored(self, file: Path) -> str:
        """Create a database from a dump and return its name."""
        name = self.create_database()
        self._client("psql", "--quiet", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-f", file, name)
        return name

    def empty(self, database: str, tables: Iterable[str]) -> None:
        """Delete all rows of `tables` and end other connections; faster than a new database."""
        self._execute(
            database,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
            f"TRUNCATE {', '.join(tables)} RESTART IDENTITY",
        )

    def answers(self) -> bool:
        """Whether the server accepts connections."""
        try:
            self._execute("postgres", "SELECT 1")
        except Exception:  # noqa: BLE001 any error means no
            return False
        return True

    def _client(self, program: str, *arguments: Path | str) -> None:
        address = ("-h", "127.0.0.1", "-p", str(self._port), "-U", _UNPRIVILEGED)
        subprocess.run(
            [self._programs / program, *address, *arguments], check=True, stdout=subprocess.DEVNULL
        )

    def _execute(self, database: str, *statements: str) -> None:
        engine = create_engine(
            self.url(database).replace("postgresql://", "postgresql+psycopg://"),
            isolation_level="AUTOCOMMIT",
        )
        try:
            with engine.connect() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
        finally:
            engine.dispose()


@contextmanager
def private_postgres(programs: Path) -> Iterator[Postgres]:
    """Start an empty server and stop it afterwards."""
    with TemporaryDirectory(prefix="loupe-pg-") as folder:
        user = _user_to_run_as(Path(folder))
        data = Path(folder) / "data"
        _run_as(
            user,
            [programs / "initdb", "-D", data, "-U", _UNPRIVILEGED, *_INITIAL],
        ).check_returncode()
        port = free_port()
        process = _start(user, programs, data, port)
        try:
            server = Postgres(port, programs)
            _wait_for(server, process, data)
            yield server
        finally:
            process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            process.wait(timeout=300)


def _user_to_run_as(folder: Path) -> str | None:
    """Return the user to run as, or None for the current user; PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam(_UNPRIVILEGED)
    os.chown(folder, account.pw_uid, account.pw_gid)
    return _UNPRIVILEGED


def _run_as(user: str | None, command: list[Path | str]) -> subprocess.CompletedProcess[bytes]:
    groups: list[str] | None = [] if user else None
    return subprocess.run(
        command,
        user=user,
        group=user,
        extra_groups=groups,
        cwd="/",
        capture_output=True,
        check=False,
    )


def _start(user: str | None, programs: Path, data: Path, port: int) -> subprocess.Popen[bytes]:
    settings = (
        f"port={port}",
        "listen_addresses=127.0.0.1",
        f"unix_socket_directories={data.parent}",
        *_FAST,
    )
    options = [word for setting in settings for word in ("-c", setting)]
    with (data.parent / "log").open("wb") as log:
        return subprocess.Popen(
            [programs / "postgres", "-D", data, *options],
            user=user,
            group=user,
            extra_groups=[] if user else None,
            cwd="/",
            stdout=log,
            stderr=log,
        )


def _wait_for(server: Postgres, process: subprocess.Popen[bytes], data: Path) -> None:
    end = time.monotonic() + _SECONDS_TO_START
    while not server.answers():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError((data.parent / "log").read_text(errors="replace"))
        time.sleep(0.05)
