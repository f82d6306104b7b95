"""Writes the report on a release: beside its place, and moved there as a whole."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from release.export.formats import ExportedRow, ReleaseSource, opened_release
from release.folder import Workspace, refuse_within, workspace_for
from release.lineage import ENTITIES
from release.lineage.reading import open_lineage
from release.manifest import MANIFEST, read_manifest
from release.notices import affected_rows, known_of, withdrawn_sentence
from release.report.differences import shown_difference
from release.report.page import ReportRecord, is_there, write_page, write_record
from release.report.row_data import Columns, row_detail, row_tile, texts_of
from release.report.scripts import (
    LineageScripts,
    ScriptWriter,
    SearchIndex,
    index_words,
    write_script,
)
from release.report.thumbnails import FOLDER_IMAGES, PictureFolder
from release.threads import ordered_map
from schemas.errors import IntegrityError, UsageError
from schemas.faults import fault_of
from schemas.withdrawal import WithdrawalNotice, WithdrawnRow

_CAPTIONS = (
    *("captions", "caption_entity_ids", "caption_authors", "caption_origins"),
    "caption_reviewed",
)
_COARSE = ("coarse_captions", "coarse_caption_entity_ids")
_TOLD = ("creator", "source_url", "crop")


class _Withheld:
    """The rows of the release in `folder` that its mark (`WITHDRAWN.json`) or notices name."""

    def __init__(
        self, folder: Path, release_id: str, notices: Iterable[WithdrawalNotice] = ()
    ) -> None:
        self._notices: Sequence[WithdrawalNotice] = known_of(release_id, folder, notices)
        self._rows = {one.number: one for one in affected_rows(self._notices)}

    def __len__(self) -> int:
        return len(self._rows)

    def sentence(self, images: int) -> str:
        """What was withdrawn from the release, which has so many images; empty if nothing was."""
        return withdrawn_sentence(self._notices, images) if self._rows else ""

    def is_whole(self, number: int) -> bool:
        """Whether nothing of the row with this number may be shown."""
        return number in self._rows and self._rows[number].is_whole

    def shown(self, number: int, row: dict[str, Any]) -> dict[str, Any]:
        """The columns of a row without what was withdrawn of it."""
        withdrawn = self._rows.get(number)
        return row if withdrawn is None else _without(row, withdrawn)


def _without(row: Mapping[str, Any], withdrawn: WithdrawnRow) -> dict[str, Any]:
    left = dict(row)
    gone = set(withdrawn.texts)

    def keep(entity_id: str) -> bool:
        return not withdrawn.is_whole and entity_id not in gone

    for names in (_CAPTIONS, _COARSE):
        if row.get(names[1]) is not None:
            places = [at for at, one in enumerate(row[names[1]]) if keep(one)]
            left |= {name: [row[name][at] for at in places] for name in names}
            if names is _CAPTIONS:
                moved = {at: place for place, at in enumerate(places)}
    if row.get("translations"):
        left["translations"] = [
            {**one, "caption": moved[one["caption"]]}
            for one in row["translations"]
            if keep(one["entity_id"]) and one["caption"] in moved
        ]
    if withdrawn.is_whole:
        left |= {name: None for name in _TOLD if name in row}
        left |= {"source_file_path": "", "identity": ""}
        if row.get("contrast"):
            left["contrast"] = {**row["contrast"], "detail": "", "plan": ""}
    return left


_Progress = Callable[[int, int], None]
"""Called with the rows written so far and their total."""

DETAIL_ROWS = 100
"""Rows in a script of `data/rows`."""
_TILE_ROWS = 2_000
"""Rows in a script of `data/tiles`."""
_THREADS = min(16, os.cpu_count() or 1)


class WrittenReport(NamedTuple):
    """A report that lies in `folder`; `is_new` is False where it lay there already.

    `unreadable` are the first files of images that no picture could be made of.
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
    previews: bool | None = None,
    verify: bool = True,
    notices: Iterable[WithdrawalNotice] = (),
    on_progress: _Progress = lambda _done, _total: None,
) -> WrittenReport:
    """Writes the report on the release in `folder` to `out`, from its folder alone.

    The folder appears as a whole or not at all, and the same release gives the same bytes (for one
    version of Pillow, which makes the small pictures). Writing again what lies there changes
    nothing.

    Args:
        folder: the release.
        out: the folder that the report becomes. Where it lies beside that of the release, the page
            shows images at full size from there.
        previous: the folder of the release before, to tell what differs.
        previews: put pictures of up to 800 pixels into the report itself; None: where the release
            does not lie beside it.
        verify: hold every file of the release against its digest first.
        notices: what is known to be withdrawn beside what the mark in the folder tells.
        on_progress: called with the progress.

    Raises:
        UsageError: there is no release in `folder` or `previous`, or `out` holds something else or
            lies in a release.
        IntegrityError: a release is not as it was released.
    """
    folder, out = folder.absolute(), out.absolute()
    with opened_release(folder, on_progress) as source:
        withheld = _Withheld(folder, source.manifest.id, notices)
        record = _record(source, out, previous, previews, len(withheld))
        for release in (folder, previous):
            if release is not None:
                refuse_within(release, out)
        if is_there(out, record):
            return WrittenReport(record, out, is_new=False)
        if verify:
            source.verify()
        with workspace_for(out) as workspace:
            unreadable = _write(source, record, previous, workspace, withheld)
            workspace.publish(out)
    return WrittenReport(record, out, is_new=True, unreadable=unreadable)


def _record(
    source: ReleaseSource,
    out: Path,
    previous: Path | None,
    previews: bool | None,
    withdrawn: int,
) -> ReportRecord:
    manifest = source.manifest
    is_beside = source.folder.resolve().parent == out.resolve().parent
    if previous is not None and not (previous / MANIFEST).is_file():
        raise UsageError(f"there is no release in {previous}: it holds no {MANIFEST}")
    return ReportRecord(
        release=manifest.id,
        dataset=manifest.dataset,
        version=manifest.version,
        previous=_id_of(previous) if previous else None,
        previews=previews if previews is not None else not is_beside,
        beside=source.folder.resolve().name if is_beside else None,
        rows=manifest.statistics.images,
        lineage=(source.folder / ENTITIES.path).is_file(),
        withdrawn=withdrawn,
    )


def _id_of(folder: Path) -> str:
    try:
        return read_manifest(folder).id
    except (ValueError, OSError) as error:
        raise IntegrityError(f"{folder / MANIFEST} cannot be read ({fault_of(error)})") from error


def _write(
    source: ReleaseSource,
    record: ReportRecord,
    previous: Path | None,
    workspace: Workspace,
    withheld: _Withheld,
) -> tuple[str, ...]:
    report = workspace.content
    difference = shown_difference(previous, source.folder, report) if previous else None
    writer = _RowWriter(workspace)
    pictures = PictureFolder(report, record.rows, previews=record.previews)
    with ExitStack() as stack:
        lineage = None
        if record.lineage:
            spool = workspace.home / "lineage"
            spool.mkdir()
            opened = stack.enter_context(open_lineage(source.folder, spool=spool))
            lineage = LineageScripts(report, opened, DETAIL_ROWS)
        for columns, shown in _pictured(source, pictures, withheld):
            writer.add(columns, shown)
            if lineage is not None:
                lineage.add(columns, known=not withheld.is_whole(writer.rows))
        if lineage is not None:
            lineage.finish()
    write_script(report, "index", writer.finish() | _text(record))
    sentence = withheld.sentence(record.rows)
    write_page(report, source.manifest, record, difference, sentence)
    write_record(report, record)
    return tuple(writer.unreadable)


def _text(record: ReportRecord) -> dict[str, Any]:
    """What the page must know of the report."""
    return {
        "name": f"{record.dataset} {record.version}",
        "rows": record.rows,
        "detailRows": DETAIL_ROWS,
        "tileRows": _TILE_ROWS,
        "folderImages": FOLDER_IMAGES,
        "beside": record.beside,
        "previews": record.previews,
        "lineage": record.lineage,
    }


def _pictured(
    source: ReleaseSource, pictures: PictureFolder, withheld: _Withheld
) -> Iterator[tuple[dict[str, Any], bool]]:
    """The columns of all rows in their order, and whether there is a picture; these are written."""

    def add(row: ExportedRow) -> tuple[dict[str, Any], bool]:
        if withheld.is_whole(row.number):
            return {**withheld.shown(row.number, row.columns), "withdrawn": True}, False
        shown = pictures.add(row.number, bytes(row.image))
        return withheld.shown(row.number, row.columns), shown

    yield from ordered_map(add, source.rows(), _THREADS)


class _RowWriter:
    """Writes rows into scripts as they come."""

    _SHOWN_UNREADABLE = 10

    def __init__(self, workspace: Workspace) -> None:
        scratch = workspace.home / "words"
        scratch.mkdir()
        self.rows = 0
        self.unreadable: list[str] = []
        self._columns = Columns()
        self._details = ScriptWriter(workspace.content, "rows", DETAIL_ROWS)
        self._tiles = ScriptWriter(workspace.content, "tiles", _TILE_ROWS)
        self._words = ScriptWriter(workspace.content, "words", 0)
        self._index = SearchIndex(scratch)

    def add(self, columns: dict[str, Any], shown: bool) -> None:
        self._columns.add(columns)
        self._details.add(row_detail(columns, shown))
        self._tiles.add(row_tile(columns, shown))
        self._index.add(self.rows, index_words(columns, texts_of(columns)))
        self.rows += 1
        if (
            not shown
            and "withdrawn" not in columns
            and len(self.unreadable) < self._SHOWN_UNREADABLE
        ):
            self.unreadable.append(columns["file_path"])

    def finish(self) -> dict[str, Any]:
        """Ends all scripts; returns the content of the index."""
        self._details.finish()
        self._tiles.finish()
        return {**self._columns.details(), "firstWords": self._index.write(self._words)}
