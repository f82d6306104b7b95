"""Exports of Label Studio: tasks with the answers of annotators, as JSON or JSON-MIN."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from loupe.schemas.json_stream import stream_list
from loupe.sources.annotations import FieldError, bad_row, checked_object
from loupe.sources.columns import Found, RecordImporter, folded
from loupe.sources.records import BadRow, ReadOptions

_UPLOADED: Final = re.compile(r"[0-9a-f]{8}-(?P<name>.+)")
"""Label Studio puts eight hexadecimal digits before the name of a file that was uploaded."""
_OF_TASKS: Final = frozenset({"data", "annotations", "completions"})
_OF_MIN: Final = frozenset({"annotation_id", "annotator", "lead_time"})


class LabelStudioImporter(RecordImporter):
    """Reads an export: the data of each task, and the answers by the names of their controls.

    Texts (`TextArea`) are lists, choices, ratings and numbers their values. Answers that were
    cancelled are left out. Images are looked for by the path in their address, and by their name,
    also as it was before it was uploaded.
    """

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the tasks.

        Raises:
            FormatError: it is no list of tasks.
        """
        sections = {"": _OF_TASKS | _OF_MIN}
        for element in self.elements(path, stream_list, sections, options):
            if isinstance(element, BadRow):
                yield element
                continue
            try:
                fields = folded(_fields(checked_object(element.value)))
            except FieldError as fault:
                yield bad_row(fault, path.name, element.index, element.value)
                continue
            places: list[str] = []
            for name, value in fields.items():
                if isinstance(value, str) and (found := _places(value)):
                    fields[name], *places = found
                    break
            yield Found(path.name, element.index, fields, other_paths=tuple(places))


def _fields(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a task, and its answers by control."""
    if not isinstance(task.get("data"), Mapping):
        return dict(task)
    fields = dict(task["data"])
    for annotation in task.get("annotations") or task.get("completions") or ():
        if not isinstance(annotation, Mapping) or annotation.get("was_cancelled"):
            continue
        for result in annotation.get("result") or ():
            _add(fields, result)
    return fields


def _add(fields: dict[str, Any], result: Any) -> None:
    if not isinstance(result, Mapping) or not isinstance(result.get("value"), Mapping):
        return
    name, kind = str(result.get("from_name")), str(result.get("type"))
    values = result["value"].get("text" if kind == "textarea" else kind)
    if values is None:
        return
    listed = values if isinstance(values, list) else [values]
    before = fields.get(name)
    if kind == "textarea" or isinstance(before, list):
        fields[name] = [*(before if isinstance(before, list) else ()), *listed]
    else:
        fields[name] = listed[0] if len(listed) == 1 else listed


_IMAGE: Final = re.compile(r"\.(jpe?g|png|webp|bmp)$", re.IGNORECASE)


def _places(value: str) -> list[str]:
    """Return where the image at an address may be: as a path, and by its names; none if it is none.

    Addresses are `/data/upload/1/1a2b3c4d-dock.jpg`, `/data/local-files/?d=photos/dock.jpg`,
    `s3://bucket/photos/dock.jpg`, `https://…/dock.jpg`, or a path.
    """
    try:
        parts = urlsplit(value)
    except ValueError:
        return []
    of_files = parse_qs(parts.query).get("d")
    path = of_files[0] if of_files else unquote(parts.path)
    if not _IMAGE.search(path):
        return []
    path = path.lstrip("/")
    name = PurePosixPath(path).name
    places = [path, path.removeprefix("data/upload/"), name]
    if uploaded := _UPLOADED.fullmatch(name):
        places.append(uploaded["name"])
    return list(dict.fromkeys(places))
