"""`report.json`: what a report was made of, which distinguishes it from others."""

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from schemas.base import Record
from schemas.errors import UsageError
from schemas.release import Count, DatasetName, HexSha256, Version

REPORT = "report.json"
LAYOUT = 3
"""Grows where the same release gives another report."""


class ReportRecord(Record):
    """A report in one record.

    Attributes:
        layout: which way of making reports it was made in.
        release: the id of the release.
        previous: the id of the release that it is compared with.
        previews: whether it holds middle-sized pictures of all images.
        beside: the name of the folder that the release lies in beside the report, whose images it
            shows at full size; None where it shows none of them.
        rows: how many rows it shows.
        lineage: whether it draws where rows come from.
        withdrawn: of how many rows it shows nothing, or not all, because it was withdrawn.
    """

    schema_version: Literal[1] = 1
    layout: int = LAYOUT
    release: HexSha256
    dataset: DatasetName
    version: Version
    previous: HexSha256 | None
    previews: bool
    beside: str | None
    rows: Count
    lineage: bool
    withdrawn: Count = 0


def write_record(folder: Path, record: ReportRecord) -> None:
    """Writes `report.json` into `folder`."""
    (folder / REPORT).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")


def is_there(out: Path, wanted: ReportRecord) -> bool:
    """Whether the very report lies at `out`; False where there is nothing, or an empty folder.

    Raises:
        UsageError: something else is there.
    """
    if not (out.exists() or out.is_symlink()) or (out.is_dir() and not any(out.iterdir())):
        return False
    try:
        found = ReportRecord.model_validate_json((out / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValidationError, ValueError) as error:
        raise UsageError(
            f"{out} exists and is not a report; choose a folder that does not exist"
        ) from error
    if found == wanted:
        return True
    raise UsageError(
        f"{out} is another report: of {found.dataset} {found.version} ({found.release[:12]}), "
        f"or made in another way; remove it or choose a folder that does not exist"
    )
