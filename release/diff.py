"""Compares two releases row by row, from their folders alone."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from loupe.release.format.findings import ADVICE
from loupe.release.format.parquet import bounded_batches, opened_parquet
from loupe.release.format.row_files import ListedRelease
from loupe.release.format.rows import natural_key, own_names
from loupe.release.lineage import TABLES, LineageTable
from loupe.release.withdrawn.files import WITHDRAWALS, read_mark, read_notices
from loupe.schemas.base import Count, DatasetName, HexSha256, Record, Version, digest_of
from loupe.schemas.errors import IntegrityError
from loupe.schemas.taxonomy import Tier
from loupe.schemas.withdrawal import WithdrawalNotice

RowKind = Literal["added", "removed", "withdrawn", "changed"]
"""`withdrawn`: not in the later release any more, as it states."""
WITHHELD = "(withdrawn)"
"""Replaces the words of a withdrawn text."""
_NOT_COMPARED = {"id", "file_path", "contrast"}
"""Columns that follow from other rows; of a contrast, all but the anchor's file is compared."""
_ALWAYS_DIFFERENT = {"id", "version", "entities_sha256", "files_root", "files_count", "statistics"}

_Row = Mapping[str, Any]
_Key = tuple[str, str, str]


class RowDifference(Record):
    """The difference of one image, which is identified by its source, identity and path in it.

    Attributes:
        kind: what happened to the row.
        source: the source of its image.
        source_file_path: the path of the image in its source.
        before: the path of its image in the first release; None if it was added.
        after: the path of its image in the second release; None if it is not there any more.
        columns: the columns that have another value.
        added: texts only in the second release.
        removed: texts only in the first release, without the words of withdrawn ones.
    """

    kind: RowKind
    source: str
    source_file_path: str
    before: str | None
    after: str | None
    columns: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class DifferenceCounts(Record):
    """The number of rows of each kind, and of texts (captions and translations).

    `images_replaced` counts the changed rows with another image under the same path. Its texts are
    other ones only if their words differ.
    """

    same: Count = 0
    added: Count = 0
    removed: Count = 0
    withdrawn: Count = 0
    changed: Count = 0
    images_replaced: Count = 0
    texts_added: Count = 0
    texts_removed: Count = 0
    texts_withdrawn: Count = 0


class TableDifference(Record):
    """The number of rows of a table of `lineage/` that only one of the releases has."""

    name: str
    added: Count
    removed: Count


class ComparedRelease(Record):
    """One of the two compared releases."""

    dataset: DatasetName
    version: Version
    tier: Tier | None
    id: HexSha256
    folder: str


class Difference(Record):
    """All differences of two releases.

    `manifest` names other parts of the manifest that differ, apart from versions, ids and
    statistics, which follow from the rows; `lineage` are the tables of `lineage/` that differ.
    """

    before: ComparedRelease
    after: ComparedRelease
    counts: DifferenceCounts
    manifest: tuple[str, ...] = ()
    lineage: tuple[TableDifference, ...] = ()
    rows: tuple[RowDifference, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the two are equal except for version and id."""
        is_same = self.counts == DifferenceCounts(same=self.counts.same)
        return is_same and not self.manifest and not self.lineage


class Withdrawn(NamedTuple):
    """Entity ids of withdrawn images, and of withdrawn texts of other images."""

    images: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, notices: Iterable[WithdrawalNotice]) -> "Withdrawn":
        """All items named in notices."""
        rows = list(chain.from_iterable(notice.rows for notice in notices))
        return cls(
            frozenset(row.entity_id for row in rows if row.is_whole),
            frozenset(chain.from_iterable(row.texts for row in rows)),
        )

    def takes_row(self, row: _Row) -> bool:
        """Whether a row is withdrawn with its image, or because all of its captions are."""
        captions = row["caption_entity_ids"]
        return row["image_entity_id"] in self.images or bool(
            captions and self.texts.issuperset(captions)
        )


def known_withdrawals(release: ListedRelease) -> list[WithdrawalNotice]:
    """The withdrawals that a release states, including the mark in its folder.

    Raises:
        IntegrityError: if a list of withdrawals, or a mark, cannot be read.
    """
    mark = read_mark(release.folder)
    return [*_stated_withdrawals(release), *(mark.notices if mark else ())]


def _stated_withdrawals(release: ListedRelease) -> list[WithdrawalNotice]:
    if not release.listed.is_listed(WITHDRAWALS):
        return []
    return list(read_notices(release.folder / WITHDRAWALS).notices)


def compare_releases(
    before: Path, after: Path, notices: Iterable[WithdrawalNotice] = ()
) -> Difference:
    """Find all differences between the releases in `before` and `after`.

    Consequences of other rows are not differences: row numbers and the names of files. All files
    but those in `images/` are checked first; of these, `loupe.release.verify` checks that they have
    the digests in the rows, which are compared.
    `notices` are known withdrawals besides those stated in the two folders.

    Raises:
        UsageError: if one of the folders is not a release.
        IntegrityError: if a manifest or a needed file was changed.
    """
    old, new = _read_release(before), _read_release(after)
    differing = _differing_rows(old, new)
    known = Withdrawn.of([*notices, *known_withdrawals(old), *known_withdrawals(new)])
    stated = Withdrawn.of(_stated_withdrawals(new))
    counted: Counter[str] = Counter(same=old.manifest.statistics.images)
    rows = []
    for key in sorted(differing, key=_order):
        first, second = differing[key]
        counted["same"] -= first is not None
        rows.append(_difference(first, second, stated, known, counted))
    return Difference(
        before=_compared(old),
        after=_compared(new),
        counts=DifferenceCounts(**counted),
        manifest=tuple(_differing_names(_other_values(old), _other_values(new))),
        lineage=tuple(_differing_tables(old, new)),
        rows=tuple(rows),
    )


def _read_release(folder: Path) -> ListedRelease:
    release = ListedRelease(folder)
    release.check(release.listed.listed_outside("images"))
    return release


def _differing_rows(
    old: ListedRelease, new: ListedRelease
) -> dict[_Key, tuple[_Row | None, _Row | None]]:
    """The rows that are not equal; in memory are their contents, and digests of all others."""
    digests = {_key(row): _digest(row) for row in _rows(old)}
    differing: dict[_Key, tuple[_Row | None, _Row | None]] = {}
    for row in _rows(new):
        if digests.pop(_key(row), None) != _digest(row):
            differing[_key(row)] = (None, row)
    for row in _rows(old):
        key = _key(row)
        if key in digests:
            differing[key] = (row, None)
        elif key in differing:
            differing[key] = (row, differing[key][1])
    return differing


def _rows(release: ListedRelease) -> Iterator[dict[str, Any]]:
    """The rows with a licence each: if all have that of their source, there is no column."""
    licences = {source.name: source.licence for source in release.manifest.sources}
    for row in release.rows(dict):
        row.setdefault("licence", licences.get(row["source"]))
        yield row


def _key(row: _Row) -> _Key:
    return row["source"], row["identity"], row["source_file_path"]


def _order(key: _Key) -> tuple[bytes, ...]:
    return tuple(map(natural_key, key))


def _compared_values(row: _Row) -> dict[str, Any]:
    """The columns to compare; empty ones count as missing, because not every release has them."""
    values = {name: value for name, value in row.items() if name not in _NOT_COMPARED and value}
    for name in own_names(values):
        if isinstance(values[name], list):
            values[name] = list(map(_without_id, values[name]))
    if row.get("contrast"):
        values["contrast"] = {**row["contrast"], "anchor": None}
    return values


def _without_id(record: _Row) -> dict[str, Any]:
    """A record of one's own without its id, which another version of its step changes."""
    return {name: value for name, value in record.items() if name != "entity_id"}


def _digest(row: _Row) -> str:
    return digest_of("row", repr(sorted(_compared_values(row).items())))


def _texts(row: _Row | None) -> dict[str, str]:
    """All texts of a row by entity: captions, coarse captions, translations."""
    if row is None:
        return {}
    texts = dict(zip(row["caption_entity_ids"], row["captions"], strict=True))
    if "coarse_captions" in row:
        texts |= zip(row["coarse_caption_entity_ids"], row["coarse_captions"], strict=True)
    for one in row.get("translations") or ():
        texts[one["entity_id"]] = one["text"]
    return texts


def _difference(
    before: _Row | None,
    after: _Row | None,
    stated: Withdrawn,
    known: Withdrawn,
    counted: Counter[str],
) -> RowDifference:
    """The difference of a row, which is added to the counts.

    Args:
        before: the row in the first release.
        after: the row in the second release.
        stated: what the second release states to be withdrawn.
        known: all known withdrawals, whose words are withheld.
        counted: the counts so far.
    """
    row = before or after or {}
    is_withdrawn = stated.takes_row(row)
    kind: RowKind = "changed"
    if before is None:
        kind = "added"
    elif after is None:
        kind = "withdrawn" if is_withdrawn else "removed"
    counted[kind] += 1
    old, new = _texts(before), _texts(after)
    if before and after and before["sha256"] != after["sha256"]:
        counted["images_replaced"] += 1
        kept = set(old.values()) & set(new.values())
        old = {id_: text for id_, text in old.items() if text not in kept}
        new = {id_: text for id_, text in new.items() if text not in kept}
    hidden = set(known.texts)
    if known.takes_row(row):
        hidden |= old.keys() | new.keys()
    for id_ in old.keys() - new.keys():
        was_withdrawn = is_withdrawn or id_ in stated.texts
        counted["texts_withdrawn" if was_withdrawn else "texts_removed"] += 1
    counted["texts_added"] += len(new.keys() - old.keys())
    return RowDifference(
        kind=kind,
        source=row["source"],
        source_file_path=row["source_file_path"],
        before=before and before["file_path"],
        after=after and after["file_path"],
        columns=_different_columns(before, after) if before and after else (),
        added=tuple(_shown(new, old, hidden)),
        removed=tuple(_shown(old, new, hidden)),
    )


def _shown(texts: Mapping[str, str], others: Mapping[str, str], hidden: set[str]) -> Iterator[str]:
    """The texts that are not among the others, without the words of hidden ones."""
    for id_, text in texts.items():
        if id_ not in others:
            yield WITHHELD if id_ in hidden else text


def _different_columns(before: _Row, after: _Row) -> tuple[str, ...]:
    old, new = _compared_values(before), _compared_values(after)
    return tuple(_differing_names(old, new))


def _compared(release: ListedRelease) -> ComparedRelease:
    manifest = release.manifest
    return ComparedRelease(
        dataset=manifest.dataset,
        version=manifest.version,
        tier=manifest.tier,
        id=manifest.id,
        folder=str(release.folder),
    )


def _differing_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield name


def _other_values(release: ListedRelease) -> dict[str, Any]:
    return release.manifest.model_dump(mode="json", exclude=_ALWAYS_DIFFERENT | {"lineage"})


def _differing_tables(old: ListedRelease, new: ListedRelease) -> Iterator[TableDifference]:
    for table in TABLES:
        if old.digest(table.path) == new.digest(table.path):
            continue
        before, after = _lineage_rows(old, table), _lineage_rows(new, table)
        added, removed = (after - before).total(), (before - after).total()
        if added or removed:
            yield TableDifference(name=table.name, added=added, removed=removed)


def _lineage_rows(release: ListedRelease, table: LineageTable) -> Counter[str]:
    """The digests of the rows of a table of `lineage/`."""
    path, rows = release.folder / table.path, Counter[str]()
    try:
        with opened_parquet(path) as file:
            for batch in bounded_batches(file, path, table.group_rows):
                rows.update(digest_of("row", repr(row)) for row in batch.to_pylist())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IntegrityError(f"{path} cannot be read ({error}); {ADVICE}") from error
    return rows
