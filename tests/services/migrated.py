"""The database of a Label Studio that nobody has been in, made once and copied from then on.

Label Studio's migrations take most of its first start. What they come to hangs on its lock, on what
we have it run with, and on PostgreSQL: so it is kept beside its environment, under a digest of
these. (That a first start on an empty database works is shown where Label Studio runs on SQLite.)
"""

import hashlib
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from services import label_studio
from services.credentials import locked
from services.label_studio import DESK_SERVER, label_studio_variables
from tests.postgres import Postgres


def migrated_database(environment: Path, server: Postgres) -> str:
    """The URL of a new database in which a Label Studio of that environment may start at once."""
    return server.url(server.restored(_dump(environment, server)))


def _dump(environment: Path, server: Postgres) -> Path:
    """A file of SQL; whoever comes while another process makes it waits for it."""
    folder = environment.with_name("label-studio-migrated")
    folder.mkdir(exist_ok=True)
    dump = folder / f"{_fingerprint(environment, server)}.sql"
    with locked(folder / "lock"):
        if not dump.exists():
            for earlier in folder.glob("*.sql"):
                earlier.unlink()
            partial = dump.with_suffix(f".{os.getpid()}")
            server.dump(_migrate(environment, server), partial)
            partial.replace(dump)
    return dump


def _migrate(environment: Path, server: Postgres) -> str:
    """The name of a new database after the migrations, which any of its commands begins with."""
    name = server.create_database()
    with TemporaryDirectory(prefix="loupe-migrations-") as home:
        variables = label_studio_variables(Path(home), server.url(name))
        program = environment / "bin" / "label-studio"
        subprocess.run([program, "version"], env=variables, check=True, capture_output=True)
    return name


def _fingerprint(environment: Path, server: Postgres) -> str:
    ours = [*DESK_SERVER.rglob("*.py"), Path(label_studio.__file__), Path(__file__)]
    digest = hashlib.sha256((environment / ".installed-from").read_bytes())
    for file in sorted(ours):
        digest.update(file.read_bytes())
    digest.update(server.version.encode())
    return digest.hexdigest()[:32]
