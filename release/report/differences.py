"""The differences from the previous release as the report shows them: counts and examples."""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from loupe.release.changes import Difference
from loupe.release.diff import compare_releases
from loupe.release.files import is_plain
from loupe.release.report.charts import THUMBNAIL_PX, smaller
from loupe.release.rows import number_in
from loupe.schemas.decoders import decode_limited
from loupe.schemas.limited import LimitExceededError

_PREVIOUS = "previous"
"""The folder of pictures of rows in the previous release."""
_EXAMPLES = 12

_SHOWN_CHARACTERS = 600
_SHOWN_METADATA = 200
_OF_ROWS = ("statistics.", "lineage.", "entities_sha256")
_NOT_OF_ROWS = tuple(
    f"statistics.{one}"
    for one in (
        "audits",
        "choices",
        "agreement",
        "unused",
        "gates",
        "originals",
        "contrasts.nearest",
    )
)
_TITLES = {
    "added": "Added",
    "removed": "Removed",
    "changed": "Changed",
    "moved": "Moved to another split",
    "restated": "Restated: the same image and words, with another source",
}
"""The kinds of rows that are shown; withdrawn rows are counted, but not shown again."""


def shown_difference(
    previous: Path, folder: Path, report: Path, *, examples: bool = True
) -> dict[str, Any]:
    """Compare the release in `folder` with the one in `previous`, for `difference.html.j2`.

    With `examples`, rows are shown; pictures of rows in the previous release are written below
    `report`.

    Raises:
        UsageError: if one of the folders is not a release.
        IntegrityError: if one of them is damaged or was changed.
    """
    found = compare_releases(previous, folder, examples=_EXAMPLES if examples else 0)
    telling = [one for one in found.metadata if not _follows_from_rows(one.field)]
    return {
        "found": found,
        "titles": _TITLES,
        "counts": _counts(found),
        "details": list(_details(found)),
        "pictures": _earlier_pictures(found, previous, report),
        "metadata": telling[:_SHOWN_METADATA],
        "more_metadata": max(0, len(telling) - _SHOWN_METADATA),
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


def _earlier_pictures(found: Difference, previous: Path, report: Path) -> dict[str, str]:
    """Write pictures of rows of the previous release, as far as possible; returns their paths.

    Those of rows in this release are in the gallery.
    """
    pictures: dict[str, str] = {}
    for row in found.examples:
        number = number_in(row.before.file_path) if row.before is not None else None
        if row.before is None or number is None or row.kind not in _TITLES:
            continue
        image = (previous / row.before.file_path).resolve()
        try:
            is_inside = image.is_relative_to(previous.resolve()) and is_plain(image)
            small = decode_limited(smaller, image.read_bytes(), THUMBNAIL_PX) if is_inside else None
        except (OSError, LimitExceededError):
            continue
        if small is not None:
            pictures[row.before.file_path] = name = f"{_PREVIOUS}/{number}.jpg"
            (report / _PREVIOUS).mkdir(exist_ok=True)
            (report / name).write_bytes(small)
    return pictures


def shown_value(value: Any) -> str:
    """A text, or another value as JSON, truncated if it is too long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def word_spans(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Compare two texts word by word: `kept`, `gone` and `new` words in reading order.

    Texts that are too long to compare are shown as removed and added.
    """
    if max(len(before), len(after)) > 10 * _SHOWN_CHARACTERS:
        yield "gone", shown_value(before)
        yield "new", shown_value(after)
        return
    old, new = before.split(), after.split()
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            yield "kept", " ".join(old[first:last])
            continue
        if last > first:
            yield "gone", " ".join(old[first:last])
        if end > start:
            yield "new", " ".join(new[start:end])
