"""What the rows of two releases differ in, image by image."""

from collections.abc import Iterator, Mapping
from typing import Any

from release.diff.form import TOLD_FIELDS
from release.diff.pairs import FoundRow, Pair, RowPairs
from release.diff.records import FieldChange, RowDifference, RowKind, TextChange
from release.diff.texts import says_the_same, text_changes
from release.diff.withdrawn import NOTHING_WITHDRAWN, Withdrawn


def row_differences(
    pairs: RowPairs, withdrawn: Withdrawn = NOTHING_WITHDRAWN
) -> Iterator[RowDifference]:
    """The differences of all rows that are not the same, by source and path in it.

    `withdrawn` is what the later release states as withdrawn.

    Looked at from the other side, the same differences come in the same order.
    """
    for pair in pairs.pairs():
        if (difference := _difference(pair, withdrawn)) is not None:
            yield difference


def _difference(pair: Pair, withdrawn: Withdrawn) -> RowDifference | None:
    before, after = pair
    if before is None or after is None:
        return _one_sided(pair, withdrawn)
    if before.is_like(after):
        return None
    old, new = before.values(), after.values()
    fields = tuple(_field_changes(old["fields"], new["fields"]))
    texts = tuple(_text_changes(old["texts"], new["texts"], withdrawn))
    return RowDifference(
        kind=_kind(fields, texts),
        source=before.source,
        source_file_path=before.source_file_path,
        before=before.place,
        after=after.place,
        fields=fields,
        texts=texts,
    )


def _one_sided(pair: Pair, withdrawn: Withdrawn) -> RowDifference | None:
    before, after = pair
    row: FoundRow | None = after or before
    if row is None:
        return None
    values = row.values()
    gone: RowKind = "withdrawn" if withdrawn.takes_row(row.place, values["texts"]) else "removed"
    return RowDifference(
        kind=gone if after is None else "added",
        source=row.source,
        source_file_path=row.source_file_path,
        before=before and before.place,
        after=after and after.place,
        row=values,
    )


def _field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    for field in sorted(before.keys() | after.keys()):
        old, new = before.get(field), after.get(field)
        if old != new:
            yield FieldChange(field=field, before=old, after=new)


def _text_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], withdrawn: Withdrawn
) -> Iterator[TextChange]:
    for field in sorted(before.keys() | after.keys()):
        for change in text_changes(field, before.get(field, []), after.get(field, [])):
            yield withdrawn.details(change)


def _kind(fields: tuple[FieldChange, ...], texts: tuple[TextChange, ...]) -> RowKind:
    names = {one.field for one in fields}
    if "split" in names:
        return "moved"
    gone = [one for one in texts if one.kind == "withdrawn"]
    others = (one for one in texts if one.kind != "withdrawn")
    if not names <= TOLD_FIELDS or not all(map(says_the_same, others)):
        return "changed"
    return "withdrawn" if gone else "restated"
