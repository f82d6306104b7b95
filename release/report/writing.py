"""Writes the report of a release to a temporary folder, which is renamed when it is complete."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from loupe.release.diff import Withdrawn, compare_releases
from loupe.release.export.content import ExportedRow, ReleaseSource
from loupe.release.format.files import Progress, Workspace, refuse_within, workspace_for
from loupe.release.format.manifest import read_manifest, require_release
from loupe.release.format.rows import CAPTION_COLUMNS, COARSE_COLUMNS, text_entity_ids
from loupe.release.lineage import ENTITIES
from loupe.release.lineage.reading import open_lineage
from loupe.release.report.charts import FOLDER_IMAGES, PictureFolder
from loupe.release.report.page import ReportRecord, is_there, write_page, write_record
from loupe.release.report.scripts import (
    Columns,
    ScriptWriter,
    SearchIndex,
    index_words,
    lineage_page,
    row_tile,
    texts_of,
    write_script,
)
from loupe.release.withdrawn.files import affected_rows, withdrawn_sentence
from loupe.release.withdrawn.notices import known_of
from loupe.schemas.base import digest_of
from loupe.schemas.processes import ordered_map
from loupe.schemas.withdrawal import WithdrawalNotice, WithdrawnRow

_TOLD = ("creator", "source_url", "crop")


def _without(row: Mapping[str, Any], withdrawn: WithdrawnRow) -> dict[str, Any]:
    left = dict(row)
    gone = set(withdrawn.texts)

    def keep(entity_id: str) -> bool:
        return not withdrawn.is_whole and entity_id not in gone

    for names in (CAPTION_COLUMNS, COARSE_COLUMNS):
        if (ids := row.get(names["entity_id"])) is not None:
            places = [at for at, one in enumerate(ids) if keep(one)]
            for name in names.values():
                left[name] = [row[name][at] for at in places]
            if names is CAPTION_COLUMNS:
                moved = {at: place for place, at in enumerate(places)}
    if row.get("translations"):
        left["translations"] = []
        for one in row["translations"]:
            if keep(one["entity_id"]) and one["caption"] in moved:
                left["translations"].append({**one, "caption": moved[one["caption"]]})
    if withdrawn.is_whole:
        left |= {name: None for name in _TOLD if name in row}
        left |= {"source_file_path": "", "identity": ""}
        if row.get("contrast"):
            left["contrast"] = {**row["contrast"], "detail": "", "plan": ""}
    return left


DETAIL_ROWS = 100
"""Rows in a script of `data/rows`."""
_TILE_ROWS = 2_000
"""Rows in a script of `data/tiles`."""
_SHOWN_UNREADABLE = 10


class WrittenReport(NamedTuple):
    """A report in `folder`; `is_new` is False if it existed already.

    `unreadable` lists the first image files that have no picture because they cannot be decoded.
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
    on_progress: Progress = lambda _done, _total: None,
) -> WrittenReport:
    """Write the report of the release in `folder` to `out`, from its files alone.

    The folder appears as a whole or not at all. The same release gives the same bytes (for one
    version of Pillow, which makes the thumbnails), and writing an existing report again changes
    nothing.

    Args:
        folder: the release.
        out: the folder of the report. If it is next to the release, the page shows the release's
            images at full size.
        previous: the folder of the previous release, to show the differences.
        previews: include pictures of up to 800 pixels; None: if the release is not next to `out`.
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
    withdrawn = {one.number: one for one in affected_rows(known)}
    record = _record(source, out, previous, previews, len(withdrawn))
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
        unreadable = _write(source, record, previous, workspace, withdrawn, gone, sentence)
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
    if previous is not None:
        require_release(previous)
    return ReportRecord(
        release=manifest.id,
        dataset=manifest.dataset,
        version=manifest.version,
        previous=read_manifest(previous).id if previous else None,
        previews=previews if previews is not None else not is_beside,
        beside=source.folder.resolve().name if is_beside else None,
        rows=manifest.statistics.images,
        lineage=(source.folder / ENTITIES.path).is_file(),
        withdrawn=withdrawn,
    )


def _write(
    source: ReleaseSource,
    record: ReportRecord,
    previous: Path | None,
    workspace: Workspace,
    withdrawn: Mapping[int, WithdrawnRow],
    gone: frozenset[str],
    sentence: str,
) -> tuple[str, ...]:
    """Write all files of the report; returns the first images that cannot be decoded.

    `gone` are the entities withdrawn from this release or the previous one; if there are any, no
    rows that differ are shown.
    """
    report = workspace.content
    difference: dict[str, Any] | None = None
    if previous is not None:
        found = compare_releases(previous, source.folder)
        difference = {**found.model_dump(), "is_empty": found.is_empty}
        if gone:
            difference["rows"] = ()
    pictures = PictureFolder(report, record.rows, previews=record.previews)
    columns, index = Columns(), SearchIndex(workspace.home / "words.db")
    details = ScriptWriter(report, "rows", DETAIL_ROWS)
    tiles = ScriptWriter(report, "tiles", _TILE_ROWS)
    unreadable: list[str] = []
    with ExitStack() as stack:
        lineage = None
        if record.lineage:
            spool = workspace.home / "lineage"
            spool.mkdir()
            opened = stack.enter_context(open_lineage(source.folder, spool=spool))
            pack = partial(lineage_page, opened, gone)
            lineage = ScriptWriter(report, "lineage", DETAIL_ROWS, pack)
        for place, (row, shown) in enumerate(_pictured(source, pictures, withdrawn)):
            is_known = "withdrawn" not in row
            columns.add(row)
            details.add(row if shown else {**row, "hidden": True})
            tiles.add(row_tile(row, shown))
            index.add(place, index_words(row, texts_of(row)))
            if is_known and not shown and len(unreadable) < _SHOWN_UNREADABLE:
                unreadable.append(row["file_path"])
            if lineage is not None:
                entities = [row["image_entity_id"], *text_entity_ids(row)]
                lineage.add(entities if is_known else [])
        if lineage is not None:
            lineage.finish()
    details.finish()
    tiles.finish()
    first_words = index.write(ScriptWriter(report, "words", 0))
    write_script(report, "index", {**columns.details(), "firstWords": first_words, **_text(record)})
    write_page(report, source.manifest, difference, sentence)
    write_record(report, record)
    return tuple(unreadable)


def _text(record: ReportRecord) -> dict[str, Any]:
    """The settings and texts that the page needs."""
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
    source: ReleaseSource, pictures: PictureFolder, withdrawn: Mapping[int, WithdrawnRow]
) -> Iterator[tuple[dict[str, Any], bool]]:
    """Write the pictures of all rows; yields their columns in order and if there is a picture."""

    def add(row: ExportedRow) -> tuple[dict[str, Any], bool]:
        gone = withdrawn.get(row.number)
        columns = row.columns if gone is None else _without(row.columns, gone)
        if gone is not None and gone.is_whole:
            return {**columns, "withdrawn": True}, False
        return columns, pictures.add(row.number, bytes(row.image))

    yield from ordered_map(add, source.images())
