"""Informs holders of releases about withdrawn rows."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from loupe.release.format.files import (
    ATTRIBUTION,
    CARD,
    CITATION,
    CROISSANT,
    FIGURE,
    LEAKS,
    is_plain,
    replace_file,
)
from loupe.release.format.manifest import MANIFEST, read_files, read_manifest
from loupe.release.format.row_files import ListedRelease, read_parquet_rows, shards_among
from loupe.release.withdrawn.files import (
    NOTICES,
    WITHDRAWALS,
    WITHDRAWN,
    merged,
    notice_text,
    read_mark,
    read_notices,
)
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.grouping import grouped
from loupe.schemas.processes import flush_to_disk, locked_folder
from loupe.schemas.release import Manifest
from loupe.schemas.withdrawal import (
    NoticeList,
    WithdrawalNotice,
    version_numbers,
)

# Messages to holders of a release about its withdrawn rows, as a sentence or row by row.


# The files of a release that contain withdrawn items, which must be erased on some grounds.

_IMAGES = "images/"
_WITHOUT_ROWS = frozenset({CARD, FIGURE, LEAKS, CITATION, CROISSANT, WITHDRAWALS})
"""Documents without images or captions of single rows."""
_NAMED = re.compile(r"`(images/[^`]+)`")


def files_to_erase(folder: Path, notices: Sequence[WithdrawalNotice]) -> set[str]:
    """The files listed by the manifest in `folder` that contain a withdrawn image or text.

    Images are erased with their row. Parquet shards and the attribution are read, and erased if
    they cannot be read. Other listed files that may describe rows are erased, too.

    Raises:
        IntegrityError: if the manifest cannot be read.
    """
    rows = [row for notice in notices for row in notice.rows]
    if not rows:
        return set()
    images = {row.file_path for row in rows if row.is_whole}
    numbers = {row.file_path for row in rows}
    found, others = set(), []
    for file in read_files(folder / MANIFEST):
        if file.path.startswith(_IMAGES):
            if file.path in images:
                found.add(file.path)
        elif file.path not in _WITHOUT_ROWS:
            others.append(file.path)
    shards = set(shards_among(others))
    for path in others:
        if path in shards:
            if _shard_holds(folder / path, numbers):
                found.add(path)
        elif path != ATTRIBUTION or _attribution_names(folder / path, images):
            found.add(path)
    return found


def _shard_holds(path: Path, file_paths: set[str]) -> bool:
    """Whether a shard contains one of these images; True if it cannot be read."""
    try:
        return any(
            row["file_path"] in file_paths for row in read_parquet_rows(path, columns=["file_path"])
        )
    except ValueError:
        return True


def _attribution_names(path: Path, file_paths: set[str]) -> bool:
    try:
        with path.open(encoding="utf-8") as lines:
            return any(name in file_paths for line in lines for name in _NAMED.findall(line))
    except (OSError, ValueError):
        return True


# The withdrawals from earlier releases of a dataset that a release states.


# Sources of notices: a later release, published files, or an installation.


class NoticeSource(NamedTuple):
    """A source of notices and the notices in it.

    `manifest` is that of the release in which they were found, None for files of notices.
    """

    path: Path
    notices: tuple[WithdrawalNotice, ...]
    manifest: Manifest | None = None

    def covers(self, release: Manifest) -> bool:
        """Whether the source would list withdrawals from `release`.

        This holds for a later release of its dataset, a copy of the release, and files with notices
        of its dataset.
        """
        other = self.manifest
        if other is None:
            return any(one.dataset == release.dataset for one in self.notices)
        is_later = version_numbers(other.version) > version_numbers(release.version)
        return other.dataset == release.dataset and (is_later or other.id == release.id)

    def describe(self, release: Manifest) -> str:
        """What the source says about `release`, as a sentence."""
        ours = f"{release.dataset} {release.version}"
        of = [one.dataset for one in self.notices]
        if self.manifest is not None:
            of = [f"{self.manifest.dataset} up to {self.manifest.version}"]
        names = ", ".join(dict.fromkeys(of))
        held = f"{self.path} holds notices of {names}" if names else f"{self.path} holds no notices"
        if not self.covers(release):
            return f"{held}; it states nothing about {ours}"
        count = sum(one.release == release.id for one in self.notices)
        return f"{held}; {count:,} of {len(self.notices):,} are about {ours}"


def notice_source(path: Path) -> NoticeSource:
    """Read notices from a file, the files of a folder, or a later or marked release.

    A release that states no withdrawal has none.

    Raises:
        UsageError: if `path` does not exist, or is a folder without files of notices.
        IntegrityError: if a file of notices cannot be read, or a released one was changed.
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
    """The notices that an installation has to publish (see `record_notices`).

    Raises:
        IntegrityError: if a file of notices cannot be read.
    """
    folder = home / NOTICES
    return notice_source(folder).notices if any(folder.glob("*.json")) else ()


def known_of(
    release: str, folder: Path | None, others: Iterable[WithdrawalNotice] = ()
) -> tuple[WithdrawalNotice, ...]:
    """The known withdrawals from a release: those marked in its folder, and those of `others`.

    Raises:
        IntegrityError: if the mark cannot be read.
    """
    mark = read_mark(folder) if folder is not None and folder.is_dir() else None
    found = merged(mark.notices if mark else (), others)
    return tuple(one for one in found if one.release == release)


def _released(folder: Path) -> tuple[Manifest, tuple[WithdrawalNotice, ...]]:
    release = ListedRelease(folder)
    if not release.listed.is_listed(WITHDRAWALS):
        return release.manifest, ()
    path = folder / WITHDRAWALS
    if not is_plain(path):
        raise IntegrityError(f"{path} is missing, or not a plain file")
    release.check([WITHDRAWALS])
    return release.manifest, read_notices(path).notices


# Marks withdrawn releases with a `WITHDRAWN.json` next to the manifest.
#
# A release never changes, but its folder may get this file, and may lose files if the grounds
# require erasure. The files to remove are listed before they are removed, so that an interrupted
# call can be repeated.


class MarkedRelease(NamedTuple):
    """The effect of a withdrawal on an old release.

    Attributes:
        folder: the folder of the release.
        skipped: why nothing was done; None if the release is marked now.
        is_new: whether anything was written or removed.
        erased: the number of files that this call removed.
    """

    folder: Path
    skipped: str | None = None
    is_new: bool = False
    erased: int = 0


def mark_release(
    folder: Path, notices: Sequence[WithdrawalNotice], *, erase: bool
) -> MarkedRelease:
    """Record in the folder of a release what was withdrawn from it.

    A notice replaces an earlier one of the same withdrawal, other notices remain. Marking again
    changes nothing.

    Args:
        folder: the release; if it is missing, or another one, the result says so and nothing is
            changed.
        notices: notices of one release.
        erase: permanently remove every file that contains a withdrawn item: the images of the
            rows, and every file about rows that holds one of them. The manifest, documents
            without single rows, and all other images remain.

    Raises:
        UsageError: if the notices are of several releases, or there are none.
        IntegrityError: if the manifest or an existing mark cannot be read.
        OSError: if the folder cannot be written to.
    """
    if len({notice.release for notice in notices}) != 1:
        raise UsageError(
            f"a release can only be marked with notices of its own; got {len(notices)}"
        )
    if not (folder / MANIFEST).is_file():
        return MarkedRelease(folder, skipped=f"{folder} is no longer a release")
    with locked_folder(folder):
        if (found := read_manifest(folder).id) != notices[0].release:
            details = f"{folder} holds the release {found[:12]}, not {notices[0].release[:12]}"
            return MarkedRelease(folder, skipped=details)
        known = read_mark(folder) or NoticeList(notices=())
        erased = {*known.erased, *(files_to_erase(folder, notices) if erase else ())}
        mark = NoticeList(notices=merged(known.notices, notices), erased=tuple(sorted(erased)))
        if mark != known:
            replace_file(folder / WITHDRAWN, notice_text(mark))
        removed = _remove(folder, mark.erased)
    return MarkedRelease(folder, is_new=mark != known or removed > 0, erased=removed)


def record_notices(home: Path, notices: Iterable[WithdrawalNotice]) -> list[Path]:
    """Store notices in `<home>/notices/<dataset>.json`, to be published next to the releases.

    Returns:
        The files of the datasets that the notices are about.

    Raises:
        IntegrityError: if an existing file cannot be read.
    """
    by_dataset = grouped((notice.dataset, notice) for notice in notices)
    folder = home / NOTICES
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with locked_folder(folder):
        for dataset, new in sorted(by_dataset.items()):
            path = folder / f"{dataset}.json"
            known = read_notices(path) if path.exists() else NoticeList(notices=())
            kept = NoticeList(notices=merged(known.notices, new))
            if kept != known:
                replace_file(path, notice_text(kept))
            paths.append(path)
    return paths


def _remove(folder: Path, paths: Iterable[str]) -> int:
    """Remove the files that still exist; returns their number.

    Paths outside of the folder are ignored, because anyone may have edited the mark.
    """
    removed, touched = 0, set()
    for path in paths:
        target = folder / path
        if ".." in Path(path).parts or not target.parent.resolve().is_relative_to(folder.resolve()):
            continue
        try:
            target.unlink()
        except (FileNotFoundError, NotADirectoryError):
            continue
        removed += 1
        touched.add(target.parent)
    for parent in touched:
        flush_to_disk(parent)
    return removed


# Totals of the withdrawals from earlier releases, by version.
