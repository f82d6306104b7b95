"""Exports a release in formats that other tools read."""

from pathlib import Path
from typing import NamedTuple

from release.export.formats import (
    ExportFormat,
    ExportRecord,
    ExportTarget,
    Progress,
    ReleaseSource,
    copied,
    is_there,
    opened_release,
    write_export,
)
from release.folder import refuse_within, workspace_for
from release.terms import ATTRIBUTION


class Exported(NamedTuple):
    """An export that lies in `folder`; `is_new` is False where it lay there already."""

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
    """Writes the release in `folder` to `out`, in a format.

    The folder appears as a whole or not at all, and the same release gives the same bytes.
    Exporting again what lies there changes nothing.

    Args:
        folder: the release.
        format_: one of `release.export.formats`.
        out: the folder that the export becomes.
        verify: hold every file of the release against its digest first; otherwise only the
            manifest, and those files that are copied as they are.
        on_progress: called with the progress of formats that are written row by row.

    Raises:
        UsageError: there is no release in `folder`, or `out` holds something else or lies in it.
        IntegrityError: the release is not as it was released.
    """
    folder, out = folder.absolute(), out.absolute()
    with opened_release(folder, on_progress) as source:
        record = ExportRecord.of(source.manifest, format_.name, format_.options)
        refuse_within(folder, out)
        if is_there(out, record):
            return Exported(record, out, is_new=False)
        if verify:
            source.verify()
        with workspace_for(out) as workspace, ExportTarget(workspace) as target:
            format_.write(source, target)
            _add_attribution(source, target)
            write_export(target.folder, record, target.listed())
            workspace.publish(out)
    return Exported(record, out, is_new=True)


def _add_attribution(source: ReleaseSource, target: ExportTarget) -> None:
    """The attribution of images goes with every copy of them."""
    if file := source.file(ATTRIBUTION):
        target.add(copied(source.folder, file, target.folder))
