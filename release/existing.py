"""A release that lies in its folder already, against the one that is built now."""

from contextlib import suppress
from pathlib import Path

from release.files import digest_of_file
from release.findings import Findings, TooManyProblemsError
from release.manifest import MANIFEST, read_manifest
from release.scratch import Scratch
from release.signing import Signature, add_signature
from release.threads import DEFAULT_THREADS
from release.verify.files import verify_files
from schemas.errors import IntegrityError, UsageError
from schemas.release import Manifest


def is_there(out: Path, content: Path, manifest: Manifest, scratch: Scratch) -> bool:
    """Whether the release in `content` lies at `out` already, every file as it was built now.

    `scratch` has the files that it lists; every file at `out` is read. Once only for a scratch.

    Raises:
        IntegrityError: another release is there, or this one and a file of it is damaged, missing
            or not its own.
    """
    if not (out / MANIFEST).exists():
        return False
    if digest_of_file(out / MANIFEST) != digest_of_file(content / MANIFEST):
        raise IntegrityError(
            f"{out} holds another release than what {manifest.dataset} {manifest.version} would be "
            f"now ({manifest.id[:12]}); releases never change: choose a new version and folder"
        )
    findings = Findings()
    with suppress(TooManyProblemsError):
        verify_files(out, scratch, findings, DEFAULT_THREADS)
    if findings.problems:
        more = len(findings.problems) - 1
        others = f", and {more:,} more are wrong" if more else ""
        raise IntegrityError(
            f"{out} is {manifest.dataset} {manifest.version}, but {findings.problems[0].message}"
            f"{others}; nothing was written: move that folder away and build again"
        )
    return True


def sign_existing(folder: Path, signature: Signature) -> str | None:
    """Signs a release that `is_there`; says why not where it is signed otherwise or cannot be."""
    try:
        add_signature(folder, signature)
    except UsageError as error:
        return f"the release was not signed with the key of this installation: {error}"
    return None


def holds(folder: Path, release_id: str) -> bool:
    """Whether the manifest of this release lies in `folder`."""
    if not (folder / MANIFEST).is_file():
        return False
    try:
        return read_manifest(folder).id == release_id
    except (ValueError, OSError):
        return False
