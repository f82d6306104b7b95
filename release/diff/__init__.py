"""Compares two releases row by row, from their folders alone."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import get_args

from release.diff.metadata import metadata_changes
from release.diff.reading import OpenedRelease, known_withdrawn, open_release, stated_withdrawals
from release.diff.records import (
    ComparedRelease,
    Difference,
    RowCounts,
    RowDifference,
    RowKind,
    TextKind,
)
from release.diff.rows import RowPairs, row_differences
from schemas.withdrawal import WithdrawalNotice

_EXAMPLES = 5
"""How many rows of each kind are shown where nobody says how many."""

_KINDS: tuple[RowKind, ...] = get_args(RowKind)


def compare_releases(
    before: Path,
    after: Path,
    *,
    examples: int = _EXAMPLES,
    on_row: Callable[[RowDifference], None] = lambda _: None,
    scratch: Path | None = None,
    notices: Iterable[WithdrawalNotice] = (),
) -> Difference:
    """All that the release in `after` differs in from the one in `before`.

    A row is known by its source and the path of its image in it. What is only a consequence of
    other rows is no difference: its number, and the names of its files. Of images, the
    digests in the rows are compared; `release.verify` checks that files have them.
    Rows and texts that were withdrawn are named without their words.

    Args:
        before: the folder of a release.
        after: that of another one.
        examples: how many rows of each kind are kept.
        on_row: called with each row that differs, ordered by source and path.
        scratch: a new file to sort the rows in; None for a temporary one.
        notices: what is known to be withdrawn beside what the two folders tell.

    Raises:
        UsageError: there is no release in one of the folders.
        IntegrityError: a manifest, or a file that is needed, is not as it was released.
    """
    old, new = open_release(before), open_release(after)
    known, counter = known_withdrawn((old, new), notices), _Counter(examples)
    with RowPairs(scratch) as pairs:
        total = pairs.add(old.rows(), later=False)
        pairs.add(new.rows(), later=True)
        for found in row_differences(pairs, stated_withdrawals(new)):
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
        """The difference of releases, the first of which has `total` rows."""
        counts = {kind: self._rows[kind] for kind in _KINDS}
        same = total - sum(count for kind, count in counts.items() if kind != "added")
        return Difference(
            before=_compared(before),
            after=_compared(after),
            rows=RowCounts(same=same, **counts),
            fields=dict(sorted(self._fields.items())),
            texts=tuple((*key, count) for key, count in sorted(self._texts.items())),
            splits=tuple((*key, count) for key, count in sorted(self._splits.items())),
            metadata=tuple(metadata_changes(before, after)),
            examples=tuple(self._shown()),
        )

    def _shown(self) -> Iterator[RowDifference]:
        for kind in _KINDS:
            yield from self._kept[kind]


def _compared(release: OpenedRelease) -> ComparedRelease:
    manifest = release.manifest
    return ComparedRelease(
        dataset=manifest.dataset,
        version=manifest.version,
        tier=manifest.tier,
        id=manifest.id,
        folder=str(release.folder),
    )
