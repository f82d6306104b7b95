"""What two releases differ in beside their rows: manifests and documents."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from release.card import CARD
from release.diff.reading import OpenedRelease
from release.diff.records import FieldChange
from release.documents import FIGURE
from release.leaks import LEAKS
from release.lineage import TABLES, same_rows
from release.terms import ATTRIBUTION
from schemas.base import canonical_json

_ALWAYS_DIFFERENT = ("id", "version", "entities_sha256", "files_root", "files_count")
_NAMES = (
    *(("name",), ("name", "revision"), ("name", "revision", "parameters")),
    *(("prompt_id",), ("prompt_id", "version"), ("source", "file_path"), ("split",)),
    *(("splits", "measure"), ("direction", "tester"), ("queue",), ("difference",)),
    *(("measure",), ("granularity",), ("task",), ("tier",), ("licence",), ("model",)),
)
"""What entries of lists in manifests are called by: the first that tells all of them apart."""
_TEXTS = (CARD, ATTRIBUTION)
_DOCUMENTS = (*_TEXTS, FIGURE, LEAKS)
_PAIR = 2


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


def value_changes(name: str, before: Any, after: Any) -> Iterator[FieldChange]:
    """What differs between two JSON values, down to the smallest parts that have a name.

    Entries of lists are identified by their names; where that is not possible, lists are
    compared as a whole.
    """
    if before == after:
        return
    parts = _parts(before, after)
    if parts is None:
        yield FieldChange(field=name, before=before, after=after)
        return
    old, new = parts
    for key in sorted(old.keys() | new.keys()):
        part = f"{name}.{key}" if name else key
        yield from value_changes(part, old.get(key), new.get(key))


def _parts(before: Any, after: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The named parts of two values; None where they have none, or none in common."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return dict(before), dict(after)
    if not _is_list(before) or not _is_list(after):
        return None
    if all(_is_pair(entry) for entry in (*before, *after)):
        old, new = ({entry[0]: entry[1] for entry in value} for value in (before, after))
        return (old, new) if (len(old), len(new)) == (len(before), len(after)) else None
    for names in _NAMES:
        if all(_has(entry, names) for entry in (*before, *after)):
            old, new = ({_name(entry, names): entry for entry in side} for side in (before, after))
            if (len(old), len(new)) == (len(before), len(after)):
                return old, new
    return None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_pair(entry: Any) -> bool:
    """Whether it is a name and its value."""
    return _is_list(entry) and len(entry) == _PAIR and isinstance(entry[0], str)


def _has(entry: Any, names: tuple[str, ...]) -> bool:
    return isinstance(entry, Mapping) and entry.keys() >= set(names)


def _name(entry: Mapping[str, Any], names: tuple[str, ...]) -> str:
    values = (entry[name] for name in names)
    return "/".join(one if isinstance(one, str) else canonical_json(one) for one in values)


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
