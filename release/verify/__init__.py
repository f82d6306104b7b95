"""Verifies a release from its folder alone, without database or network.

There are three steps: the manifest is checked in itself, the files against the manifest, and the
rows of JSON, Parquet and images against each other, together with the documents generated from
them. Files and rows are streamed; files are read by several threads.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loupe.release.findings import Findings, Problem, TooManyProblemsError
from loupe.release.manifest import MANIFEST, VerifiedManifest, verify_manifest
from loupe.release.notices import affected_rows
from loupe.release.row_files import ListedRelease, shards_among
from loupe.release.rows import ReleaseRow
from loupe.release.scratch import Scratch
from loupe.release.signing import public_key_called, verify_signature
from loupe.release.verify.documents import verify_documents, verify_mark, verify_withdrawals
from loupe.release.verify.files import verify_files
from loupe.release.verify.lineage import LineageChecks
from loupe.release.verify.rows import RowChecks
from loupe.schemas.base import digest_of
from loupe.schemas.errors import IntegrityError, UsageError
from loupe.schemas.release import Manifest
from loupe.schemas.withdrawal import NoticeList, WithdrawalNotice, WithdrawnRow

_CITED = re.compile(r"[0-9a-fA-F]{12,64}")
"""An id as it is cited: in full, or a prefix that is too long to forge."""


class VerifiedRelease(NamedTuple):
    """The findings and the release they are about, with the rows that were withdrawn from it.

    `manifest` and `id`, which is computed from its content, are None if it cannot be used.
    """

    problems: list[Problem]
    manifest: Manifest | None
    id: str | None
    withdrawn: tuple[WithdrawnRow, ...]


def verify_release(
    folder: Path,
    *,
    expected_id: str | None = None,
    decode: bool = False,
    contains: Path | None = None,
    public_key: str | None = None,
    notices: Sequence[WithdrawalNotice] = (),
    without_images: bool = False,
) -> VerifiedRelease:
    """Find every problem of the release in `folder`, and its identity.

    Args:
        folder: the release.
        expected_id: its id as it was cited. Without it, a release that was changed and given a
            consistent new id passes as another correct release.
        decode: decode every image in full and recompute its perceptual hash. Otherwise only its
            digest is checked and its header is read.
        contains: the folder of another release whose rows must all be in this one.
        public_key: the key that must have signed it, as 64 hex digits or a file (PEM). Without it,
            an existing signature by any key is checked.
        notices: known withdrawals from any release, besides those stated in the folder.
        without_images: all image files may be missing, because the rows contain their bytes.

    Raises:
        UsageError: if `folder` is not a folder, `contains` is not a release, `public_key` is not a
            key, or `expected_id` is not an id or at least 12 digits of one.
        IntegrityError: if the release in `contains` was changed.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name the folder of a release")
    if expected_id is not None and not _CITED.fullmatch(expected_id):
        raise UsageError(f"an expected id has 12 to 64 hex digits; got {expected_id!r}")
    key = None if public_key is None else public_key_called(public_key)
    findings = Findings()
    scratch = Scratch()
    verified: VerifiedManifest | None = None
    mark = NoticeList(notices=())
    try:
        verified = verify_manifest(folder, scratch, findings)
        manifest = verified and verified.manifest
        if verified is not None:
            if expected_id is not None and not verified.id.startswith(expected_id.lower()):
                message = (
                    f"this is the release {verified.id}; expected that with the id {expected_id}"
                )
                findings.add("other_release", message, MANIFEST)
            verify_signature(folder, verified.id, key, findings)
        if manifest is not None:
            mark = verify_mark(folder, manifest, notices, scratch, findings)
        if scratch.has_listed():
            verify_files(
                folder, scratch, findings, erased=mark.erased, without_images=without_images
            )
        if manifest is not None and not mark.erased and not findings.has("not_a_file"):
            shards = shards_among(file.path for file in scratch.listed())
            lineage = LineageChecks(folder, manifest, findings)
            lineage.check_tables()
            RowChecks(folder, manifest, shards, findings, scratch, lineage, decode=decode).run()
            verify_documents(folder, manifest, shards, scratch, findings)
            lineage.check_used()
            verify_withdrawals(folder, manifest, shards, scratch, findings)
            if contains is not None:
                _verify_containment(folder, contains, findings)
    except TooManyProblemsError:
        pass  # those found so far are returned
    finally:
        scratch.close()
    manifest, release_id = verified or (None, None)
    return VerifiedRelease(findings.problems, manifest, release_id, affected_rows(mark.notices))


def _verify_containment(folder: Path, other: Path, findings: Findings) -> None:
    """Report images and captions of the release in `other` that are missing in that in `folder`.

    Images are identified by entity id and SHA-256, captions by entity id, image and text. If
    `folder` cannot be read, nothing is compared, because its problems are reported elsewhere.

    Raises:
        UsageError: if `other` is not a release.
        IntegrityError: if it was changed.
    """
    wanted = ListedRelease(other)
    wanted.check(wanted.shards())
    try:
        release = ListedRelease(folder)
        release.check(release.shards())
        held = {digest for row in release.rows(ReleaseRow.of) for digest in _digests(row)}
    except (IntegrityError, UsageError):
        return
    manifest, theirs = release.manifest, wanted.manifest
    _check_statement(manifest, theirs, findings)
    name = f"{theirs.dataset} {theirs.version}"
    for row in wanted.rows(ReleaseRow.of):
        for digest, what in _digests(row).items():
            if digest not in held:
                message = f"{what} of {name} (its {row.file_path}) is not in this release"
                findings.add("not_contained", message, f"{manifest.dataset}.json")


def _check_statement(manifest: Manifest, wanted: Manifest, findings: Findings) -> None:
    for stated in manifest.contains:
        if stated.version == wanted.version and stated.id != wanted.id:
            message = (
                f"{MANIFEST} says that {stated.id} is contained as version {stated.version}; "
                f"that version is {wanted.id}"
            )
            findings.add("not_contained", message, MANIFEST)


def _digests(row: ReleaseRow) -> dict[str, str]:
    """The contents of a row with descriptions: a digest for the image and for each caption."""
    image = row.image_entity_id
    held = {digest_of("image", image, row.sha256): f"image {image}"}
    for one in row.captions:
        held[digest_of("caption", image, one.entity_id, one.text)] = f"the caption {one.text!r}"
    return held
