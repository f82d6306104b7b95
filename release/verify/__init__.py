"""Verifies a release from its folder alone, without database or network.

There are three steps: the manifest is checked in itself, the files against the manifest, and the
rows against what is generated from them: JSON, documents, licences, references into the lineage.
Files and rows are streamed; files are read by several threads. What only the store can show, such
as that the rows are the accepted ones, is checked by the build.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loupe.release.format.findings import Findings, Problem, TooManyProblemsError
from loupe.release.format.manifest import MANIFEST, VerifiedManifest, verify_manifest
from loupe.release.format.row_files import shards_among
from loupe.release.format.scratch import Scratch
from loupe.release.format.signing import public_key_called, verify_signature
from loupe.release.verify.documents import verify_documents, verify_mark, verify_withdrawals
from loupe.release.verify.files import verify_files
from loupe.release.verify.images import verify_images
from loupe.release.verify.lineage import LineageChecks
from loupe.release.verify.rows import RowChecks
from loupe.release.withdrawn.files import affected_rows
from loupe.schemas.errors import UsageError
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
    public_key: str | None = None,
    notices: Sequence[WithdrawalNotice] = (),
    without_images: bool = False,
) -> VerifiedRelease:
    """Find every problem of the release in `folder`, and its identity.

    Args:
        folder: the release.
        expected_id: its id as it was cited. Without it, a release that was changed and given a
            consistent new id passes as another correct release.
        decode: decode every image. Otherwise only the digests of files are checked.
        public_key: the key that must have signed it, as 64 hex digits or a file (PEM). Without it,
            an existing signature by any key is checked.
        notices: known withdrawals from any release, besides those stated in the folder.
        without_images: all image files may be missing, because the rows contain their bytes.

    Raises:
        UsageError: if `folder` is not a folder, `public_key` is not a key, or `expected_id` is not
            an id or at least 12 digits of one.
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
            rows = RowChecks(folder, manifest, shards, scratch, findings, lineage)
            rows.run()
            verify_documents(folder, manifest, shards, scratch, findings)
            verify_withdrawals(folder, manifest, shards, scratch, findings)
            if decode and rows.are_sound:
                verify_images(folder, shards, manifest.encoding, findings)
    except TooManyProblemsError:
        pass  # those found so far are returned
    finally:
        scratch.close()
    manifest, release_id = verified or (None, None)
    return VerifiedRelease(findings.problems, manifest, release_id, affected_rows(mark.notices))
