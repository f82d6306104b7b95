"""`ccd.jsonl`: the rows of a contrastive benchmark as its authors publish theirs, a line each.

Fields and names are those that their evaluation reads: an anchor's `image` has no underscore in its
name, a contrastive image's is called after it (`12_13.jpg` differs from `12.jpg`) and tells its
`contrastive_aspect`, in their spelling. The images lie in `images/`. Fields of ours follow theirs.
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Self

from release.files import DigestingFile
from release.row_form import RowForm, translated
from release.rows import ReleaseRow
from schemas.licences import permits_release
from schemas.release import ReleasedFile
from schemas.taxonomy import DifferenceType

CCD_LINES = "ccd.jsonl"

_SPELLED = {
    DifferenceType.ENTITY_RELATION: "Entity Relationship",
    DifferenceType.EVENT_TYPE: "Event Category",
    DifferenceType.EVENT_ATTRIBUTE: "Event Element",
    DifferenceType.STYLE: "Style and Presentation",
}
"""The types that the authors' files call otherwise than their paper does."""
_ALL = RowForm(contrasts=True, terms=True)


class CcdLines:
    """Writes the rows of a release as they come. To be used in a `with`."""

    def __init__(self, folder: Path) -> None:
        self._file = DigestingFile(folder / CCD_LINES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, row: ReleaseRow) -> None:
        """Appends a row."""
        self._file.write(ccd_line(row.columns(_ALL)))

    def finish(self) -> ReleasedFile:
        """Ends the file."""
        self._file.close()
        return self._file.as_released(CCD_LINES)


def ccd_line(row: Mapping[str, Any]) -> bytes:
    """The line of a row that is given by its columns."""
    details: dict[str, Any] = {
        "image": PurePosixPath(row["file_path"]).name,
        "captions": row["captions"],
    }
    if contrast := row["contrast"]:
        details["ori_image"] = PurePosixPath(contrast["anchor"]).name
        details["contrastive_aspect"] = spelled(DifferenceType(contrast["difference"]))
        details["contrastive_detail"] = contrast["detail"]
        details["contrastive_strategy"] = contrast["plan"]
        details["way"] = contrast["way"]
    if row["coarse_captions"]:
        details["coarse_captions"] = row["coarse_captions"]
    details |= {f"captions_{language}": texts for language, texts in translated(row).items()}
    if row["creator"] or row["source_url"] or permits_release(row["licence"]):
        details |= {name: row[name] for name in ("licence", "creator", "source_url") if row[name]}
    return (json.dumps(details, ensure_ascii=False) + "\n").encode()


def spelled(difference: DifferenceType) -> str:
    """The type as the authors' files spell it."""
    return _SPELLED.get(difference, difference.value)
