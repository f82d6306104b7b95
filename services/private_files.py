"""Files that only their owner can read, replaced in one step."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def services_folder(home: Path) -> Path:
    """`<home>/services`, made if absent, mode 700: records, logs and credentials of our servers."""
    return private_folder(home, "services")


def private_folder(home: Path, name: str) -> Path:
    """`<home>/<name>`, made if absent; neither it nor the home is open to anybody else."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = home / name
    folder.mkdir(exist_ok=True)
    folder.chmod(0o700)
    return folder


def private_opener(path: str, flags: int) -> int:
    """For `open(…, opener=)`: a file that is made has mode 600, whatever the umask is."""
    return os.open(path, flags, 0o600)


def write_private(path: Path, text: str) -> None:
    """Replace `path` with `text` atomically; the file has mode 600 from its first moment."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` between processes; a process that dies lets go of it."""
    with open(path, "a", opener=private_opener) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
