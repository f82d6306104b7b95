"""The tables of `lineage/` against each other, the rows and the manifest.

Columns are read a piece at a time and compared as a whole; what is remembered are ids, as numbers.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from release.findings import Findings
from release.lineage_ids import SortedIds, Words, numbers_in, words_of, words_of_texts
from release.lineage_pieces import PIECE_ROWS, READING_FAULTS, give_back, pieces
from release.lineage_tables import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    TABLES,
    LineageTable,
)
from release.manifest import MANIFEST
from release.publishable import published_text
from release.verify_told import images_of, numbers_of, told_by
from schemas.release import Manifest

_MOST_WORDS = 1000
_UP = ("imported_from", "sampled_from", "crop_of")
"""The roles by which images and videos lead to their source, as `db.release_rows` follows them."""
_LIVE = ("proposed", "accepted")
_TEXTS = ("caption", "rewrite")
_DESCRIBING = ("describes", "rewrite_of", "edited_from")
"""The roles by which texts lead to the image that they describe, as for `_UP`."""
_SAID = {
    "image_entity_id": ("sha256", "the SHA-256"),
    "caption_entity_ids": ("captions", "the text"),
    "coarse_caption_entity_ids": ("coarse_captions", "the text"),
    "translations.list.element.entity_id": ("translations.list.element.text", "the text"),
}
"""The columns that say what the lineage tells, too, beside the entities that it tells it of."""
_OF_THE_IMAGE = ("caption_entity_ids", "coarse_caption_entity_ids")
_ROW_COLUMNS: dict[str, tuple[str, ...]] = {
    "image_entity_id": ("image",),
    "caption_entity_ids": _TEXTS,
    "coarse_caption_entity_ids": _TEXTS,
    "translations.list.element.entity_id": _TEXTS,
    "crop.tracklet_entity_id": ("tracklet",),
    "crop.video_entity_id": ("video",),
    "contrast.anchor_entity_id": ("image",),
}
"""The columns of rows that name entities, and of which kinds these must be."""
_NONE = np.array([-1], np.int16)
Places = NDArray[np.int64]


def verify_lineage(
    folder: Path, manifest: Manifest, shards: Sequence[str], findings: Findings
) -> None:
    """Finds what does not hold together; `shards` are the files of the rows, in their order."""
    if any(findings.tells_of(table.path) for table in TABLES):
        return  # what is damaged says nothing, and reading it may not end well
    checks = _LineageChecks(folder, manifest, findings)
    for table in TABLES:
        try:
            checks.read(table)
        except FileNotFoundError:
            findings.add("file_missing", f"{table.path} is missing", table.path)
            return
        except ValueError as error:
            message = f"{table.path} cannot be read: {error}"
            findings.add("lineage_unreadable", message, table.path)
            return
    checks.check_manifest()
    for shard in shards:
        try:
            checks.check_rows(shard)
        except READING_FAULTS as error:
            if not findings.tells_of(shard):
                findings.add("rows_unreadable", f"{shard} cannot be read: {error}", shard)
            return


class _Entities(NamedTuple):
    """The entities by their place: ids, and the numbers of their kinds and states.

    These have one more, the last, which stands for an entity that is not there (place -1).
    """

    ids: SortedIds
    kinds: NDArray[np.int16]
    states: NDArray[np.int16]


class _Words:
    """Words and the numbers that stand for them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbers(self, column: pa.DictionaryArray) -> NDArray[np.int16]:
        words = column.dictionary.to_pylist()
        if len(words) + len(self._numbers) > _MOST_WORDS:
            raise ValueError(f"a column of few words has more than {_MOST_WORDS:,}")
        known = np.array([self._number(word) for word in words], np.int16)
        return known[numbers_in(column.indices)]

    def among(self, words: Iterable[str]) -> list[int]:
        return [self._numbers[word] for word in words if word in self._numbers]

    def _number(self, word: str) -> int:
        return self._numbers.setdefault(word, len(self._numbers))


class _LineageChecks:
    """Reads the tables in the order of `TABLES`, the rows last."""

    def __init__(self, folder: Path, manifest: Manifest, findings: Findings) -> None:
        self._folder = folder
        self._manifest = manifest
        self._findings = findings
        self._kinds, self._states, self._roles = _Words(), _Words(), _Words()
        self._entities = _Entities(SortedIds([]), _NONE, _NONE)
        self._wanted: dict[str, list[tuple[str, Words]]] = {}
        self._told = np.zeros(1, np.int64)
        self._upward: list[tuple[Places, Places]] = []
        self._describing: list[tuple[Places, Places]] = []
        self._described: Places | None = None
        self._reached: dict[str, NDArray[np.bool_]] | None = None
        self._rows = 0

    def read(self, table: LineageTable) -> None:
        """Holds a table against those before it, and against what they refer to in it.

        Raises:
            ValueError: it is no such table, or cannot be read.
            FileNotFoundError: it is not there.
        """
        read = {
            ENTITIES.name: self._read_entities,
            DERIVATIONS.name: self._read_derivations,
            DECISIONS.name: self._read_decisions,
        }.get(table.name)
        count = read() if read else self._read_named(table)
        wanted = getattr(self._manifest.lineage, table.name)
        if count != wanted:
            message = f"{table.path} has {count:,} rows; {MANIFEST} says {wanted:,}"
            self._findings.add("totals_differ", message, table.path)

    def _read_entities(self) -> int:
        ids, kinds, states, told = [], [], [], []
        for piece in self._pieces(ENTITIES, ("dataset", "kind", "state", "activity")):
            ids.append(words_of(piece["id"]))
            kinds.append(self._kinds.numbers(piece["kind"]))
            states.append(self._states.numbers(piece["state"]))
            told.append(told_by(piece["kind"], piece["payload"]))
            self._refer(ENTITIES, ACTIVITIES, "activity", piece["activity"].dictionary)
            self._refer(ENTITIES, CALLS, "model_call", piece["model_call"].drop_null())
        self._entities = _Entities(
            SortedIds(ids), np.concatenate([*kinds, _NONE]), np.concatenate([*states, _NONE])
        )
        self._told = np.concatenate([*told, self._told])
        self._check_order(ENTITIES, self._entities.ids)
        return len(self._entities.ids)

    def _read_derivations(self) -> int:
        followed = [self._kinds.among(("image", "video")), self._kinds.among(("source",))]
        count, last = 0, None
        for piece in self._pieces(DERIVATIONS, ("role",)):
            child, parent = words_of(piece["child"]), words_of(piece["parent"])
            below = self._check_places(DERIVATIONS, "child", child)
            above = self._check_places(DERIVATIONS, "parent", parent)
            last = self._check_rising(DERIVATIONS, child, last)
            roles = self._roles.numbers(piece["role"])
            is_known = (below >= 0) & (above >= 0)
            describing = is_known & np.isin(roles, self._roles.among(_DESCRIBING))
            describing &= np.isin(self._entities.kinds[below], self._kinds.among(_TEXTS))
            self._describing.append((below[describing], above[describing]))
            upward = is_known & np.isin(roles, self._roles.among(_UP))
            upward &= np.isin(self._entities.kinds[below], followed[0])
            upward &= np.isin(self._entities.kinds[above], followed[0] + followed[1])
            self._upward.append((below[upward], above[upward]))
            count += len(child)
        return count

    def _check_rising(self, table: LineageTable, ids: Words, last: Words | None) -> Words | None:
        """The ids that rows are searched by must rise; gives the last of them."""
        rows = ids if last is None else np.concatenate([last, ids])
        before, after = rows[:-1], rows[1:]
        falls = before[:, 0] > after[:, 0]
        falls |= (before[:, 0] == after[:, 0]) & (before[:, 1] > after[:, 1])
        if np.any(falls):
            self._add_unsorted(table)
        return rows[-1:] if len(rows) else None

    def _read_decisions(self) -> int:
        count, last, number = 0, None, -1
        for piece in self._pieces(DECISIONS, ("verdict", "agent", "reason")):
            entity, numbers = words_of(piece["entity"]), numbers_in(piece["number"])
            self._check_places(DECISIONS, "entity", entity)
            self._refer(DECISIONS, AGENTS, "agent", piece["agent"].dictionary)
            before = np.concatenate([entity[:1] if last is None else last, entity[:-1]])
            is_same = np.all(entity == before, axis=1)
            wanted = np.where(is_same, np.concatenate([[number], numbers[:-1]]) + 1, 0)
            if np.any(numbers != wanted):
                message = f"{DECISIONS.path}: the decisions on an entity are not numbered from 0"
                self._findings.add("lineage_unsorted", message, DECISIONS.path)
            last = self._check_rising(DECISIONS, entity, last)
            number = int(numbers[-1])
            count += len(entity)
        return count

    def _read_named(self, table: LineageTable) -> int:
        """A table of what others refer to."""
        ids = []
        for piece in self._pieces(table, ("agent", "parameters") if table is CALLS else ()):
            ids.append(words_of(piece[table.key_columns[0]]))
            if table is CALLS:
                self._refer(CALLS, AGENTS, "agent", piece["agent"].dictionary)
                _check_objects("parameters", piece["parameters"].dictionary)
            if table is ACTIVITIES:
                self._refer(ACTIVITIES, AGENTS, "agents", piece["agents"].flatten())
                _check_objects("configuration", piece["configuration"])
        known = SortedIds(ids)
        self._check_order(table, known)
        for place, words in self._wanted.pop(table.name, []):
            if np.any(missing := known.places(words) < 0):
                self._add_broken(place, table, words[missing])
        return len(known)

    def _pieces(self, table: LineageTable, encoded: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The columns that are checked, a piece at a time; the `encoded` ones as dictionaries."""
        yield from pieces(self._folder, table, table.schema.names, encoded)

    def _refer(self, table: LineageTable, other: LineageTable, column: str, ids: pa.Array) -> None:
        """Remembers ids that a later table must have."""
        words = np.unique(words_of(ids), axis=0) if other is not CALLS else words_of(ids)
        self._wanted.setdefault(other.name, []).append((f"{table.path}: {column}", words))

    def _check_places(self, table: LineageTable, column: str, words: Words) -> Places:
        places = self._entities.ids.places(words)
        if np.any(missing := places < 0):
            self._add_broken(f"{table.path}: {column}", ENTITIES, words[missing])
        return places

    def _check_order(self, table: LineageTable, ids: SortedIds) -> None:
        if not ids.is_sorted():
            self._add_unsorted(table)

    def _add_unsorted(self, table: LineageTable) -> None:
        message = f"{table.path} is not sorted by {', '.join(table.key_columns)}, or has rows twice"
        self._findings.add("lineage_unsorted", message, table.path)

    def _add_broken(self, place: str, table: LineageTable, missing: Words) -> None:
        message = f"{place} names {_shown(missing[0])}, which is not in {table.path}"
        more = f" ({len(missing) - 1:,} more)" if len(missing) > 1 else ""
        self._findings.add("lineage_broken", message + more, place.partition(":")[0])

    def check_manifest(self) -> None:
        """Sources, prompts and videos of the manifest must be there."""
        for name, kind in (("sources", "source"), ("prompts", "prompt"), ("videos", "video")):
            ids = [one.entity_id for one in getattr(self._manifest, name)]
            places = self._entities.ids.places(words_of_texts(ids))
            for entity_id, is_wrong in zip(ids, self._is_none_of(places, (kind,)), strict=True):
                if is_wrong:
                    message = f"{ENTITIES.path} has no {kind} {entity_id}; {MANIFEST} names it"
                    self._findings.add("lineage_incomplete", message, ENTITIES.path)
        stated = [(one.entity_id, "licence", one.licence) for one in self._manifest.sources]
        stated += [(one.entity_id, "text", one.text) for one in self._manifest.prompts]
        for entity_id, what, said in stated:
            (place,) = self._entities.ids.places(words_of_texts([entity_id]))
            if place >= 0 and self._told[place] not in numbers_of((said, published_text(said))):
                message = f"{MANIFEST} says another {what} of {entity_id} than {ENTITIES.path}"
                self._findings.add("lineage_differs", message, MANIFEST)

    def check_rows(self, shard: str) -> None:
        """What rows name must be there, and their images must lead to the source that they name.

        Files of rows come in their order.

        Raises:
            Exception: one of `READING_FAULTS`, where it is no file of rows.
        """
        if self._reached is None or self._described is None:
            self._reached = self._sources_reached()
            is_image = np.isin(self._entities.kinds, self._kinds.among(("image",)))
            self._described = images_of(self._describing, is_image)
        with pq.ParquetFile(self._folder / shard, pre_buffer=False) as file:
            for piece in file.iter_batches(PIECE_ROWS, columns=_columns(file), use_threads=False):
                for column, kinds in _ROW_COLUMNS.items():
                    self._check_named(shard, self._rows, piece, column, kinds)
                for column, (said, what) in _SAID.items():
                    self._check_said(shard, self._rows, piece, column, said, what)
                self._check_described(shard, self._rows, piece, self._described)
                self._check_sources(shard, self._rows, piece, self._reached)
                self._rows += piece.num_rows
                give_back()

    def _check_named(
        self, shard: str, before: int, piece: pa.RecordBatch, column: str, kinds: tuple[str, ...]
    ) -> None:
        found = _values(piece, column)
        if found is None:
            return
        rows, values = found
        places = self._entities.ids.places(words_of(values))
        wrong = self._is_none_of(places, kinds)
        if np.any(wrong):
            row = before + int(rows[wrong][0]) + 1
            named = values[int(np.flatnonzero(wrong)[0])].as_py()
            what = f"row {row} names {named}, and {ENTITIES.path} has no {' or '.join(kinds)} of it"
            self._findings.add("lineage_incomplete", f"{shard}: {what}", shard, row)
        if column == "image_entity_id" or kinds == _TEXTS:
            live = np.isin(self._entities.states[places], self._states.among(_LIVE))
            if np.any(fallen := ~wrong & ~live):
                row = before + int(rows[fallen][0]) + 1
                named = values[int(np.flatnonzero(fallen)[0])].as_py()
                what = f"row {row} holds {named}, which was turned down by {ENTITIES.path}"
                self._findings.add("lineage_turned_down", f"{shard}: {what}", shard, row)

    def _check_said(
        self, shard: str, before: int, piece: pa.RecordBatch, column: str, said: str, what: str
    ) -> None:
        found, beside = _values(piece, column), _values(piece, said)
        if found is None or beside is None:
            return
        rows, ids = found
        if not np.array_equal(rows, beside[0]):
            return  # named with the other faults of rows
        places = self._entities.ids.places(words_of(ids))
        other = (places >= 0) & (self._told[places] != numbers_of(beside[1].to_pylist()))
        if np.any(other):
            at = int(np.flatnonzero(other)[0])
            row = before + int(rows[at]) + 1
            message = f"row {row} has not {what} of {ids[at].as_py()} that {ENTITIES.path} tells"
            self._findings.add("lineage_differs", f"{shard}: {message}", shard, row)

    def _check_described(
        self, shard: str, before: int, piece: pa.RecordBatch, described: Places
    ) -> None:
        """The texts of a row must be of its image."""
        images = self._entities.ids.places(words_of(piece["image_entity_id"]))
        for column in _OF_THE_IMAGE:
            if (found := _values(piece, column)) is None:
                continue
            rows, ids = found
            places = self._entities.ids.places(words_of(ids))
            other = (places >= 0) & (described[places] != images[rows])
            if np.any(other):
                at = int(np.flatnonzero(other)[0])
                row = before + int(rows[at]) + 1
                message = f"row {row} has {ids[at].as_py()}, which does not describe its image"
                what = f"{shard}: {message} by {DERIVATIONS.path}"
                self._findings.add("lineage_differs", what, shard, row)

    def _is_none_of(self, places: Places, kinds: tuple[str, ...]) -> NDArray[np.bool_]:
        """Whether there is no entity of these kinds at a place."""
        return (places < 0) | ~np.isin(self._entities.kinds[places], self._kinds.among(kinds))

    def _sources_reached(self) -> dict[str, NDArray[np.bool_]]:
        """For each name of sources, which entities lead to one of that name."""
        below = np.concatenate([one for one, _ in self._upward] or [np.empty(0, np.int64)])
        above = np.concatenate([one for _, one in self._upward] or [np.empty(0, np.int64)])
        reached: dict[str, NDArray[np.bool_]] = {}
        for source in self._manifest.sources:
            (place,) = self._entities.ids.places(words_of_texts([source.entity_id]))
            marks = reached.setdefault(source.name, np.zeros(len(self._entities.ids) + 1, bool))
            if place >= 0:
                marks[place] = True
        for marks in reached.values():
            count = -1
            while count != (count := int(marks.sum())):
                marks[below[marks[above]]] = True
        return reached

    def _check_sources(
        self,
        shard: str,
        before: int,
        piece: pa.RecordBatch,
        reached: dict[str, NDArray[np.bool_]],
    ) -> None:
        places = self._entities.ids.places(words_of(piece["image_entity_id"]))
        sources = piece["source"].dictionary_encode("encode")
        numbers, names = numbers_in(sources.indices), sources.dictionary.to_pylist()
        for name, marks in reached.items():
            is_from = np.isin(numbers, [at for at, one in enumerate(names) if one == name])
            lost = is_from & (places >= 0) & ~marks[places]
            if np.any(lost):
                row = before + int(np.flatnonzero(lost)[0]) + 1
                what = f"row {row} is from {name!r}, to which its image does not lead"
                self._findings.add("source_unreached", f"{shard}: {what}", shard, row)


def _check_objects(column: str, texts: pa.Array) -> None:
    """A column of JSON objects.

    Raises:
        ValueError: one of them is none.
    """
    for text in texts:
        try:
            is_object = isinstance(json.loads(text.as_py()), dict)
        except (ValueError, RecursionError):
            is_object = False
        if not is_object:
            raise ValueError(f"{column} must be JSON objects; got {text.as_py()!r:.100}")


def _columns(file: pq.ParquetFile) -> list[str]:
    """The leaves of rows that are read, as far as there are any."""
    leaves = {file.schema.column(place).path for place in range(len(file.schema))}
    wanted = (*_ROW_COLUMNS, *(said for said, _ in _SAID.values()), "source")
    return [one for one in wanted if one in leaves or f"{one}.list.element" in leaves]


def _values(piece: pa.RecordBatch, column: str) -> tuple[Places, pa.Array] | None:
    """The ids in a column, and the place of the row of each; None where there is no such column."""
    name, *inside = column.replace(".list.element", "").split(".")
    if name not in piece.schema.names:
        return None
    values = piece[name]
    rows = np.arange(len(values))
    if pa.types.is_list(values.type):
        rows = numbers_in(pc.list_parent_indices(values))
        values = values.flatten()
    for field in inside:
        values = pc.struct_field(values, field)
    there = numbers_in(values.is_valid()).astype(bool)
    return rows[there], values.drop_null()


def _shown(words: Words) -> str:
    return f"{int(words[0]):016x}{int(words[1]):016x}"
