"""The published format: a JSON list of images with their captions, one a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from release.files import DigestingFile
from release.manifest import MAX_CHARACTERS
from release.row_form import PLAIN, RowForm, published_row
from release.rows import ReleaseRow
from schemas.json_stream import JsonBreak, JsonCursor, stream_list
from schemas.release import ReleasedFile


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
