"""Where notices are found: in a later release, in files that were published, in an installation."""

from collections.abc import Iterable
from pathlib import Path

from release.files import digest_of_file, is_plain
from release.manifest import MANIFEST
from release.notices_files import NOTICES, WITHDRAWALS, merged, read_mark, read_notices
from release.reading import read_listed
from schemas.errors import IntegrityError, UsageError
from schemas.withdrawal import WithdrawalNotice


def notices_at(path: Path) -> tuple[WithdrawalNotice, ...]:
    """The notices in a file, in the files of a folder, or in a release: a later or a marked one.

    A release that tells of no withdrawal has none.

    Raises:
        UsageError: there is nothing at `path`, or a folder without any file of notices.
        IntegrityError: a file of notices cannot be read, or is not as it was released.
    """
    if (path / MANIFEST).is_file():
        mark = read_mark(path)
        return merged(_released(path), mark.notices if mark else ())
    if path.is_file():
        return read_notices(path).notices
    files = sorted(path.glob("*.json")) if path.is_dir() else []
    if not files:
        raise UsageError(
            f"there are no notices at {path}; name a later release, its {WITHDRAWALS}, or a folder "
            f"of such files"
        )
    return merged((), (one for file in files for one in read_notices(file).notices))


def notices_of_home(home: Path) -> tuple[WithdrawalNotice, ...]:
    """What an installation keeps to be published (`release.notices.record_notices`).

    Raises:
        IntegrityError: a file of notices cannot be read.
    """
    folder = home / NOTICES
    return notices_at(folder) if any(folder.glob("*.json")) else ()


def known_of(
    release: str, folder: Path | None, others: Iterable[WithdrawalNotice] = ()
) -> tuple[WithdrawalNotice, ...]:
    """What is known to be withdrawn from a release: by the mark in its folder, and by `others`.

    Raises:
        IntegrityError: the mark cannot be read.
    """
    mark = read_mark(folder) if folder is not None and folder.is_dir() else None
    found = merged(mark.notices if mark else (), others)
    return tuple(one for one in found if one.release == release)


def _released(folder: Path) -> tuple[WithdrawalNotice, ...]:
    _, listed = read_listed(folder)
    if (file := listed.get(WITHDRAWALS)) is None:
        return ()
    path = folder / WITHDRAWALS
    if not is_plain(path):
        raise IntegrityError(f"{path} is missing, or not a plain file")
    try:
        is_sound = digest_of_file(path) == file.sha256
    except OSError as error:
        raise IntegrityError(f"{path} cannot be read ({error.strerror})") from error
    if not is_sound:
        raise IntegrityError(f"{path} is damaged or was changed: its SHA-256 is not the manifest's")
    return read_notices(path).notices
