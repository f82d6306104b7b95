"""One training at a time in a folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import UsageError


@contextmanager
def occupied(home: Path) -> Iterator[None]:
    """Makes `home` and keeps it for this process; the system frees it however the process ends.

    Raises:
        UsageError: another process trains there, or the folder cannot be made.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"{home} cannot be made a folder: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise UsageError(f"another process is training in {home}") from error
    finally:
        os.close(folder)
