"""Where notices are found: in a later release, in files that were published, in an installation."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from release.files import digest_of_file, is_plain
from release.manifest import MANIFEST
from release.notices_files import NOTICES, WITHDRAWALS, merged, read_mark, read_notices
from release.reading import read_listed
from schemas.errors import IntegrityError, UsageError
from schemas.release import Manifest
from schemas.versions import version_numbers
from schemas.withdrawal import WithdrawalNotice


class NoticeSource(NamedTuple):
    """Where notices were looked for, and those that are there.

    `manifest` is that of the release which they were found in, None for files of notices.
    """

    path: Path
    notices: tuple[WithdrawalNotice, ...]
    manifest: Manifest | None = None

    def tells_of(self, release: Manifest) -> bool:
        """Whether it would say so if something of `release` had been withdrawn, as far as known.

        A later release of its dataset does, its own copies do, and files with notices of it.
        """
        other = self.manifest
        if other is None:
            return any(one.dataset == release.dataset for one in self.notices)
        is_later = version_numbers(other.version) > version_numbers(release.version)
        return other.dataset == release.dataset and (is_later or other.id == release.id)

    def told_of(self, release: Manifest) -> str:
        """In a sentence, what was looked at, and what it says of `release`."""
        ours = f"{release.dataset} {release.version}"
        if not self.tells_of(release):
            return f"{self.path} {self._is()}, and can tell nothing of {ours}"
        count = sum(one.release == release.id for one in self.notices)
        said = f"{count:,} of them" if count else "none of them"
        are = "are" if count > 1 else "is"
        return f"the notices in {self.path} were looked at ({self._has()}); {said} {are} of {ours}"

    def _is(self) -> str:
        if self.manifest is not None:
            return f"is {self.manifest.dataset} {self.manifest.version}"
        datasets = dict.fromkeys(one.dataset for one in self.notices)
        return f"has notices of {', '.join(datasets)} alone" if datasets else "has no notices"

    def _has(self) -> str:
        if self.manifest is not None:
            return f"of {self.manifest.dataset} up to {self.manifest.version}"
        return f"{len(self.notices):,} in all"


def notices_at(path: Path) -> tuple[WithdrawalNotice, ...]:
    """The notices at `path`, as `notice_source` finds them.

    Raises:
        UsageError: as there.
        IntegrityError: likewise.
    """
    return notice_source(path).notices


def notice_source(path: Path) -> NoticeSource:
    """The notices in a file, in the files of a folder, or in a release: a later or a marked one.

    A release that tells of no withdrawal has none.

    Raises:
        UsageError: there is nothing at `path`, or a folder without any file of notices.
        IntegrityError: a file of notices cannot be read, or is not as it was released.
    """
    if (path / MANIFEST).is_file():
        mark = read_mark(path)
        manifest, notices = _released(path)
        return NoticeSource(path, merged(notices, mark.notices if mark else ()), manifest)
    if path.is_file():
        return NoticeSource(path, read_notices(path).notices)
    files = sorted(path.glob("*.json")) if path.is_dir() else []
    if not files:
        raise UsageError(
            f"there are no notices at {path}; name a later release, its {WITHDRAWALS}, or a folder "
            f"of such files"
        )
    read = (one for file in files for one in read_notices(file).notices)
    return NoticeSource(path, merged((), read))


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


def _released(folder: Path) -> tuple[Manifest, tuple[WithdrawalNotice, ...]]:
    manifest, listed = read_listed(folder)
    if (file := listed.get(WITHDRAWALS)) is None:
        return manifest, ()
    path = folder / WITHDRAWALS
    if not is_plain(path):
        raise IntegrityError(f"{path} is missing, or not a plain file")
    try:
        is_sound = digest_of_file(path) == file.sha256
    except OSError as error:
        raise IntegrityError(f"{path} cannot be read ({error.strerror})") from error
    if not is_sound:
        raise IntegrityError(f"{path} is damaged or was changed: its SHA-256 is not the manifest's")
    return manifest, read_notices(path).notices
