"""Writes the report of a release to a temporary folder, which is renamed when it is complete."""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from loupe.release.card.facts import has_identities
from loupe.release.diff import Withdrawn, compare_releases
from loupe.release.export.content import ReleaseSource
from loupe.release.format.files import Progress, Workspace, refuse_within, workspace_for
from loupe.release.format.manifest import read_manifest, require_release
from loupe.release.format.rows import number_in
from loupe.release.report.charts import write_thumbnail
from loupe.release.report.page import ReportRecord, Tile, is_there, write_page, write_record
from loupe.release.withdrawn.files import affected_rows, withdrawn_sentence
from loupe.release.withdrawn.notices import known_of
from loupe.schemas.base import digest_of
from loupe.schemas.release import Manifest
from loupe.schemas.withdrawal import WithdrawalNotice
from loupe.schemas.wording import shortened

_GALLERY_ROWS = 48
_TEXT_CHARACTERS = 140


class WrittenReport(NamedTuple):
    """A report in `folder`; `is_new` is False if it existed already.

    `unreadable` lists the images of the gallery that have no picture because they cannot be
    decoded.
    """

    record: ReportRecord
    folder: Path
    is_new: bool
    unreadable: tuple[str, ...] = ()


def write_report(
    folder: Path,
    out: Path,
    *,
    previous: Path | None = None,
    verify: bool = True,
    notices: Iterable[WithdrawalNotice] = (),
    on_progress: Progress = lambda _done, _total: None,
) -> WrittenReport:
    """Write the report of the release in `folder` to `out`, from its files alone.

    The folder appears as a whole or not at all. The same release gives the same bytes (for one
    version of Pillow, which makes the thumbnails), and writing an existing report again changes
    nothing.

    Args:
        folder: the release.
        out: the folder of the report.
        previous: the folder of the previous release, to show the differences.
        verify: check the digest of every file of the release first.
        notices: known withdrawals besides those in the folder's `WITHDRAWN.json`.
        on_progress: called with the progress.

    Raises:
        UsageError: if `folder` or `previous` is not a release, or if `out` holds something else
            or is inside a release.
        IntegrityError: if a release is damaged or was changed.
    """
    folder, out = folder.absolute(), out.absolute()
    source = ReleaseSource(folder, on_progress)
    notices = tuple(notices)
    known = known_of(source.manifest.id, folder, notices)
    withdrawn = {one.number for one in affected_rows(known)}
    record = _record(source.manifest, previous, len(withdrawn))
    earlier = known_of(record.previous, previous, notices) if record.previous else ()
    gone = frozenset(chain.from_iterable(Withdrawn.of((*known, *earlier))))
    if gone:
        record = record.model_copy(update={"withheld": digest_of(*sorted(gone))})
    for release in (folder, previous):
        if release is not None:
            refuse_within(release, out)
    if is_there(out, record):
        return WrittenReport(record, out, is_new=False)
    if verify:
        source.verify()
    with workspace_for(out) as workspace:
        sentence = withdrawn_sentence(known, record.rows) if withdrawn else ""
        difference = _difference(previous, folder, with_rows=not gone) if previous else None
        tiles, unreadable = _pictured(source, workspace, withdrawn)
        write_page(workspace.content, source.manifest, difference, tiles, sentence)
        write_record(workspace.content, record)
        workspace.publish(out)
    return WrittenReport(record, out, is_new=True, unreadable=unreadable)


def _record(manifest: Manifest, previous: Path | None, withdrawn: int) -> ReportRecord:
    if previous is not None:
        require_release(previous)
    return ReportRecord(
        release=manifest.id,
        dataset=manifest.dataset,
        version=manifest.version,
        previous=read_manifest(previous).id if previous else None,
        rows=manifest.statistics.images,
        withdrawn=withdrawn,
    )


def _difference(previous: Path, folder: Path, *, with_rows: bool) -> dict[str, Any]:
    """Return the differences; without rows if something was withdrawn from either release."""
    found = compare_releases(previous, folder)
    difference = {**found.model_dump(), "is_empty": found.is_empty}
    return difference if with_rows else {**difference, "rows": ()}


def _pictured(
    source: ReleaseSource, workspace: Workspace, withdrawn: Collection[int]
) -> tuple[list[Tile], tuple[str, ...]]:
    """Write thumbnails of the rows that the page shows, those without a withdrawal.

    Returns:
        The tiles of the gallery, and the files of images that cannot be decoded.
    """
    total = source.manifest.statistics.images
    step = max(1, -(-total // _GALLERY_ROWS))
    pairs = set(_paired(source.manifest))
    are_identities = has_identities(source.manifest)
    tiles: list[Tile] = []
    unreadable: list[str] = []
    for number, row in enumerate(source.rows(lambda row: row), 1):
        in_gallery = (number - 1) % step == 0
        if number in withdrawn or not (in_gallery or number in pairs):
            continue
        path = row["file_path"]
        if not write_thumbnail(workspace.content, number, (source.folder / path).read_bytes()):
            unreadable.append(path)
        elif in_gallery:
            text = (row["captions"] or [""])[0]
            identity = row["identity"] if are_identities else ""
            said = shortened(text, _TEXT_CHARACTERS)
            tiles.append(Tile(number, row["source"], row["split"], identity, said))
    return tiles, tuple(unreadable)


def _paired(manifest: Manifest) -> Iterator[int]:
    """Return the rows of the nearest pairs of images in different splits."""
    for one in manifest.leaks.comparisons if manifest.leaks else ():
        for file in (one.nearest.first, one.nearest.second) if one.nearest else ():
            if (number := number_in(file)) is not None:
                yield number
