"""Compares two releases row by row, from their folders alone."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from release.card import CARD
from release.changes import FieldChange, value_changes
from release.diff.reading import (
    OpenedRelease,
    Withdrawn,
    known_withdrawals,
    open_release,
    stated_withdrawals,
)
from release.diff.records import (
    ComparedRelease,
    Difference,
    RowCounts,
    RowDifference,
    RowKind,
    TextKind,
)
from release.diff.rows import RowPairs, row_differences
from release.documents import FIGURE
from release.leaks import LEAKS
from release.lineage import TABLES, same_rows
from release.terms import ATTRIBUTION
from schemas.withdrawal import WithdrawalNotice

_EXAMPLES = 5
"""The default number of rows of each kind that are shown."""

_KINDS: tuple[RowKind, ...] = get_args(RowKind)
_ALWAYS_DIFFERENT = {"id", "version", "entities_sha256", "files_root", "files_count"}
_TEXTS = (CARD, ATTRIBUTION)
_DOCUMENTS = (*_TEXTS, FIGURE, LEAKS)


def compare_releases(
    before: Path,
    after: Path,
    *,
    examples: int = _EXAMPLES,
    on_row: Callable[[RowDifference], None] = lambda _: None,
    notices: Iterable[WithdrawalNotice] = (),
) -> Difference:
    """Find all differences between the releases in `before` and `after`.

    A row is identified by its source and the path of its image in it. Consequences of other rows
    are not differences: row numbers and the names of files. The digests of images in the rows are
    compared; `release.verify` checks that the files have them. Withdrawn rows and texts are listed
    without their words.

    Args:
        before: the folder of a release.
        after: the folder of another release.
        examples: the number of rows of each kind to keep.
        on_row: called with each row that differs, ordered by source and path.
        notices: known withdrawals besides those stated in the two folders.

    Raises:
        UsageError: if one of the folders is not a release.
        IntegrityError: if a manifest or a needed file was changed.
    """
    old, new = open_release(before), open_release(after)
    known = Withdrawn.of([*notices, *known_withdrawals(old), *known_withdrawals(new)])
    counter = _Counter(examples)
    with RowPairs() as pairs:
        total = pairs.add(old.rows(), later=False)
        pairs.add(new.rows(), later=True)
        for found in row_differences(pairs, Withdrawn.of(stated_withdrawals(new))):
            shown = known.withheld(found)
            counter.add(found, shown)
            on_row(shown)
    return counter.result(old, new, total)


class _Counter:
    """Counts the differences of rows, and keeps the first of each kind."""

    def __init__(self, examples: int) -> None:
        self._examples = examples
        self._rows = Counter[RowKind]()
        self._fields = Counter[str]()
        self._texts = Counter[tuple[str, TextKind]]()
        self._splits = Counter[tuple[str, str]]()
        self._kept: dict[RowKind, list[RowDifference]] = {kind: [] for kind in _KINDS}

    def add(self, difference: RowDifference, shown: RowDifference) -> None:
        kind, before, after = difference.kind, difference.before, difference.after
        self._rows[kind] += 1
        self._fields.update(one.field for one in difference.fields)
        self._texts.update((one.field, one.kind) for one in difference.texts)
        if kind == "moved" and before is not None and after is not None:
            self._splits[before.split, after.split] += 1
        if len(self._kept[kind]) < self._examples:
            self._kept[kind].append(shown)

    def result(self, before: OpenedRelease, after: OpenedRelease, total: int) -> Difference:
        """The difference of the releases, the first of which has `total` rows."""
        counts = {kind: self._rows[kind] for kind in _KINDS}
        same = total - sum(count for kind, count in counts.items() if kind != "added")
        return Difference(
            before=_compared(before),
            after=_compared(after),
            rows=RowCounts(same=same, **counts),
            fields=dict(sorted(self._fields.items())),
            texts=tuple((*key, count) for key, count in sorted(self._texts.items())),
            splits=tuple((*key, count) for key, count in sorted(self._splits.items())),
            metadata=tuple(_metadata_changes(before, after)),
            examples=tuple(one for kind in _KINDS for one in self._kept[kind]),
        )


def _compared(release: OpenedRelease) -> ComparedRelease:
    manifest = release.manifest
    return ComparedRelease(
        dataset=manifest.dataset,
        version=manifest.version,
        tier=manifest.tier,
        id=manifest.id,
        folder=str(release.folder),
    )


def _metadata_changes(before: OpenedRelease, after: OpenedRelease) -> Iterator[FieldChange]:
    """The differences of manifests, columns and documents, value by value.

    Documents are compared by their digests, after replacing the version of the release. Tables of
    lineage are compared row by row.
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
    """Whether two tables of lineage are equal, regardless of the version of pyarrow."""
    old, new = before.digest(path), after.digest(path)
    if old == new or old is None or new is None:
        return old == new
    try:
        return same_rows(before.folder / path, after.folder / path)
    except (ValueError, OSError):
        return False


def _manifest_values(release: OpenedRelease) -> dict[str, Any]:
    return release.manifest.model_dump(mode="json", exclude=_ALWAYS_DIFFERENT)


def _documents(release: OpenedRelease) -> dict[str, str]:
    """Documents, with the version of the release replaced in texts."""
    said = {path: digest for path in _DOCUMENTS if (digest := release.digest(path))}
    version = re.compile(rf"(?<![0-9.]){re.escape(release.manifest.version)}(?!\.?[0-9])")
    for path in said.keys() & set(_TEXTS):
        text = (release.folder / path).read_text(encoding="utf-8", errors="replace")
        said[path] = version.sub("VERSION", text)
    return said
