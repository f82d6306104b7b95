"""The home of an installation is closed to other users, with all that lies in it."""

import errno
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from schemas.errors import ConfigurationError

_OTHERS = 0o077
_LOOKED_THROUGH = 2
"""How deep below the home folders are looked through that are closed already: what lies below
cannot be reached by others, and there may be millions of files."""

_log = logging.getLogger(__name__)


def close_home(home: Path) -> None:
    """Takes from `home`, and from what lies in it, every right of other users; cheap when done.

    Symbolic links are not followed. A file that is written later is closed by the next call; until
    then nobody else gets to it, as they cannot enter `home`. A call that is killed is made good by
    the next one, as a folder is closed after what lies in it.

    Raises:
        ConfigurationError: `home` is a folder that is there for other things, too.
    """
    if not home.is_dir():
        return
    _refuse_shared(home)
    try:
        _close(home, home.stat().st_mode)
        _close_below(home, depth=0)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.EROFS):
            raise
        _log.warning("%s cannot be closed to other users (%s)", error.filename, error.strerror)


def _refuse_shared(home: Path) -> None:
    found = home.resolve()
    mode = found.stat().st_mode
    if found in (Path(found.anchor), Path("~").expanduser().resolve()) or mode & stat.S_ISVTX:
        raise ConfigurationError(
            f"LOUPE_HOME must be a folder of its own, as other users are shut out of it; "
            f"got {home}: choose a new folder, such as {home / '.loupe'}"
        )


def _close_below(folder: Path, depth: int) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # what others of our processes removed meanwhile
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    continue
                if stat.S_ISDIR(mode) and (mode & _OTHERS or depth < _LOOKED_THROUGH):
                    _close_below(Path(entry.path), depth + 1)
                if mode & _OTHERS:  # a path is not made of every file
                    _close(Path(entry.path), mode)


def _close(path: Path, mode: int) -> None:
    if mode & _OTHERS:
        path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
