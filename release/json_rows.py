"""The published formats: `<dataset>.json`, and `ccd.jsonl` as the authors of CCD have it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Self

from release.files import DigestingFile
from release.manifest import MAX_CHARACTERS
from release.rows import PLAIN, ReleaseRow, RowForm, published_row, translated
from schemas.json_stream import JsonBreak, JsonCursor, stream_list
from schemas.licences import permits_release
from schemas.release import ReleasedFile
from schemas.taxonomy import DifferenceType


class JsonRows:
    """Writes the rows of a release to a JSON file as they come. To be used in a `with`."""

    def __init__(self, folder: Path, name: str, form: RowForm = PLAIN) -> None:
        self._name = name
        self._form = form
        self._file = DigestingFile(folder / name)
        self._opening = b"[\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, row: ReleaseRow) -> None:
        """Appends a row."""
        text = json.dumps(published_row(row.columns(self._form)), ensure_ascii=False)
        self._file.write(self._opening + text.encode())
        self._opening = b",\n"

    def finish(self) -> ReleasedFile:
        """Ends the list."""
        self._file.write(b"\n]\n" if self._opening == b",\n" else b"[]\n")
        self._file.close()
        return self._file.as_released(self._name)


def read_json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a published JSON file, one at a time.

    Raises:
        ValueError: it is not a JSON list (on the first faulty row).
    """
    with path.open("rb") as file:
        try:
            for element in stream_list(JsonCursor(file, MAX_CHARACTERS, strict=True)):
                if not isinstance(element.value, dict):
                    raise ValueError(f"its entries must be objects; got {element.value!r:.200}")  # noqa: TRY004 - a fault of the file
                yield element.value
        except JsonBreak as fault:
            raise ValueError(f"it is not valid JSON ({fault}, byte {fault.offset:,})") from fault


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
