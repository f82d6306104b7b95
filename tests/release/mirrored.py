"""Swap the sides of differences between releases."""

from typing import Any, TypeVar

from loupe.release.changes import FieldChange, RowDifference, TextChange

_KINDS: dict[str, Any] = {"added": "removed", "removed": "added", "withdrawn": "added"}
D = TypeVar("D", FieldChange, TextChange, RowDifference)


def mirrored(one: D) -> D:
    """The same difference with its sides swapped."""
    update: dict[str, Any] = {"before": one.after, "after": one.before}
    if not isinstance(one, FieldChange):
        update["kind"] = _KINDS.get(one.kind, one.kind)
    if isinstance(one, RowDifference):
        update["fields"] = tuple(map(mirrored, one.fields))
        update["texts"] = tuple(map(mirrored, one.texts))
    return one.model_copy(update=update)
