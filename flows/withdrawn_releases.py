"""What this installation knows to be withdrawn from a release, for whoever uses it."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from release.manifest import read_manifest
from release.notices_files import superseding
from release.notices_sources import known_of, notices_of_home
from release.notices_words import told_rows, withdrawn_sentence
from schemas.base import Record
from schemas.errors import IntegrityError
from schemas.release import Count, HexSha256, Manifest, Version
from schemas.withdrawal import Ground, WithdrawalNotice, WithdrawnRow


class ReleaseWithdrawal(Record):
    """What is withdrawn from a release in short.

    Attributes:
        release: its id.
        rows: how many rows must not be used any more, or lost texts.
        grounds: why.
        superseded_by: the version to use instead; None where there is none.
        sentence: all of it, with the first rows.
    """

    release: HexSha256
    rows: Count
    grounds: tuple[Ground, ...]
    superseded_by: Version | None
    sentence: str


def withdrawal_of(home: Path, manifest: Manifest, folder: Path | None) -> ReleaseWithdrawal | None:
    """What is withdrawn from a release, by its folder and by the notices in `home`; None: nothing.

    Raises:
        IntegrityError: the mark or a file of notices cannot be read.
    """
    notices = known_of(manifest.id, folder, notices_of_home(home))
    if not notices:
        return None
    return ReleaseWithdrawal(
        release=manifest.id,
        rows=len(told_rows(notices)),
        grounds=tuple(dict.fromkeys(one.ground for one in notices)),
        superseded_by=superseding(notices),
        sentence=withdrawn_sentence(notices, manifest.statistics.images),
    )


def withdrawal_in(home: Path, folder: Path) -> ReleaseWithdrawal | None:
    """Likewise of the release in `folder`; None too where its manifest cannot be read.

    Raises:
        IntegrityError: the mark or a file of notices cannot be read.
    """
    manifest = _manifest_in(folder)
    return None if manifest is None else withdrawal_of(home, manifest, folder)


def withdrawn_in(folder: Path, known: Iterable[WithdrawalNotice]) -> tuple[WithdrawnRow, ...]:
    """All rows that are withdrawn from the release in `folder`, by its mark and by notices.

    None where its manifest cannot be read; a mark that cannot be read tells of none.
    """
    manifest = _manifest_in(folder)
    if manifest is None:
        return ()
    given = tuple(known)
    try:
        return told_rows(known_of(manifest.id, folder, given))
    except IntegrityError:
        return told_rows(known_of(manifest.id, None, given))


def _manifest_in(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder)
    except (ValidationError, ValueError, OSError):
        return None
