"""The published formats: `<dataset>.json`, and `ccd.jsonl` in the format of CCD's authors."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from release.manifest import MAX_CHARACTERS
from release.rows import RowForm, published_row, translated
from schemas.json_stream import JsonBreak, JsonCursor, stream_list
from schemas.licences import permits_release
from schemas.taxonomy import DifferenceType


class RowsText(NamedTuple):
    """How rows are written to a text file: each line, and the text around the lines."""

    line: Callable[[Mapping[str, Any]], bytes]
    opening: bytes
    between: bytes
    ending: bytes

    def row(self, columns: Mapping[str, Any], *, is_first: bool) -> bytes:
        """The text of a row with these columns, with the preceding separator."""
        return (self.opening if is_first else self.between) + self.line(columns)


def _published_line(columns: Mapping[str, Any]) -> bytes:
    return json.dumps(published_row(columns), ensure_ascii=False).encode()


PUBLISHED_TEXT = RowsText(_published_line, b"[\n", b",\n", b"\n]\n")
"""`<dataset>.json`."""


def read_json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a published JSON file, one at a time.

    Raises:
        ValueError: if it is not a JSON list (on the first faulty row).
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
"""Types that are spelled differently in the authors' files and in their paper."""


def _ccd_line(row: Mapping[str, Any]) -> bytes:
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
    return json.dumps(details, ensure_ascii=False).encode()


CCD_TEXT = RowsText(_ccd_line, b"", b"\n", b"\n")
"""`ccd.jsonl`, for rows with contrasts, which also have terms."""


def texts_of(dataset: str, form: RowForm) -> dict[str, RowsText]:
    """The text files of a release's rows by name, with their formats."""
    texts = {f"{dataset}.json": PUBLISHED_TEXT}
    if form.contrasts:
        texts[CCD_LINES] = CCD_TEXT
    return texts


def spelled(difference: DifferenceType) -> str:
    """The type as the authors' files spell it."""
    return _SPELLED.get(difference, difference.value)
