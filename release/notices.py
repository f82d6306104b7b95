"""Tells holders of releases what must not be used any more: `WITHDRAWN.json` beside a manifest.

A release never changes; its folder may get this one file, and on grounds that ask for erasure lose
files. What is to go is written down before it goes, so that marking may be killed at any point and
done again.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from release.files import write_file
from release.flushing import flush_folder
from release.manifest import MANIFEST, read_manifest
from release.notices_erasure import files_to_erase
from release.notices_files import (
    NOTICES,
    WITHDRAWN,
    merged,
    notice_text,
    read_mark,
    read_notices,
)
from schemas.errors import IntegrityError, UsageError
from schemas.faults import fault_of
from schemas.withdrawal import NoticeList, WithdrawalNotice


class MarkedRelease(NamedTuple):
    """What became of an old release.

    Attributes:
        folder: where it lies, or lay.
        skipped: why nothing was done; None where the release is marked now.
        is_new: whether anything was written or removed.
        erased: how many of its files were removed by this call.
    """

    folder: Path
    skipped: str | None = None
    is_new: bool = False
    erased: int = 0


def mark_release(
    folder: Path, notices: Sequence[WithdrawalNotice], *, erase: bool
) -> MarkedRelease:
    """Says in the folder of a release what was withdrawn from it.

    A notice of a withdrawal that the folder tells of already takes its place; the others stay.
    Marking again changes nothing.

    Args:
        folder: the release; where it is gone, or another one, nothing is done and the result says
            so.
        notices: of one release.
        erase: remove for good every file that holds what was withdrawn: the images of the rows, and
            whatever tells of rows and holds one of them. The manifest, documents that tell of no
            row, and all other images stay.

    Raises:
        UsageError: the notices are of several releases, or there are none.
        IntegrityError: the manifest, or the mark that is there, cannot be read.
        OSError: the folder cannot be written to.
    """
    if len({notice.release for notice in notices}) != 1:
        raise UsageError(f"a release is marked with notices of it alone; got {len(notices)}")
    if not (folder / MANIFEST).is_file():
        return MarkedRelease(folder, skipped=f"{folder} holds no release any more")
    with _locked(folder):
        if (found := _release_in(folder)) != notices[0].release:
            told = f"{folder} holds the release {found[:12]}, not {notices[0].release[:12]}"
            return MarkedRelease(folder, skipped=told)
        known = read_mark(folder) or NoticeList(notices=())
        erased = {*known.erased, *(files_to_erase(folder, notices) if erase else ())}
        mark = NoticeList(notices=merged(known.notices, notices), erased=tuple(sorted(erased)))
        if mark != known:
            replace_file(folder / WITHDRAWN, notice_text(mark))
        removed = _remove(folder, mark.erased)
    return MarkedRelease(folder, is_new=mark != known or removed > 0, erased=removed)


def record_notices(home: Path, notices: Iterable[WithdrawalNotice]) -> list[Path]:
    """Keeps notices in `<home>/notices/<dataset>.json`, to be published where releases were.

    Returns:
        The files of the datasets that the notices are of.

    Raises:
        IntegrityError: a file that is there cannot be read.
    """
    by_dataset: dict[str, list[WithdrawalNotice]] = {}
    for notice in notices:
        by_dataset.setdefault(notice.dataset, []).append(notice)
    folder = home / NOTICES
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with _locked(folder):
        for dataset, new in sorted(by_dataset.items()):
            path = folder / f"{dataset}.json"
            known = read_notices(path) if path.exists() else NoticeList(notices=())
            kept = NoticeList(notices=merged(known.notices, new))
            if kept != known:
                replace_file(path, notice_text(kept))
            paths.append(path)
    return paths


def replace_file(path: Path, data: bytes) -> None:
    """Puts `data` into the place of `path` in one step, and on disk; whoever reads sees all of it.

    What a killed call leaves lies beside the folder of `path`, and the next call takes it away.
    """
    beside = path.parent.parent
    unfinished = f".{path.parent.name}.{path.name}"
    (beside / unfinished).unlink(missing_ok=True)
    write_file(beside, unfinished, data)
    (beside / unfinished).replace(path)
    flush_folder(path.parent)


def _release_in(folder: Path) -> str:
    try:
        return read_manifest(folder).id
    except (ValidationError, ValueError, OSError) as error:
        raise IntegrityError(f"{folder / MANIFEST} cannot be read ({fault_of(error)})") from error


def _remove(folder: Path, paths: Iterable[str]) -> int:
    """Removes those files that still are there; says how many.

    Nothing that a mark names elsewhere, as anybody may have put it there.
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
        flush_folder(parent)
    return removed


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Nobody else marks the folder meanwhile; the lock ends with the process."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
