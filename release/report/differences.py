"""The differences from the previous release as the report shows them: counts and examples."""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple, get_args

from release.changes import Difference, FieldChange, RowDifference, RowKind, TextChange
from release.diff import compare_releases
from release.notices_files import read_mark
from release.report.charts import THUMBNAIL_PX, THUMBNAILS, picture_path, smaller
from release.rows import number_in

_PREVIOUS = "previous"
"""The folder of pictures of rows in the previous release."""
_EXAMPLES = 12

_SHOWN_CHARACTERS = 600
_SHOWN_METADATA = 200
_OF_ROWS = ("statistics.", "lineage.", "entities_sha256")
_NOT_OF_ROWS = tuple(
    f"statistics.{one}"
    for one in ("audits", "choices", "agreement", "unused", "gates", "contrasts.nearest")
)
_TITLES = {
    "added": "Added",
    "removed": "Removed",
    "changed": "Changed",
    "moved": "Moved to another split",
    "restated": "Restated: the same image and words, with another source",
}


class Span(NamedTuple):
    """Words of a text: `kept`, `gone` or `new`."""

    kind: str
    text: str


class Change(NamedTuple):
    """A value or text that changed: its name, the kind of change, and its words."""

    name: str
    kind: str
    spans: tuple[Span, ...]


def shown_difference(previous: Path, folder: Path, report: Path) -> dict[str, Any]:
    """Compare the release in `folder` with the one in `previous`, for `difference.html.j2`.

    Pictures of rows in the previous release are written below `report`. Rows are not shown if
    anything was withdrawn from one of the releases.

    Raises:
        UsageError: if one of the folders is not a release.
        IntegrityError: if one of them is damaged or was changed.
    """
    marked = read_mark(previous) or read_mark(folder)
    found = compare_releases(previous, folder, examples=0 if marked else _EXAMPLES)
    telling = [one for one in found.metadata if not _follows_from_rows(one.field)]
    changes = [_value_change(one) for one in telling[:_SHOWN_METADATA]]
    return {
        "before": f"{found.before.dataset} {found.before.version}",
        "after": f"{found.after.dataset} {found.after.version}",
        "before_id": found.before.id,
        "is_empty": found.is_empty,
        "counts": _counts(found),
        "details": list(_details(found)),
        "groups": list(example_groups(found, previous, report)),
        "metadata": changes,
        "more_metadata": len(telling) - len(changes),
        "counts_of_rows": len(found.metadata) - len(telling),
    }


def _follows_from_rows(field: str) -> bool:
    """Whether a value of the manifest counts or names rows, which are shown separately."""
    return field.startswith(_OF_ROWS) and not field.startswith(_NOT_OF_ROWS)


def _counts(found: Difference) -> list[tuple[str, int]]:
    """The number of rows of each kind, with equal rows last."""
    counts = found.rows.model_dump()
    counts["same"] = counts.pop("same")
    return [(kind, count) for kind, count in counts.items() if count]


def _details(found: Difference) -> Iterator[tuple[str, str, list[tuple[str, int]]]]:
    """Title, unit and numbers of what differs in rows."""
    yield "Fields with another value", "rows", list(found.fields.items())
    texts = [(f"{field} {kind}".replace("_", " "), count) for field, kind, count in found.texts]
    yield "Texts", "texts", texts
    splits = [(f"from {old} to {new}", count) for old, new, count in found.splits]
    yield "Moves between splits", "rows", splits


def example_groups(found: Difference, previous: Path, report: Path) -> Iterator[dict[str, Any]]:
    """Examples of a difference by kind, with their total number.

    Pictures of previous rows are written below `report`.
    """
    kinds: tuple[RowKind, ...] = get_args(RowKind)
    for kind in kinds:
        if kind not in _TITLES:  # withdrawn rows are counted, but not shown again
            continue
        examples = [one for one in found.examples if one.kind == kind]
        if examples:
            yield {
                "kind": kind,
                "title": _TITLES[kind],
                "total": getattr(found.rows, kind),
                "examples": [_example(one, previous, report) for one in examples],
            }


def _example(row: RowDifference, previous: Path, report: Path) -> dict[str, Any]:
    """A row that differs; a thumbnail is None if its picture is not available."""
    changes = [_value_change(one) for one in row.fields]
    changes += [_text_change(one) for one in row.texts]
    if row.row is not None:
        kind = "new" if row.kind == "added" else "gone"
        captions = row.row["texts"].get("captions", [])
        changes = [Change("caption", row.kind, (_whole(kind, one["text"]),)) for one in captions]
    shown: dict[str, Any] = {"before": None, "after": None, "changes": changes}
    for side, place in (("before", row.before), ("after", row.after)):
        if place is not None:
            number = number_in(place.file_path)
            picture: str | None = None
            if number is not None and side == "before":
                picture = _earlier_picture(previous, place.file_path, number, report)
                number = None  # the gallery shows only the later release
            elif number is not None:
                picture = picture_path(THUMBNAILS, number)
            shown[side] = {
                "name": place.file_path,
                "split": place.split,
                "number": number,
                "thumbnail": picture,
            }
    return {"title": f"{row.source}: {row.source_file_path}", **shown}


def _earlier_picture(previous: Path, file_path: str, number: int, report: Path) -> str | None:
    """Write the picture of a row of the previous release; None if that is not possible."""
    image = (previous / file_path).resolve()
    try:
        is_inside = image.is_relative_to(previous.resolve())
        small = smaller(image.read_bytes(), THUMBNAIL_PX) if is_inside else None
    except OSError:
        return None
    if small is None:
        return None
    name = f"{_PREVIOUS}/{number}.jpg"
    (report / _PREVIOUS).mkdir(exist_ok=True)
    (report / name).write_bytes(small)
    return name


def _value_change(change: FieldChange) -> Change:
    spans = []
    if change.before is not None:
        spans.append(_whole("gone", _written(change.before)))
    if change.after is not None:
        spans.append(_whole("new", _written(change.after)))
    return Change(change.field, "changed", tuple(spans))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text_change(change: TextChange) -> Change:
    if change.kind == "withdrawn":
        return Change(change.field.removesuffix("s"), change.kind, ())
    before = str(change.before.values["text"]) if change.before else ""
    after = str(change.after.values["text"]) if change.after else ""
    name = change.field.removesuffix("s").replace("_", " ")
    if change.kind == "edited":
        return Change(name, change.kind, tuple(word_spans(before, after)))
    kind = {"added": "new", "removed": "gone"}.get(change.kind, "kept")
    return Change(name, change.kind, (_whole(kind, after or before),))


def _whole(kind: str, text: str) -> Span:
    """A text as a single span, truncated if it is too long."""
    is_short = len(text) <= _SHOWN_CHARACTERS
    return Span(kind, text if is_short else f"{text[:_SHOWN_CHARACTERS]}…")


def word_spans(before: str, after: str) -> Iterator[Span]:
    """Compare two texts word by word: kept, removed and added words in reading order.

    Texts that are too long to compare are shown as removed and added.
    """
    if max(len(before), len(after)) > 10 * _SHOWN_CHARACTERS:
        yield _whole("gone", before)
        yield _whole("new", after)
        return
    old, new = before.split(), after.split()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            yield Span("kept", " ".join(old[first:last]))
            continue
        if last > first:
            yield Span("gone", " ".join(old[first:last]))
        if end > start:
            yield Span("new", " ".join(new[start:end]))
