"""What two releases differ in beside their rows: manifests and documents."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from release.card import CARD
from release.changes import FieldChange, value_changes
from release.diff.reading import OpenedRelease
from release.documents import FIGURE
from release.leaks import LEAKS
from release.lineage import TABLES, same_rows
from release.terms import ATTRIBUTION

_ALWAYS_DIFFERENT = ("id", "version", "entities_sha256", "files_root", "files_count")
_TEXTS = (CARD, ATTRIBUTION)
_DOCUMENTS = (*_TEXTS, FIGURE, LEAKS)


def metadata_changes(before: OpenedRelease, after: OpenedRelease) -> Iterator[FieldChange]:
    """The differences of manifests, columns and documents, value by value.

    Documents are compared by their digests; where they call the release by its version, as if both
    had the same. Tables of lineage are compared row by row.
    """
    yield from value_changes("", _manifest_values(before), _manifest_values(after))
    yield from value_changes("columns", list(before.columns), list(after.columns))
    old, new = _documents(before), _documents(after)
    for path in _DOCUMENTS:
        if old.get(path) != new.get(path):
            yield _file_change(path, before, after)
    for table in TABLES:
        if not _same_table(table.path, before, after):
            yield _file_change(table.path, before, after)


def _file_change(path: str, before: OpenedRelease, after: OpenedRelease) -> FieldChange:
    return FieldChange(field=f"files.{path}", before=before.digest(path), after=after.digest(path))


def _same_table(path: str, before: OpenedRelease, after: OpenedRelease) -> bool:
    """Whether a table of lineage tells the same, whatever version of pyarrow wrote it."""
    old, new = before.digest(path), after.digest(path)
    if old == new or old is None or new is None:
        return old == new
    try:
        return same_rows(before.folder / path, after.folder / path)
    except (ValueError, OSError):
        return False


def _manifest_values(release: OpenedRelease) -> dict[str, Any]:
    values = release.manifest.model_dump(mode="json")
    return {name: value for name, value in values.items() if name not in _ALWAYS_DIFFERENT}


def _documents(release: OpenedRelease) -> dict[str, str]:
    """What documents say, texts as if the release had no version."""
    said = {path: digest for path in _DOCUMENTS if (digest := release.digest(path))}
    version = re.compile(rf"(?<![0-9.]){re.escape(release.manifest.version)}(?!\.?[0-9])")
    for path in _TEXTS:
        if path in said:
            said[path] = version.sub("VERSION", _text(release.folder / path))
    return said


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
