"""Databases of a new Label Studio, created once and copied after that.

Migrations take most of Label Studio's first start. Their outcome depends on its lock file, on the
settings that we run it with, and on PostgreSQL, so the databases are kept beside its environment
under a digest of these. (`make soak` also starts one on an empty database.)
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from loupe.services.credentials import locked
from loupe.services.label_studio import DESK_SERVER, label_studio_variables
from tests.postgres import Postgres

SQLITE = Path("label-studio") / "label_studio.sqlite3"
"""Where a home has Label Studio's SQLite database."""


def migrated_database(environment: Path, server: Postgres) -> str:
    """Return the URL of a new PostgreSQL database with the tables of Label Studio."""

    def make(target: Path) -> None:
        name = server.create_database()
        with TemporaryDirectory(prefix="loupe-migrations-") as home:
            _migrate(environment, Path(home), server.url(name))
        server.dump(name, target)

    return server.url(server.restored(_kept(environment, f"postgres-{server.version}", make)))


def migrate_home(environment: Path, home: Path) -> None:
    """Copy an SQLite database with the tables of Label Studio to a new home."""

    def make(target: Path) -> None:
        with TemporaryDirectory(prefix="loupe-migrations-") as elsewhere:
            _migrate(environment, Path(elsewhere))
            shutil.copy(Path(elsewhere) / SQLITE, target)

    label_studio_variables(home)  # makes the folder
    shutil.copy(_kept(environment, "sqlite", make), home / SQLITE)


def _migrate(environment: Path, home: Path, database_url: str = "") -> None:
    """Run the migrations, with which every command of Label Studio begins."""
    program = environment / "bin" / "label-studio"
    variables = label_studio_variables(home, database_url)
    subprocess.run([program, "version"], env=variables, check=True, capture_output=True)


def _kept(environment: Path, kind: str, make: Callable[[Path], None]) -> Path:
    """Return the file that `make` writes; the first process that needs it calls `make`."""
    folder = environment.with_name("label-studio-migrated")
    folder.mkdir(exist_ok=True)
    name = kind.partition("-")[0]
    file = folder / f"{name}-{_fingerprint(environment, kind)}"
    with locked(folder / f"{name}.lock"):
        if not file.exists():
            for earlier in folder.glob(f"{name}-*"):
                earlier.unlink()
            partial = folder / f"partial-{name}-{os.getpid()}"
            make(partial)
            partial.replace(file)
    return file


def _fingerprint(environment: Path, kind: str) -> str:
    ours = [DESK_SERVER / "loupe_desk" / "settings.py", Path(__file__)]
    digest = hashlib.sha256(environment.name.encode())  # it names the lock
    for file in ours:
        digest.update(file.read_bytes())
    digest.update(kind.encode())
    return digest.hexdigest()[:32]
