"""The files of a folder against those that its manifest lists."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from release.files import digest_of_file
from release.findings import Findings
from release.manifest import MANIFEST
from release.scratch import FoundFile, Scratch
from release.threads import ordered_map
from schemas.release import ReleasedFile


def verify_files(folder: Path, scratch: Scratch, findings: Findings, threads: int) -> None:
    """Finds what is missing, extra, renamed or changed; the manifest is in `scratch`."""
    for found in _files_in(folder, findings):
        if found.path != MANIFEST:
            scratch.add_found(found)
    _verify_names(folder, scratch, findings)

    def digested(pair: tuple[ReleasedFile, int]) -> tuple[ReleasedFile, int, str]:
        listed, size = pair
        if size != listed.size_bytes:
            return listed, size, ""
        try:
            return listed, size, digest_of_file(folder / listed.path)
        except OSError as error:
            return listed, size, f"(unreadable: {error.strerror})"

    for listed, size, digest in ordered_map(digested, scratch.present(), threads):
        if size != listed.size_bytes:
            wanted = f"wanted {listed.size_bytes:,}"
            message = f"{listed.path} has {size:,} bytes; {wanted}"
            findings.add("file_changed", message, listed.path)
        elif digest != listed.sha256:
            message = (
                f"{listed.path} is damaged or was changed: its SHA-256 is {digest}; "
                f"wanted {listed.sha256}"
            )
            findings.add("file_changed", message, listed.path)


def _files_in(folder: Path, findings: Findings) -> Iterator[FoundFile]:
    """Every plain file below `folder`; anything else is a problem and is not followed."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                path = str(PurePosixPath(below, entry.name))
                shown = path.encode("utf-8", "backslashreplace").decode()
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif entry.is_file(follow_symlinks=False):
                    yield FoundFile(shown, entry.stat(follow_symlinks=False).st_size)
                else:
                    findings.add("not_a_file", f"{shown} is a link, not a file", shown)


def _verify_names(folder: Path, scratch: Scratch, findings: Findings) -> None:
    missing = scratch.missing()
    by_size: dict[int, list[ReleasedFile]] = {}
    for file in missing:
        by_size.setdefault(file.size_bytes, []).append(file)
    gone = {file.path for file in missing}
    for extra in scratch.extra():
        old = _old_name(folder, extra, by_size.get(extra.size_bytes, []))
        if old is not None and old in gone:
            gone.discard(old)
            findings.add("file_renamed", f"{old} was renamed to {extra.path}", extra.path)
        else:
            message = f"{extra.path} does not belong to the release"
            findings.add("file_extra", message, extra.path)
    for path in sorted(gone):
        findings.add("file_missing", f"{path} is missing", path)


def _old_name(folder: Path, extra: FoundFile, candidates: list[ReleasedFile]) -> str | None:
    if not candidates:
        return None
    digest = digest_of_file(folder / extra.path)
    return next((file.path for file in candidates if file.sha256 == digest), None)
