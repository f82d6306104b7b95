"""Verifies a release from its folder alone: no database, no network.

Three rounds: the manifest against itself, the files against the manifest, and the rows of JSON,
Parquet and images against each other, with the documents that are made of all this. Files and rows
are streamed; files are read by several threads.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

from release.findings import Findings, TooManyProblemsError
from release.parquet_rows import shards_among
from release.scratch import Scratch
from release.signing import public_key_called, verify_signature
from release.threads import DEFAULT_THREADS
from release.verify.containment import verify_containment
from release.verify.documents import verify_documents
from release.verify.files import verify_files
from release.verify.lineage import verify_lineage
from release.verify.manifest import VerifiedManifest, refuse_short, verify_manifest
from release.verify.notices import verify_mark, verify_withdrawals
from release.verify.rows import RowChecks
from schemas.errors import UsageError
from schemas.release import Manifest, Problem
from schemas.withdrawal import WithdrawalNotice


class VerifiedRelease(NamedTuple):
    """What was found, and the release that it was found of.

    `manifest` and `id`, which is what its content makes, are None where it cannot be used.
    """

    problems: list[Problem]
    manifest: Manifest | None
    id: str | None


class VerifyOptions(TypedDict, total=False):
    """What `examine_release` may be asked."""

    expected_id: str | None
    decode: bool
    contains: Path | None
    public_key: str | None
    notices: Sequence[WithdrawalNotice]
    without_images: bool
    threads: int


def verify_release(folder: Path, **options: Unpack[VerifyOptions]) -> list[Problem]:
    """Everything that is wrong with the release in `folder`; an empty list where nothing is.

    Raises:
        UsageError: as `examine_release`.
        IntegrityError: as above.
    """
    return examine_release(folder, **options).problems


def examine_release(
    folder: Path,
    *,
    expected_id: str | None = None,
    decode: bool = False,
    contains: Path | None = None,
    public_key: str | None = None,
    notices: Sequence[WithdrawalNotice] = (),
    without_images: bool = False,
    threads: int = DEFAULT_THREADS,
) -> VerifiedRelease:
    """Everything that is wrong with the release in `folder`, and which release it is.

    Args:
        folder: the release.
        expected_id: its id as it was cited. Without it, a release that was changed and resealed
            with care is a correct release: another one.
        decode: decode every image in full and recompute its perceptual hash. Without, only its
            bytes are compared with their digest, and its header is read.
        contains: the folder of another release whose rows must all be in this one.
        public_key: the key that must have signed it, as 64 hex digits or a file (PEM). Without it,
            a signature is only checked where there is one, by any key.
        notices: what is known to be withdrawn, of any release, beside what the folder itself says.
        without_images: the image files may be left out, all of them: the rows hold their bytes.
        threads: how many files are read at once.

    Raises:
        UsageError: `folder` is not a folder, there is no release in `contains`, `public_key` is
            no key, or `expected_id` is not an id or at least 12 digits of one.
        IntegrityError: the release in `contains` is not as it was released.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name the folder of a release")
    key = None if public_key is None else public_key_called(public_key)
    if expected_id is not None:
        refuse_short(expected_id)
    findings = Findings()
    scratch = Scratch()
    verified: VerifiedManifest | None = None
    try:
        verified = verify_manifest(folder, expected_id, scratch, findings)
        manifest = verified and verified.manifest
        if verified is not None:
            verify_signature(folder, verified.id, key, findings)
        erased = frozenset[str]()
        if manifest is not None:
            erased = verify_mark(folder, manifest, notices, scratch, findings)
        if scratch.has_listed():
            verify_files(
                folder, scratch, findings, threads, erased=erased, without_images=without_images
            )
        if manifest is not None and not erased and not findings.has("not_a_file"):
            shards = shards_among(file.path for file in scratch.listed())
            checks = RowChecks(
                folder, manifest, shards, findings, scratch, decode=decode, threads=threads
            )
            checks.run()
            verify_documents(folder, manifest, shards, scratch, findings)
            verify_lineage(folder, manifest, shards, findings)
            verify_withdrawals(folder, manifest, shards, scratch, findings)
            if contains is not None:
                verify_containment(folder, contains, scratch, findings)
    except TooManyProblemsError:
        pass
    finally:
        scratch.close()
    return VerifiedRelease(
        findings.problems, verified and verified.manifest, verified and verified.id
    )
