"""Differences between two JSON values, such as manifests, part by part."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.base import Record, canonical_json

_NAMES = (
    *(("name",), ("name", "revision"), ("name", "revision", "parameters")),
    *(("prompt_id",), ("prompt_id", "version"), ("source", "file_path"), ("split",)),
    *(("splits", "measure"), ("direction", "tester"), ("queue",), ("difference",)),
    *(("measure",), ("granularity",), ("task",), ("tier",), ("licence",), ("model",)),
)
"""Keys that identify entries of lists in manifests: the first that is unique is used."""
_PAIR = 2


class FieldChange(Record):
    """A value of a row or of the manifest on both sides; None if a side has none.

    `field` is its name, with parts after a dot (`crop.frame`, `sources.coco.licence`).
    """

    field: str
    before: Any
    after: Any


def value_changes(name: str, before: Any, after: Any) -> Iterator[FieldChange]:
    """The differences of two JSON values, down to the smallest named parts.

    Entries of lists are identified by their names; if that is not possible, lists are compared as a
    whole.
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
    """The named parts of two values; None if they have none, or none in common."""
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
    """Whether a value is a pair of a name and its value."""
    return _is_list(entry) and len(entry) == _PAIR and isinstance(entry[0], str)


def _has(entry: Any, names: tuple[str, ...]) -> bool:
    return isinstance(entry, Mapping) and entry.keys() >= set(names)


def _name(entry: Mapping[str, Any], names: tuple[str, ...]) -> str:
    values = (entry[name] for name in names)
    return "/".join(one if isinstance(one, str) else canonical_json(one) for one in values)
