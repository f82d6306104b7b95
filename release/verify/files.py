"""Compares the files of a folder with those that its manifest lists."""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from loupe.release.format.files import OF_FILE_MANAGERS, content_fault, digest_of_file, shown_path
from loupe.release.format.findings import NOT_READABLE, Findings, TooManyProblemsError
from loupe.release.format.manifest import MANIFEST
from loupe.release.format.scratch import FoundFile, Scratch
from loupe.release.format.signing import SIGNATURE
from loupe.release.withdrawn.files import WITHDRAWN
from loupe.schemas.grouping import batches, grouped
from loupe.schemas.processes import ordered_map
from loupe.schemas.release import ReleasedFile

_UNLISTED = (MANIFEST, SIGNATURE, WITHDRAWN)
"""Files next to those that a manifest lists."""
_OF_THE_HUB = (".git/", ".gitattributes", ".cache/huggingface/")
"""Files that `git clone` and the hub's own tools add to a download."""
_BATCH = 64  # files that a thread reads before it reports


def verify_files(
    folder: Path,
    scratch: Scratch,
    findings: Findings,
    *,
    erased: Collection[str] = (),
    without_images: bool = False,
    beside: tuple[str, ...] = _UNLISTED,
) -> None:
    """Report missing, extra, renamed, changed and unreadable files; the manifest is in `scratch`.

    Files that were `erased` on purpose are not missing, nor are image files with `without_images`
    if none of them exists. Files `beside` the listed ones are not extra.
    """
    found = _files_in(folder, findings)
    scratch.add_all_found(one for one in found if not _is_ignored(one.path, beside))
    _verify_names(folder, scratch, findings, erased, without_images)

    def faults(batch: list[ReleasedFile]) -> list[tuple[str, str, str]]:
        found = ((file.path, *_fault(folder, file)) for file in batch)
        return [(fault, f"{path} {what}", path) for path, fault, what in found if what]

    for some in ordered_map(faults, batches(scratch.present(), _BATCH)):
        for problem in some:
            findings.add(*problem)


def files_fault(
    folder: Path, scratch: Scratch, *, beside: tuple[str, ...] = _UNLISTED
) -> str | None:
    """The first problem that `verify_files` finds, and the number of others; None if there is none.

    May be called once for a scratch.
    """
    findings = Findings()
    with suppress(TooManyProblemsError):
        verify_files(folder, scratch, findings, beside=beside)
    if not findings.problems:
        return None
    more = len(findings.problems) - 1
    return findings.problems[0].message + (f" (and {more:,} more problems)" if more else "")


def _fault(folder: Path, listed: ReleasedFile) -> tuple[str, str | None]:
    """The problem with the content of a file, if any, and its code."""
    try:
        return "file_changed", content_fault(folder, listed)
    except OSError as error:
        return NOT_READABLE, f"cannot be read ({error.strerror})"


def _files_in(folder: Path, findings: Findings) -> Iterator[FoundFile]:
    """Every regular file below `folder`; anything else is a problem and is not followed.

    Raises:
        OSError: a folder cannot be listed.
    """
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                path = f"{inside}{entry.name}"
                shown = shown_path(path)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{path}/")
                elif entry.is_file(follow_symlinks=False):
                    yield FoundFile(shown, entry.stat(follow_symlinks=False).st_size)
                else:
                    message = f"{shown} is {_kind(entry)}, not a file"
                    findings.add("not_a_file", message, shown)


def _kind(entry: os.DirEntry[str]) -> str:
    """The name of a kind of file that is neither a regular file nor a folder."""
    mode = entry.stat(follow_symlinks=False).st_mode
    kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _is_ignored(path: str, beside: tuple[str, ...]) -> bool:
    """Whether a file is harmless, although it is not listed."""
    is_beside = path in beside or path.startswith(_OF_THE_HUB)
    return is_beside or path.rpartition("/")[2] in OF_FILE_MANAGERS


def _verify_names(
    folder: Path,
    scratch: Scratch,
    findings: Findings,
    erased: Collection[str],
    without_images: bool,
) -> None:
    lost = scratch.missing()
    missing = [file for file in lost if file.path not in erased]
    by_size = grouped((file.size_bytes, file) for file in missing)
    gone = {file.path for file in missing}
    for extra in scratch.extra():
        old = _old_name(folder, extra, by_size[extra.size_bytes])
        if old is not None and old in gone:
            gone.discard(old)
            findings.add("file_renamed", f"{old} was renamed to {extra.path}", extra.path)
        else:
            findings.add("file_extra", f"{extra.path} is not a listed file", extra.path)
    left_out = {file.path for file in missing if _is_image(file)}
    if sum(map(_is_image, lost)) < scratch.count_listed_images():  # some were replaced
        left_out.clear()
    elif not without_images:
        left_out = _left_out(left_out & gone, scratch, findings)
    for path in sorted(gone - left_out):
        findings.add("file_missing", f"{path} is missing", path)


def _left_out(gone: set[str], scratch: Scratch, findings: Findings) -> set[str]:
    """The images that one finding covers instead of one finding each: all of several."""
    if len(gone) < 2 or len(gone) != scratch.count_listed_images():
        return set()
    message = (
        f"all {len(gone):,} image files are left out; the rows contain their bytes, too: use "
        f"--without-images to verify those"
    )
    findings.add("images_left_out", message, "images")
    return gone


def _is_image(file: ReleasedFile) -> bool:
    return file.entity_id is not None or file.path.startswith("images/")


def _old_name(folder: Path, extra: FoundFile, candidates: list[ReleasedFile]) -> str | None:
    if not candidates:
        return None
    try:
        digest = digest_of_file(folder / extra.path)
    except OSError:  # it is an extra file nevertheless
        return None
    return next((file.path for file in candidates if file.sha256 == digest), None)
