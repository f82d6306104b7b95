"""Exports a release in formats that other tools read."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from loupe.release.export.content import (
    EXPORT,
    ExportFormat,
    ExportRecord,
    ReleaseSource,
    copied,
    is_there,
)
from loupe.release.format.files import (
    ATTRIBUTION,
    Progress,
    refuse_within,
    remove_abandoned,
    workspace_for,
)
from loupe.release.format.manifest import write_listing
from loupe.release.format.scratch import Scratch


class Exported(NamedTuple):
    """An export in `folder`; `is_new` is False if it existed already."""

    record: ExportRecord
    folder: Path
    is_new: bool


def export_release(
    folder: Path,
    format_: ExportFormat,
    out: Path,
    *,
    verify: bool = True,
    on_progress: Progress = lambda _done, _total: None,
) -> Exported:
    """Export the release in `folder` to `out` in a format.

    The folder appears as a whole or not at all. The same release gives the same bytes, and
    exporting again changes nothing.

    Args:
        folder: the release.
        format_: one of `loupe.release.export.formats`.
        out: the folder of the export.
        verify: check the digest of every file of the release first; otherwise only the manifest
            and files that are copied unchanged are checked.
        on_progress: called with the progress of formats that are written row by row.

    Raises:
        UsageError: if `folder` is not a release, or if `out` holds something else or is inside
            `folder`.
        IntegrityError: if the release is damaged or was changed.
    """
    folder, out = folder.absolute(), out.absolute()
    source = ReleaseSource(folder, on_progress)
    record = ExportRecord.of(source.manifest, format_.name, format_.options)
    refuse_within(folder, out)
    if is_there(out, record):
        remove_abandoned(out.parent)  # of an export that was killed after its last step
        return Exported(record, out, is_new=False)
    if verify:
        source.verify()
    with workspace_for(out) as workspace, closing(Scratch(workspace.scratch_file)) as listing:
        content = workspace.content
        listing.add_all_listed(format_.write(source, content))
        if file := source.listed.listed_file(ATTRIBUTION):  # every copy of images must include it
            listing.add_listed(copied(folder, file, content))
        write_listing(content / EXPORT, record, listing.listed())
        workspace.publish(out)
    return Exported(record, out, is_new=True)
