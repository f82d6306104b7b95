"""The files of a folder against those that its manifest lists."""

import os
from collections.abc import Iterator
from pathlib import Path

from release.files import digest_of_file
from release.findings import LIMIT, Findings
from release.manifest import MANIFEST
from release.notices_files import WITHDRAWN
from release.scratch import FoundFile, Scratch
from release.signing import SIGNATURE
from release.threads import batches, ordered_map
from schemas.release import ReleasedFile

_UNLISTED = (MANIFEST, SIGNATURE, WITHDRAWN)
"""What lies beside the files that a manifest lists."""
_OF_THE_HUB = (".gitattributes", ".cache/huggingface/")
"""What the hub's own tools add to a download."""
_OF_FILE_MANAGERS = (".DS_Store", "Thumbs.db", "desktop.ini")
"""What appears in a folder that somebody opened."""
_BATCH = 64  # files that a thread reads before it reports


def verify_files(
    folder: Path,
    scratch: Scratch,
    findings: Findings,
    threads: int,
    *,
    erased: frozenset[str] = frozenset(),
    without_images: bool = False,
) -> None:
    """Finds what is missing, extra, renamed or changed; the manifest is in `scratch`.

    Nobody misses what was `erased` on purpose, nor, with `without_images`, image files of which
    none is there.
    """
    unlistable: list[FoundFile] = []
    for found in _files_in(folder, findings):
        if _is_nobodys(found.path):
            continue
        if _is_text(found.path):
            scratch.add_found(found)
        elif len(unlistable) < LIMIT:
            unlistable.append(found)
    extras = [*scratch.extra(), *unlistable]
    _verify_names(folder, extras, scratch, findings, erased, without_images)

    def changes(batch: list[tuple[ReleasedFile, int]]) -> list[tuple[str, str]]:
        return [
            (listed.path, change)
            for listed, size in batch
            if (change := _change(folder, listed, size)) is not None
        ]

    for found_changes in ordered_map(changes, batches(scratch.present(), _BATCH), threads):
        for path, change in found_changes:
            findings.add("file_changed", f"{path} {change}", path)


def _change(folder: Path, listed: ReleasedFile, size: int) -> str | None:
    """What is wrong with the content of a file, if anything."""
    if size != listed.size_bytes:
        return f"has {size:,} bytes; wanted {listed.size_bytes:,}"
    try:
        digest = digest_of_file(f"{folder}/{listed.path}")
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if digest != listed.sha256:
        return f"is damaged or was changed: its SHA-256 is {digest}; wanted {listed.sha256}"
    return None


def _files_in(folder: Path, findings: Findings) -> Iterator[FoundFile]:
    """Every plain file below `folder`; anything else is a problem and is not followed.

    Paths are as the system gives them: bytes that are no UTF-8 stand there as lone surrogates.
    """
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False):
                    yield FoundFile(path, entry.stat(follow_symlinks=False).st_size)
                else:
                    shown = _shown(path)
                    findings.add("not_a_file", f"{shown} is a link, not a file", shown)


def _is_text(path: str) -> bool:
    """Whether a path is UTF-8; no manifest lists another."""
    try:
        return path.isascii() or bool(path.encode())
    except UnicodeEncodeError:
        return False


def _shown(path: str) -> str:
    r"""A path as it can be printed: bytes that are no UTF-8 as `\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _is_nobodys(path: str) -> bool:
    """Whether a file neither belongs to a release nor takes anything from it."""
    is_beside = path in _UNLISTED or path.startswith(_OF_THE_HUB)
    return is_beside or path.rpartition("/")[2] in _OF_FILE_MANAGERS


def _verify_names(
    folder: Path,
    extras: list[FoundFile],
    scratch: Scratch,
    findings: Findings,
    erased: frozenset[str],
    without_images: bool,
) -> None:
    missing = [file for file in scratch.missing() if file.path not in erased]
    rest = [file for file in missing if not _is_image(file)]
    left_out = len(missing) - len(rest)
    if not extras and left_out > 1 and left_out == scratch.count_listed_images():
        missing = rest
        if not without_images:
            message = (
                f"all {left_out:,} image files are left out; the rows hold their bytes, too, and "
                f"can be verified --without-images"
            )
            findings.add("images_left_out", message, "images")
    by_size: dict[int, list[ReleasedFile]] = {}
    for file in missing:
        by_size.setdefault(file.size_bytes, []).append(file)
    gone = {file.path for file in missing}
    for extra in extras:
        shown = _shown(extra.path)
        old = _old_name(folder, extra, by_size.get(extra.size_bytes, []))
        if old is not None and old in gone:
            gone.discard(old)
            findings.add("file_renamed", f"{old} was renamed to {shown}", shown)
        else:
            findings.add("file_extra", f"{shown} does not belong to the release", shown)
    for path in sorted(gone):
        findings.add("file_missing", f"{path} is missing", path)


def _is_image(file: ReleasedFile) -> bool:
    return file.entity_id is not None or file.path.startswith("images/")


def _old_name(folder: Path, extra: FoundFile, candidates: list[ReleasedFile]) -> str | None:
    if not candidates:
        return None
    try:
        digest = digest_of_file(folder / extra.path)
    except OSError:  # it is extra all the same
        return None
    return next((file.path for file in candidates if file.sha256 == digest), None)
