"""Compares two releases row by row, from their folders alone."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from rapidfuzz.distance import Indel

from loupe.release.changes import (
    ComparedRelease,
    Difference,
    FieldChange,
    PlacedText,
    RowCounts,
    RowDifference,
    RowKind,
    RowPlace,
    TextChange,
    TextKind,
    value_changes,
)
from loupe.release.lineage import TABLES
from loupe.release.notices_files import WITHDRAWALS, read_mark, read_notices
from loupe.release.row_files import ListedRelease
from loupe.release.rows import CAPTION_COLUMNS, COARSE_COLUMNS, COLUMNS, captions_in, natural_key
from loupe.schemas.base import canonical_json
from loupe.schemas.withdrawal import WithdrawalNotice

Texts = list[dict[str, Any]]

_PLACES = {"image", "id", "source", "file_path", "source_file_path", "contrast.anchor"}
"""Columns that identify the image of a row or its position, and are not compared."""
_FIELDS = [
    (column.name, part)
    for column in COLUMNS
    if not column.is_list and column.name not in _PLACES
    for part in [one.name for one in column.parts] or [""]
    if f"{column.name}.{part}" not in _PLACES
]
"""The compared columns; nested columns by part."""
ANCHOR = "contrast.anchor"
"""The anchor, named by its path in its source, because the names of files may change."""
_TOLD_FIELDS = frozenset(
    (
        *("image_entity_id", "creator", "source_url", "contrast.anchor_entity_id"),
        *("crop.score", "crop.video_entity_id", "crop.tracklet_entity_id"),
    )
)
"""Fields that state the origin of a row instead of its content."""
_SAID_VALUES = ("language", "of", "text")
"""The content of a text; its other values state its origin."""


class ComparableRow(NamedTuple):
    """A row of a release, identified by the path of its image in its source.

    `content` is the JSON of all compared values: `fields` by name, and the lists of `texts`
    (captions, coarse captions, translations; empty lists are left out). For contrastive benchmarks,
    `anchor_id` is the entity of its anchor, and `anchor` its source and path if they are known.
    """

    source: str
    source_file_path: str
    place: RowPlace
    content: str
    anchor_id: str | None
    anchor: str | None = None

    def values(self) -> dict[str, dict[str, Any]]:
        """All compared values: `fields` by name, and the lists of `texts`."""
        values: dict[str, dict[str, Any]] = json.loads(self.content)
        if self.anchor is not None:
            values["fields"][ANCHOR] = self.anchor
        return values

    def identity(self) -> str:
        """The identity that it shows."""
        return str(self.values()["fields"]["identity"])


def comparable_row(row: Mapping[str, Any], licences: Mapping[str, str]) -> ComparableRow:
    """A row, given by its columns, in comparable form.

    `licences` are those of sources: a release in which no image has its own terms has no column for
    them.

    Raises:
        ValueError: if the row is not complete.
    """
    fields: dict[str, Any] = {}
    for name, part in _FIELDS:
        value = row.get(name)
        if part:
            fields[f"{name}.{part}"] = value and value[part]
        else:
            fields[name] = value
    if "licence" not in row:
        fields["licence"] = licences.get(row["source"])
    contrast = row.get("contrast")
    texts = {
        "captions": _texts(row, CAPTION_COLUMNS),
        "coarse_captions": _texts(row, COARSE_COLUMNS) if "coarse_captions" in row else [],
        "translations": [_translation(row, one) for one in row.get("translations") or ()],
    }
    return ComparableRow(
        source=row["source"],
        source_file_path=row["source_file_path"],
        place=RowPlace(
            id=row["id"],
            file_path=row["file_path"],
            split=row["split"],
            entity_id=row["image_entity_id"],
        ),
        content=canonical_json(
            {
                "fields": {name: value for name, value in fields.items() if value is not None},
                "texts": {name: listed for name, listed in texts.items() if listed},
            }
        ),
        anchor_id=contrast and contrast["anchor_entity_id"],
    )


def _texts(row: Mapping[str, Any], columns: Mapping[str, str]) -> Texts:
    return [dict(zip(columns, one, strict=True)) for one in captions_in(row, columns)]


def _translation(row: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    """A translation, with the translated caption instead of its index."""
    values = {name: value for name, value in one.items() if name != "caption"}
    if not 0 <= one["caption"] < len(row["captions"]):
        raise ValueError(f"{row['file_path']} has a translation of a caption that does not exist")
    return {**values, "of": row["captions"][one["caption"]]}


def _read_release(folder: Path) -> ListedRelease:
    """The release in `folder`.

    Its manifest is checked against its id, and its files except images against the listed sizes;
    digests are checked by `loupe.release.verify`.

    Raises:
        UsageError: if `folder` is not a release.
        IntegrityError: if the manifest or a needed file was changed.
    """
    release = ListedRelease(folder)
    release.check(release.listed.listed_outside("images"), digests=False)
    return release


def _comparable_rows(release: ListedRelease) -> Iterator[ComparableRow]:
    licences = {source.name: source.licence for source in release.manifest.sources}
    return release.rows(lambda row: comparable_row(row, licences))


WITHHELD = "(withdrawn)"
"""Replaces the words of a withdrawn text."""


class Withdrawn(NamedTuple):
    """Entity ids of withdrawn images, and of withdrawn texts of other images."""

    images: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, notices: Iterable[WithdrawalNotice]) -> "Withdrawn":
        """All items named in notices."""
        rows = [row for notice in notices for row in notice.rows]
        return cls(
            frozenset(row.entity_id for row in rows if row.is_whole),
            frozenset(text for row in rows for text in row.texts),
        )

    def takes_row(self, place: RowPlace, texts: Mapping[str, Iterable[Mapping[str, Any]]]) -> bool:
        """Whether a row is withdrawn with its image, or because all of its captions are."""
        captions = [one["entity_id"] for one in texts.get("captions", ())]
        return place.entity_id in self.images or bool(captions and self.texts.issuperset(captions))

    def named(self, change: TextChange) -> TextChange:
        """The change of a text, marked as withdrawn if it was removed for that reason."""
        gone = change.before if change.kind == "removed" else None
        if gone is None or gone.values["entity_id"] not in self.texts:
            return change
        return change.model_copy(update={"kind": "withdrawn"})

    def withheld(self, difference: RowDifference) -> RowDifference:
        """The difference without the content of withdrawn rows and texts."""
        places = [one for one in (difference.before, difference.after) if one is not None]
        gone = any(one.entity_id in self.images for one in places)
        sides = [
            side.values for one in difference.texts for side in (one.before, one.after) if side
        ]
        rows = difference.row["texts"].values() if difference.row else ()

        def is_hidden(values: Mapping[str, Any]) -> bool:
            return gone or values["entity_id"] in self.texts

        hidden = {values["text"] for values in chain(sides, *rows) if is_hidden(values)}

        def words(values: Mapping[str, Any]) -> dict[str, Any]:
            found = dict(values)
            if is_hidden(values):
                found["text"] = WITHHELD
            if "of" in values and (is_hidden(values) or values["of"] in hidden):
                found["of"] = WITHHELD
            return found

        def placed(text: PlacedText | None) -> PlacedText | None:
            return text and text.model_copy(update={"values": words(text.values)})

        texts = [
            one.model_copy(update={"before": placed(one.before), "after": placed(one.after)})
            for one in difference.texts
        ]
        update: dict[str, Any] = {"texts": tuple(texts)}
        if gone:
            update["fields"] = ()
        if (row := difference.row) is not None:
            shown = {field: list(map(words, many)) for field, many in row["texts"].items()}
            update["row"] = {**row, "fields": {} if gone else row["fields"], "texts": shown}
        return difference.model_copy(update=update)


def _stated_withdrawals(release: ListedRelease) -> list[WithdrawalNotice]:
    """The withdrawals from any earlier release that a release states.

    Raises:
        IntegrityError: if its list of withdrawals cannot be read.
    """
    if not release.listed.is_listed(WITHDRAWALS):
        return []
    return list(read_notices(release.folder / WITHDRAWALS).notices)


def known_withdrawals(release: ListedRelease) -> list[WithdrawalNotice]:
    """The withdrawals that a release states, including the mark in its folder.

    Raises:
        IntegrityError: if a list of withdrawals, or a mark, cannot be read.
    """
    mark = read_mark(release.folder)
    return [*_stated_withdrawals(release), *(mark.notices if mark else ())]


_SAME_SENTENCE = 0.5
"""A text is an edit of another one if at least this share of their words, in order, is equal."""

T = TypeVar("T")
_TextPair = tuple[PlacedText, PlacedText]


def _paired(
    before: list[T], after: list[T], *keys: Callable[[T], Hashable]
) -> tuple[list[tuple[T, T]], list[T], list[T]]:
    """Pair values with equal keys, for each key function in turn; also returns the rest."""
    pairs: list[tuple[T, T]] = []
    for key in keys:
        waiting: defaultdict[Hashable, list[T]] = defaultdict(list)
        for one in reversed(after):
            waiting[key(one)].append(one)
        left = []
        for one in before:
            if others := waiting[key(one)]:
                pairs.append((one, others.pop()))
            else:
                left.append(one)
        unpaired = {id(one) for others in waiting.values() for one in others}
        before, after = left, [one for one in after if id(one) in unpaired]
    return pairs, before, after


def _text_changes(field: str, before: Texts, after: Texts) -> Iterator[TextChange]:
    """The differences between two lists of texts, by index; empty if they are equal.

    Swapping the arguments swaps the sides of the changes.
    """
    if before == after:
        return
    old, new = (
        [PlacedText(place=place, values=values) for place, values in enumerate(texts)]
        for texts in (before, after)
    )
    equal, old, new = _paired(old, new, lambda one: canonical_json(one.values))
    pairs, old, new = _paired(old, new, lambda one: one.values["entity_id"], _said)
    pairs += _take_edited(old, new)
    found: list[tuple[TextKind, PlacedText | None, PlacedText | None]] = []
    for one, other in pairs:
        found.append(("restated" if _said(one) == _said(other) else "edited", one, other))
    found += [("removed", one, None) for one in old]
    found += [("added", None, one) for one in new]
    places = [other.place for _, other in sorted(equal, key=lambda pair: pair[0].place)]
    if places != sorted(places):
        found += [("reordered", *pair) for pair in equal if pair[0].place != pair[1].place]
    changes = [
        TextChange(kind=kind, field=field, before=one, after=other) for kind, one, other in found
    ]
    yield from sorted(changes, key=lambda one: _unordered(one.before, one.after))


def _said(text: PlacedText) -> tuple[Any, ...]:
    return tuple(text.values.get(name) for name in _SAID_VALUES)


def _take_edited(before: list[PlacedText], after: list[PlacedText]) -> Iterator[_TextPair]:
    """Remove the most similar texts from both sides as pairs, most similar first."""
    candidates = [
        (old, new, similarity)
        for old in before
        for new in after
        if (similarity := _similarity(old, new)) >= _SAME_SENTENCE
    ]
    candidates.sort(key=lambda one: (-one[2], *_unordered(one[0], one[1])[::-1]))
    for old, new, _ in candidates:
        if old in before and new in after:
            before.remove(old)
            after.remove(new)
            yield old, new


def _similarity(old: PlacedText, new: PlacedText) -> float:
    """The share of equal words in equal order, 0 to 1; 0 for texts in different languages."""
    if old.values.get("language") != new.values.get("language"):
        return 0.0
    words = old.values["text"].split(), new.values["text"].split()
    return Indel.normalized_similarity(*words, score_cutoff=_SAME_SENTENCE)


def _unordered(old: PlacedText | None, new: PlacedText | None) -> tuple[list[int], list[str]]:
    """Positions and contents of a pair, independent of the order of the releases."""
    present = [one for one in (old, new) if one is not None]
    return sorted(one.place for one in present), sorted(
        canonical_json(one.values) for one in present
    )


_TABLE = """
    PRAGMA journal_mode=OFF;
    PRAGMA synchronous=OFF;
    CREATE TABLE compared (
        later, source_key, path_key, source, path, entity, place, content, anchor
    );
"""
_INDEX = "CREATE INDEX compared_by_entity ON compared (later, entity)"
_ROWS = """
    SELECT later, source, path, place, content, anchor, CASE WHEN anchor IS NOT NULL THEN (
        SELECT min(named.source || ': ' || named.path) FROM compared AS named
        WHERE named.later = compared.later AND named.entity = compared.anchor
    ) END
    FROM compared ORDER BY source_key, path_key, later, content, rowid
"""
Pair = tuple[ComparableRow | None, ComparableRow | None]
"""A row of the first release and the row of the same image in the second."""


class RowPairs:
    """Pairs rows by source and path.

    Rows are stored in a temporary file that the system removes. If a release shows an image in
    several rows, they are paired by entity, then by identity and split, then by identity; remaining
    rows are paired in order.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("")
        self._database.executescript(_TABLE)

    def close(self) -> None:
        """Remove the stored rows."""
        self._database.close()

    def add(self, rows: Iterable[ComparableRow], *, later: bool) -> int:
        """Add the rows of one of the releases; returns their number."""
        stored = (
            (
                *(later, natural_key(row.source), natural_key(row.source_file_path)),
                *(row.source, row.source_file_path, row.place.entity_id),
                *(row.place.model_dump_json(), row.content, row.anchor_id),
            )
            for row in rows
        )
        insert = "INSERT INTO compared VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        return max(0, self._database.executemany(insert, stored).rowcount)

    def pairs(self) -> Iterator[Pair]:
        """All rows, once each, by source and path; None if one release has no such row."""
        self._database.execute(_INDEX)
        rows = (
            (later, ComparableRow(source, path, RowPlace.model_validate_json(place), *rest))
            for later, source, path, place, *rest in self._database.execute(_ROWS)
        )
        for _, same in groupby(rows, key=lambda one: one[1][:2]):
            sides: tuple[list[ComparableRow], list[ComparableRow]] = ([], [])
            for later, row in same:
                sides[later].append(row)
            yield from _row_pairs(*sides)


def _row_pairs(before: list[ComparableRow], after: list[ComparableRow]) -> Iterator[Pair]:
    """Pair rows of one image; None if a release has no such row."""
    if len(before) <= 1 and len(after) <= 1:
        yield (before[0] if before else None, after[0] if after else None)
        return
    paired, before, after = _paired(
        before,
        after,
        lambda one: one.place.entity_id,
        lambda one: (one.identity(), one.place.split),
        ComparableRow.identity,
        lambda _: None,
    )
    pairs: list[Pair] = [*paired, *((one, None) for one in before), *((None, one) for one in after)]

    def order(pair: Pair) -> list[tuple[str, str]]:
        """A sort key independent of the order of the releases."""
        return sorted((one.content, one.anchor or "") for one in pair if one is not None)

    yield from sorted(pairs, key=order)


_NOTHING = Withdrawn()


def row_differences(pairs: RowPairs, withdrawn: Withdrawn = _NOTHING) -> Iterator[RowDifference]:
    """The differences of all rows that are not equal, by source and path.

    `withdrawn` are the withdrawals that the later release states.

    The result for swapped releases has the same order.
    """
    for pair in pairs.pairs():
        if (difference := _difference(pair, withdrawn)) is not None:
            yield difference


def _difference(pair: Pair, withdrawn: Withdrawn) -> RowDifference | None:
    before, after = pair
    if before is None or after is None:
        return _one_sided(pair, withdrawn)
    if (before.content, before.anchor) == (after.content, after.anchor):
        return None
    old, new = before.values(), after.values()
    fields = tuple(
        FieldChange(field=name, before=old["fields"].get(name), after=new["fields"].get(name))
        for name in sorted(old["fields"].keys() | new["fields"].keys())
        if old["fields"].get(name) != new["fields"].get(name)
    )
    texts = tuple(
        withdrawn.named(change)
        for name in sorted(old["texts"].keys() | new["texts"].keys())
        for change in _text_changes(name, old["texts"].get(name, []), new["texts"].get(name, []))
    )
    return RowDifference(
        kind=_kind({one.field for one in fields}, {one.kind for one in texts}),
        source=before.source,
        source_file_path=before.source_file_path,
        before=before.place,
        after=after.place,
        fields=fields,
        texts=texts,
    )


def _kind(fields: set[str], texts: set[TextKind]) -> RowKind:
    if "split" in fields:
        return "moved"
    if not fields <= _TOLD_FIELDS or not texts <= {"withdrawn", "restated"}:
        return "changed"
    return "withdrawn" if "withdrawn" in texts else "restated"


def _one_sided(pair: Pair, withdrawn: Withdrawn) -> RowDifference:
    before, after = pair
    (row,) = filter(None, pair)
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


_EXAMPLES = 5
"""The default number of rows of each kind that are shown."""

_KINDS: tuple[RowKind, ...] = get_args(RowKind)
_ALWAYS_DIFFERENT = {"id", "version", "entities_sha256", "files_root", "files_count"}


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
    compared; `loupe.release.verify` checks that the files have them. Withdrawn rows and texts are
    listed without their words.

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
    old, new = _read_release(before), _read_release(after)
    known = Withdrawn.of([*notices, *known_withdrawals(old), *known_withdrawals(new)])
    counter = _Counter(examples)
    with closing(RowPairs()) as pairs:
        total = pairs.add(_comparable_rows(old), later=False)
        pairs.add(_comparable_rows(new), later=True)
        for found in row_differences(pairs, Withdrawn.of(_stated_withdrawals(new))):
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

    def result(self, before: ListedRelease, after: ListedRelease, total: int) -> Difference:
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
            metadata=tuple(value_changes("", _metadata(before), _metadata(after))),
            examples=tuple(one for kind in _KINDS for one in self._kept[kind]),
        )


def _compared(release: ListedRelease) -> ComparedRelease:
    manifest = release.manifest
    return ComparedRelease(
        dataset=manifest.dataset,
        version=manifest.version,
        tier=manifest.tier,
        id=manifest.id,
        folder=str(release.folder),
    )


def _metadata(release: ListedRelease) -> dict[str, Any]:
    """The manifest, the columns and the digests of the lineage; documents follow from these."""
    values = release.manifest.model_dump(mode="json", exclude=_ALWAYS_DIFFERENT)
    columns = ["image", *next(release.rows(list), ())]
    digests = {table.path: release.digest(table.path) for table in TABLES}
    return {**values, "columns": columns, "files": digests}
