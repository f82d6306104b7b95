"""Databases of a Label Studio that nobody has used.

Migrations take most of Label Studio's first start: over a minute of processor time on PostgreSQL,
and again on SQLite. Their outcome depends on its lock file and on the settings that we run it with;
it is in `label_studio_databases/`, under a digest of these. After a change of them, tests migrate
on first use and keep the outcome beside Label Studio's environment. To update the folder, run::

    python -m tests.services.migrated

`make soak` also starts a Label Studio on an empty database, and compares the folder with new
migrations.
"""

import hashlib
import lzma
import os
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from tempfile import TemporaryDirectory

from services.credentials import locked
from services.environments import ensure_environment, environments_root, lock_file
from services.label_studio import DESK_SERVER, label_studio_variables
from tests.postgres import Postgres, postgres_programs, private_postgres

SQLITE = Path("label-studio") / "label_studio.sqlite3"
"""Where a home has Label Studio's SQLite database."""
_SHIPPED = Path(__file__).parent / "label_studio_databases"


def migrated_database(environment: Path, server: Postgres) -> str:
    """The URL of a new PostgreSQL database in which that Label Studio can start at once."""
    kept = _kept(environment, "postgres", lambda: migrated_postgres_as_sql(environment, server))
    return server.url(server.restored(kept))


def migrate_home(environment: Path, home: Path) -> None:
    """Gives a new home the SQLite database with which that Label Studio can start at once."""
    kept = _kept(environment, "sqlite", lambda: migrated_sqlite_as_sql(environment))
    label_studio_variables(home)  # makes the folder
    with closing(connect(home / SQLITE)) as database:
        database.executescript(kept.read_text("utf-8"))


def migrated_postgres_as_sql(environment: Path, server: Postgres) -> str:
    """Migrate an empty PostgreSQL database; return its content as SQL."""
    name = server.create_database()
    with TemporaryDirectory(prefix="loupe-migrations-") as folder:
        _migrate(environment, Path(folder), server.url(name))
        dump = Path(folder) / "dump.sql"
        server.dump(name, dump)
        lines = dump.read_text("utf-8").splitlines(keepends=True)
    # commands of psql with a random word, and the versions of the programs
    left_out = ("\\restrict ", "\\unrestrict ", "-- Dumped ")
    return "".join(line for line in lines if not line.startswith(left_out))


def migrated_sqlite_as_sql(environment: Path) -> str:
    """Migrate an empty SQLite database; return its content as SQL."""
    with TemporaryDirectory(prefix="loupe-migrations-") as home:
        _migrate(environment, Path(home))
        with closing(connect(Path(home) / SQLITE)) as database:
            return "\n".join(database.iterdump())


def shipped_sql(kind: str) -> str | None:
    """The SQL in our folder, or None if it is of another lock file or other settings."""
    file = _shipped(kind)
    return lzma.decompress(file.read_bytes()).decode() if file.exists() else None


def _migrate(environment: Path, home: Path, database_url: str = "") -> None:
    """Any command of Label Studio begins with the migrations."""
    program = environment / "bin" / "label-studio"
    variables = label_studio_variables(home, database_url)
    subprocess.run([program, "version"], env=variables, check=True, capture_output=True)


def _kept(environment: Path, kind: str, migrate: Callable[[], str]) -> Path:
    """The file with the SQL, written by the first process that needs it."""
    folder = environment.with_name("label-studio-migrated")
    folder.mkdir(exist_ok=True)
    file = folder / f"{kind}.{_fingerprint()}.sql"
    with locked(folder / f"{kind}.lock"):
        if not file.exists():
            for earlier in folder.glob(f"{kind}.*.sql"):
                earlier.unlink()
            partial = folder / f"partial-{kind}-{os.getpid()}"
            partial.write_text(shipped_sql(kind) or migrate(), "utf-8")
            partial.replace(file)
    return file


def _shipped(kind: str) -> Path:
    return _SHIPPED / f"{kind}.{_fingerprint()}.sql.xz"


def _fingerprint() -> str:
    digest = hashlib.sha256(lock_file("label-studio").read_bytes())
    digest.update((DESK_SERVER / "loupe_desk" / "settings.py").read_bytes())
    return digest.hexdigest()[:32]


def _write_shipped(kind: str, sql: str) -> None:
    for earlier in _SHIPPED.glob(f"{kind}.*"):
        earlier.unlink()
    _shipped(kind).write_bytes(lzma.compress(sql.encode(), preset=9))


def main() -> None:
    """Migrate both kinds of database, and write the folder."""
    environment = ensure_environment("label-studio", environments_root())
    programs = postgres_programs()
    assert programs is not None, "PostgreSQL is not installed"
    _SHIPPED.mkdir(exist_ok=True)
    with private_postgres(programs) as server:
        _write_shipped("postgres", migrated_postgres_as_sql(environment, server))
    _write_shipped("sqlite", migrated_sqlite_as_sql(environment))


if __name__ == "__main__":
    main()
