"""The tables of `lineage/` against each other, the rows and the manifest.

Columns are read a piece at a time and compared as a whole; what is remembered are ids, as numbers.
The ids of entities, activities and agents are digests of what they name, so that a changed value
shows as an id that is not the one of its content. Of entities of which something is withheld only
their form, their links and their states are compared.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from release.findings import Findings
from release.lineage import (
    ACTIVITIES,
    AGENTS,
    CALLS,
    DECISIONS,
    DERIVATIONS,
    ENTITIES,
    FOLDER,
    TABLES,
    WHOLE,
    WITHHELD,
    CallUse,
    LineageTable,
    published_payload,
)
from release.lineage.ids import (
    PIECE_ROWS,
    READING_FAULTS,
    SortedIds,
    UnreadableTableError,
    Words,
    array_of,
    framed_column,
    give_back,
    numbers_in,
    pieces,
    text_array,
    text_scalar,
    words_of,
    words_of_texts,
)
from release.manifest import MANIFEST
from release.model_use import model_uses
from release.parquet_rows import bounded_batches, opened_parquet, read_parquet_rows
from release.payload_fingerprints import (
    PayloadFingerprints,
    hash_of_crop,
    images_of,
    numbers_of,
)
from schemas.base import ID_BYTES, EntityRecord, digest_of, entity_id, unframed
from schemas.provenance import ANSWERED, STATE_AFTER, WITHHELD_WHOLE, AgentKind, CallRow, Role
from schemas.records import PromptText, TermsCorrection
from schemas.release import Manifest, ModelUse, ReleasedSource, ReleasedVideo
from schemas.video import LINKED_LATER, Video

_MOST_WORDS = 1000
_CALL_COLUMNS = (
    *("parameters", "tokens_in", "tokens_out", "cost", "currency", "served", "prompt_digest"),
)
_MOST_KINDS_OF_CALLS = 100_000
_UP = (Role.IMPORTED_FROM, Role.SAMPLED_FROM, Role.CROP_OF)
"""The roles by which images and videos lead to their source, as `db.release_rows` follows them."""
_LIVE = ("proposed", "accepted")
_TEXTS = ("caption", "rewrite")
_DESCRIBING = (Role.DESCRIBES, Role.REWRITE_OF, Role.EDITED_FROM)
"""The roles by which texts lead to the image that they describe, as for `_UP`."""
_SAID = {
    "image_entity_id": ("sha256", "the SHA-256"),
    "caption_entity_ids": ("captions", "the text"),
    "coarse_caption_entity_ids": ("coarse_captions", "the text"),
    "translations.list.element.entity_id": ("translations.list.element.text", "the text"),
}
"""The columns that say what the lineage tells, too, beside the entities that it tells it of."""
_AUTHORS = {
    "caption_entity_ids": "caption_authors",
    "translations.list.element.entity_id": "translations.list.element.author",
}
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
_IMAGE_COLUMNS = (
    *("source", "identity", "split", "source_file_path", "width_px", "height_px", "task", "tier"),
    *("contrast", "licence", "creator", "source_url"),
)
_ORIGINS: Final = (
    *(("edited_rewrite",), ("rewrite",), ("edited", "edited_draft", "confirmed_draft")),
    *(("drafted",), ("written", "source")),
)
"""How captions may have come about: edited rewrites, rewrites, edited, prompted and other ones."""
_FEW = 10
_VOCABULARY: dict[tuple[str, str], Collection[str]] = {
    ("entities", "kind"): WHOLE | WITHHELD.keys(),
    ("entities", "state"): {"proposed", *STATE_AFTER.values()},
    ("derivations", "role"): frozenset(Role),
    ("decisions", "verdict"): STATE_AFTER,
    ("calls", "use"): list(CallUse),
    ("agents", "kind"): get_args(AgentKind),
}
"""The words of columns with a fixed vocabulary; anything else is a fault."""
_NONE = np.array([-1], np.int16)
_Places = NDArray[np.int64]
_Marks = NDArray[np.bool_]


def verify_lineage(
    folder: Path, manifest: Manifest, shards: Sequence[str], findings: Findings
) -> None:
    """Finds what does not hold together; `shards` are the files of the rows, in their order."""
    if any(findings.tells_of(table.path) for table in TABLES):
        return  # what is damaged says nothing, and reading it may not end well
    missing = [table.path for table in TABLES if not (folder / table.path).is_file()]
    for path in missing:
        findings.add("file_missing", f"{path} is missing", path)
    if missing:
        return
    checks = _LineageChecks(folder, manifest, shards, findings)
    for table in (AGENTS, ACTIVITIES, CALLS, ENTITIES, DERIVATIONS, DECISIONS):
        try:
            checks.read(table)
        except READING_FAULTS as error:
            path = error.path if isinstance(error, UnreadableTableError) else table.path
            findings.add("lineage_unreadable", f"{path} cannot be read: {error}", path)
            return
    checks.check_manifest()
    for shard in shards:
        try:
            checks.check_rows(shard)
        except READING_FAULTS as error:
            if not findings.tells_of(shard):
                findings.add("rows_unreadable", f"{shard} cannot be read: {error}", shard)
            return
    checks.check_used()


class _Agent(NamedTuple):
    """A person, a model at a revision, or a piece of software at a version."""

    kind: AgentKind
    name: str
    revision: str


class _Entities(NamedTuple):
    """The entities by their place: ids, and the numbers of their kinds and states.

    All but the ids have one more, the last, which stands for an entity that is not there (place
    -1). `content` and `facts` are `release.payload_fingerprints`; `is_partial` says of which
    something is withheld.
    """

    ids: SortedIds
    kinds: NDArray[np.int16]
    states: NDArray[np.int16]
    content: NDArray[np.int64]
    facts: NDArray[np.int64]
    is_partial: _Marks


class _Calls(NamedTuple):
    """The model calls by their place: ids, whether each is left out, and who was asked."""

    ids: SortedIds
    is_left_out: _Marks
    agents: _Places


class _Named(NamedTuple):
    """The entities that a column of some rows names: the row of each, its id and its place."""

    rows: _Places
    ids: pa.StringArray
    places: _Places


class _Words:
    """Words and the numbers that stand for them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbers(self, column: pa.DictionaryArray) -> NDArray[np.int16]:
        words = column.dictionary.to_pylist()
        if len(words) + len(self._numbers) > _MOST_WORDS:
            raise ValueError(f"a column of few words has more than {_MOST_WORDS:,}")
        known = np.array([self.number(word) for word in words], np.int16)
        return known[numbers_in(column.indices)]

    def among(self, words: Iterable[str]) -> list[int]:
        return [self._numbers[word] for word in words if word in self._numbers]

    def number(self, word: str) -> int:
        return self._numbers.setdefault(word, len(self._numbers))


class _Parents:
    """What entities were derived from, as their ids are made of it, read beside the entities."""

    def __init__(self, folder: Path) -> None:
        self._pieces = pieces(folder, DERIVATIONS, DERIVATIONS.schema.names)
        self._children = np.empty((0, 2), np.uint64)
        self._links = text_array([])

    def of(self, ids: Words) -> pa.StringArray | None:
        """The framed parents of each of these ids, which rise from call to call.

        None where the derivations are in another order, or of none of the entities.
        """
        while not len(self._children) or not np.any(_is_after(self._children, ids[-1])):
            piece = next(self._pieces, None)
            if piece is None:
                break
            links = framed_column(
                pc.binary_join_element_wise(piece["role"], piece["parent"], text_scalar("="))
            )
            self._children = np.concatenate([self._children, words_of(piece["child"])])
            self._links = pa.concat_arrays([self._links, links])
        count = int(np.count_nonzero(~_is_after(self._children, ids[-1])))
        children, links = self._children[:count], self._links[:count]
        self._children, self._links = self._children[count:], self._links[count:]
        places = SortedIds([ids]).places(children)
        if np.any(places < 0) or np.any(np.diff(places) < 0):
            return None
        ends = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=len(ids)))])
        of_each = pa.ListArray.from_arrays(array_of(ends).cast(pa.int32()), links)
        return pc.binary_join(of_each, text_scalar(""))


def _is_after(ids: Words, last: Words) -> _Marks:
    later: _Marks = (ids[:, 0] > last[0]) | ((ids[:, 0] == last[0]) & (ids[:, 1] > last[1]))
    return later


class _LineageChecks:
    """Reads the tables, those first that others refer to, and the rows last."""

    def __init__(
        self, folder: Path, manifest: Manifest, shards: Sequence[str], findings: Findings
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._shards = shards
        self._findings = findings
        licences: dict[str, set[str]] = {}
        for source in manifest.sources:
            licences.setdefault(source.name, set()).add(source.licence)
        self._fingerprints = PayloadFingerprints(licences)
        self._kinds, self._states, self._roles = _Words(), _Words(), _Words()
        self._agents: list[_Agent] = []
        self._known = {table.name: SortedIds([]) for table in (AGENTS, ACTIVITIES)}
        self._calls = _Calls(SortedIds([]), np.empty(0, bool), np.empty(0, np.int64))
        self._used = {table.name: np.empty(0, bool) for table in TABLES}
        none = np.zeros(1, np.int64)
        self._entities = _Entities(SortedIds([]), _NONE, _NONE, none, none, none.astype(bool))
        self._models: tuple[ModelUse, ...] = ()
        self._payloads: dict[str, tuple[str, str | None, list[str]]] = {}
        self._corrected: dict[str, int] = {}
        self._upward: list[tuple[_Places, _Places]] = []
        self._describing: list[tuple[_Places, _Places]] = []
        self._edits: set[tuple[int, int]] = set()
        self._is_edited = np.zeros(1, bool)
        self._is_prompted = np.zeros(1, bool)
        self._is_decided = np.zeros(1, bool)
        self._crops: dict[int, tuple[str, int]] = {}
        self._tracklets: set[int] = set()
        self._described: _Places | None = None
        self._reached: dict[str, _Marks] | None = None
        self._rows = 0

    def read(self, table: LineageTable) -> None:
        """Compares a table with those before it, and with what they refer to in it.

        Raises:
            ValueError: it is no such table, or cannot be read.
        """
        count = getattr(self, f"_read_{table.name}")()
        wanted = getattr(self._manifest.lineage, table.name)
        if count != wanted:
            message = f"{table.path} has {count:,} rows; {MANIFEST} says {wanted:,}"
            self._findings.add("totals_differ", message, table.path)

    def _read_agents(self) -> int:
        ids = []
        for piece in self._pieces(AGENTS, ("kind",)):
            ids.append(words_of(piece["id"]))
            self._check_vocabulary(AGENTS, "kind", piece["kind"].dictionary)
            for id_, *details, withheld in zip(*_lists(piece, AGENTS), strict=True):
                agent = _Agent(*details)
                self._agents.append(agent)
                is_whole = digest_of("agent", *agent) == id_
                if is_whole is bool(withheld) or not {"name", "revision"} >= set(withheld):
                    self._add_other_id(AGENTS, id_)
        return self._remember(AGENTS, ids)

    def _read_activities(self) -> int:
        ids = []
        for piece in self._pieces(ACTIVITIES, ()):
            ids.append(words_of(piece["id"]))
            self._refer(ACTIVITIES, AGENTS, "agents", words_of(piece["agents"].flatten()))
            _check_objects("configuration", piece["configuration"])
            for id_, *details, agents in zip(*_lists(piece, ACTIVITIES), strict=True):
                if digest_of("activity", *details, *agents) != id_:
                    self._add_other_id(ACTIVITIES, id_)
        return self._remember(ACTIVITIES, ids)

    def _read_calls(self) -> int:
        ids, left_out, agents = [], [], [np.empty(0, np.int64)]
        counted: Counter[tuple[Any, ...]] = Counter()
        prompts = {prompt.digest for prompt in self._manifest.prompts}
        for piece in self._pieces(CALLS, ("agent", "parameters", "served", "use")):
            ids.append(words_of(piece["key"]))
            self._check_vocabulary(CALLS, "use", piece["use"].dictionary)
            for name in ("parameters", "served"):
                _check_objects(name, piece[name].dictionary)
            agents.append(self._refer(CALLS, AGENTS, "agent", words_of(piece["agent"])))
            uses = piece["use"].to_pylist()
            left_out += [use == CallUse.LEFT_OUT for use in uses]
            columns = (piece[name].to_pylist() for name in _CALL_COLUMNS)
            self._check_numbers(piece)
            for use, status, place, *details in zip(
                uses, piece["status"].to_pylist(), agents[-1].tolist(), *columns, strict=True
            ):
                if use == CallUse.OTHER:
                    continue
                counted[(place, *details)] += 1
                if status not in ANSWERED:
                    self._add_word(CALLS, "status", status, ANSWERED)
            if len(counted) > _MOST_KINDS_OF_CALLS:
                raise ValueError(f"its calls are of more than {_MOST_KINDS_OF_CALLS:,} kinds")
        for digest in {key[-1] for key in counted} - prompts:
            message = f"{CALLS.path} names the prompt {digest!r}, which {MANIFEST} does not list"
            self._findings.add("lineage_differs", message, CALLS.path)
        self._models = model_uses(self._call_rows(counted), ())
        count = self._remember(CALLS, ids)
        self._calls = _Calls(
            self._known.pop(CALLS.name), np.array(left_out, bool), np.concatenate(agents)
        )
        return count

    def _call_rows(self, counted: Counter[tuple[Any, ...]]) -> Iterator[CallRow]:
        for key, count in counted.items():
            place, parameters, *paid, served, _ = key
            if place >= 0:
                name, revision = self._agents[place][1:]
                tokens_in, tokens_out, cost, currency = paid
                values = json.loads(parameters)
                yield CallRow(
                    name, revision, values, tokens_in, tokens_out, cost, currency, served, count
                )

    def _check_numbers(self, piece: pa.RecordBatch) -> None:
        for name in ("tokens_in", "tokens_out", "cost"):
            values = piece[name].drop_null().to_pylist()
            if any(value < 0 or not math.isfinite(value) for value in values):
                message = f"{CALLS.path}: {name} must be 0 or more; got {min(values)}"
                self._findings.add("lineage_differs", message, CALLS.path)
        if np.any(numbers_in(piece["cost"].is_valid()) > numbers_in(piece["currency"].is_valid())):
            message = f"{CALLS.path}: a cost must have a currency"
            self._findings.add("lineage_differs", message, CALLS.path)

    def _read_entities(self) -> int:
        ids, kinds, states, content, facts, partial = [], [], [], [], [], []
        self._read_crops()
        tracklet = text_array(["tracklet"])
        parents, known, doubtful = _Parents(self._folder), {self._manifest.dataset}, set[str]()
        of = self._manifest
        stated = (of.sources, of.prompts, of.videos, of.corrections)
        named = text_array([one.entity_id for many in stated for one in many])
        author_of_agent = numbers_of(f"{one.name}@{one.revision}" for one in self._agents)
        for piece in self._pieces(ENTITIES, ("dataset", "kind", "state", "activity")):
            for column in ("kind", "state"):
                self._check_vocabulary(ENTITIES, column, piece[column].dictionary)
            words = words_of(piece["id"])
            is_partial = numbers_in(pc.list_value_length(piece["withheld"])) > 0
            self._check_ids(piece, words, is_partial, parents)
            doubtful |= self._check_withheld(piece, is_partial)
            known |= _taken(piece["dataset"], ~is_partial)
            fingerprints = self._fingerprints.of(piece["kind"], piece["payload"])
            self._refer(ENTITIES, ACTIVITIES, "activity", words_of(piece["activity"]))
            self._check_calls(piece, fingerprints.facts, author_of_agent)
            for row in piece.filter(pc.is_in(piece["id"], value_set=named)).to_pylist():
                self._payloads[row["id"]] = (row["state"], row["payload"], row["withheld"])
            self._remember_corrections(piece)
            if self._crops:
                cut = piece.filter(pc.is_in(piece["kind"].cast(pa.string()), value_set=tracklet))
                for one in self._fingerprints.of_crops(cut["payload"], cut["id"]):
                    self._crops.pop(one, None)
            ids.append(words)
            kinds.append(self._kinds.numbers(piece["kind"]))
            states.append(self._states.numbers(piece["state"]))
            content.append(fingerprints.content)
            facts.append(fingerprints.facts)
            partial.append(is_partial)
        for shard, row in self._crops.values():
            what = f"row {row} is no frame of its tracklet by {ENTITIES.path}"
            self._findings.add("lineage_differs", f"{shard}: {what}", shard, row)
        for dataset in doubtful - known:
            self._add_word(ENTITIES, "dataset", dataset, known)
        count, none = self._remember(ENTITIES, ids), np.zeros(1, np.int64)
        self._entities = _Entities(
            self._known.pop(ENTITIES.name),
            np.concatenate([*kinds, _NONE]),
            np.concatenate([*states, _NONE]),
            np.concatenate([*content, none]),
            np.concatenate([*facts, none]),
            np.concatenate([*partial, none.astype(bool)]),
        )
        return count

    def _remember_corrections(self, piece: pa.RecordBatch) -> None:
        """Remembers of each source the number of its last correction.

        Raises:
            ValueError: a payload is no correction.
        """
        if TermsCorrection.kind not in piece["kind"].dictionary.to_pylist():
            return
        is_correction = pc.equal(piece["kind"].cast(pa.string()), TermsCorrection.kind)
        for payload in piece.filter(is_correction)["payload"].drop_null().to_pylist():
            one = TermsCorrection.model_validate_json(payload)
            last = self._corrected.get(one.source_id, 0)
            self._corrected[one.source_id] = max(one.number, last)

    def _read_crops(self) -> None:
        """Remembers what rows say of crops, until their tracklets are read."""
        row = 0
        for shard in self._shards if self._manifest.videos else ():
            try:
                for one in read_parquet_rows(self._folder / shard, ["sha256", "crop"]):
                    row += 1
                    if one["crop"] and one["crop"]["box_xyxy"]:
                        self._crops[hash_of_crop(one["crop"], one["sha256"])] = shard, row
            except ValueError:
                return  # named with the other faults of rows

    def _check_ids(
        self, piece: pa.RecordBatch, words: Words, is_partial: _Marks, parents: "_Parents"
    ) -> None:
        """An id must be the digest of what the tables say of the entity, if they say all of it."""
        if (parts := parents.of(words)) is None:
            return  # named with the derivations
        own = (piece[name].cast(pa.string()) for name in ("dataset", "kind", "payload"))
        content = pc.binary_join_element_wise(
            *map(framed_column, own),
            parts,
            text_scalar(""),
            null_handling="replace",
            null_replacement="",
        )
        whole = np.flatnonzero(~is_partial)
        digests = [
            hashlib.blake2b(one, digest_size=ID_BYTES).digest()
            for one in content.cast(pa.binary()).take(array_of(whole)).to_pylist()
        ]
        made = np.frombuffer(b"".join(digests), ">u8").reshape(-1, 2).astype(np.uint64)
        for at in whole[np.any(made != words[whole], axis=1)].tolist():
            dataset, kind, payload, id_ = (
                piece[name][at].as_py() for name in ("dataset", "kind", "payload", "id")
            )
            later = LINKED_LATER.get(kind, frozenset())
            links = [link.split("=", 1) for link in unframed(parts[at].as_py().encode())]
            first = [(role, parent) for role, parent in links if role not in later]
            if len(first) == len(links) or entity_id(dataset, kind, payload, first) != id_:
                self._add_other_id(ENTITIES, id_)

    def _add_other_id(self, table: LineageTable, id_: str) -> None:
        what = f"what {FOLDER}/ says of {id_} is not what its id was made from"
        self._findings.add("lineage_differs", f"{table.path}: {what}", table.path)

    def _check_withheld(self, piece: pa.RecordBatch, is_partial: _Marks) -> set[str]:
        """What is left out of entities must be named as what it is; gives their datasets."""
        datasets = set()
        for row in piece.filter(array_of(is_partial.astype(np.int64)).cast(pa.bool_())).to_pylist():
            datasets.add(row["dataset"])
            if not _is_withheld(row["kind"], row["payload"], row["withheld"]):
                what = f"{row['id']} says that {row['withheld']!r:.100} is left out of it"
                message = f"{ENTITIES.path}: {what}"
                self._findings.add("lineage_differs", message, ENTITIES.path)
        return datasets

    def _check_calls(
        self, piece: pa.RecordBatch, authors: NDArray[np.int64], of_agents: NDArray[np.int64]
    ) -> None:
        """Calls must be there, and texts that came of one by the model that was asked."""
        keys = piece["model_call"]
        rows = np.flatnonzero(numbers_in(keys.is_valid()))
        words = words_of(keys.drop_null())
        places = self._calls.ids.places(words)
        self._used[CALLS.name][places[places >= 0]] = True
        if np.any(missing := places < 0):
            self._add_broken(f"{ENTITIES.path}: model_call", CALLS, words[missing])
        agents = np.where(places < 0, -1, np.append(self._calls.agents, -1)[places])
        said = authors[rows]
        other = (agents >= 0) & (said != 0) & (np.append(of_agents, 0)[agents] != said)
        for row in rows[other].tolist():
            message = f"{ENTITIES.path}: {piece['id'][row]} is not by the model that its call asked"
            self._findings.add("lineage_differs", message, ENTITIES.path)

    def _read_derivations(self) -> int:
        followed = [self._kinds.among(("image", "video")), self._kinds.among(("source",))]
        entities = self._entities
        self._is_edited, self._is_prompted = (np.zeros(len(entities.kinds), bool) for _ in range(2))
        count, last = 0, None
        for piece in self._pieces(DERIVATIONS, ("role",)):
            self._check_vocabulary(DERIVATIONS, "role", piece["role"].dictionary)
            child, parent = words_of(piece["child"]), words_of(piece["parent"])
            below = self._check_places(DERIVATIONS, "child", child)
            above = self._check_places(DERIVATIONS, "parent", parent)
            self._used[ENTITIES.name][above[above >= 0]] = True
            last = self._check_rising(DERIVATIONS, child, last)
            roles = self._roles.numbers(piece["role"])
            is_known = (below >= 0) & (above >= 0)
            describing = is_known & np.isin(roles, self._roles.among(_DESCRIBING))
            describing &= np.isin(entities.kinds[below], self._kinds.among(_TEXTS))
            self._describing.append((below[describing], above[describing]))
            upward = is_known & np.isin(roles, self._roles.among(_UP))
            upward &= np.isin(entities.kinds[below], followed[0])
            upward &= np.isin(entities.kinds[above], followed[0] + followed[1])
            self._upward.append((below[upward], above[upward]))
            edits = is_known & np.isin(roles, self._roles.among((Role.EDITED_FROM,)))
            self._is_edited[below[edits]] = True
            self._edits.update(zip(above[edits].tolist(), below[edits].tolist(), strict=True))
            prompted = is_known & np.isin(roles, self._roles.among((Role.PROMPTED_BY,)))
            self._is_prompted[below[prompted]] = True
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
        entities = self._entities
        folded = np.full(len(entities.states), self._states.number("proposed"), np.int16)
        is_withdrawn = np.zeros(len(folded), bool)
        self._is_decided = np.zeros(len(folded), bool)
        is_person = np.array([agent.kind == "person" for agent in self._agents] + [False])
        count, last, number = 0, None, -1
        for piece in self._pieces(DECISIONS, ("verdict", "agent", "reason")):
            entity, numbers = words_of(piece["entity"]), numbers_in(piece["number"])
            places = self._check_places(DECISIONS, "entity", entity)
            agents = self._refer(DECISIONS, AGENTS, "agent", words_of(piece["agent"]))
            self._check_vocabulary(DECISIONS, "verdict", piece["verdict"].dictionary)
            before = np.concatenate([entity[:1] if last is None else last, entity[:-1]])
            is_same = np.all(entity == before, axis=1)
            wanted = np.where(is_same, np.concatenate([[number], numbers[:-1]]) + 1, 0)
            if np.any(numbers != wanted):
                message = f"{DECISIONS.path}: the decisions on an entity are not numbered from 0"
                self._findings.add("lineage_unsorted", message, DECISIONS.path)
            last = self._check_rising(DECISIONS, entity, last)
            number = int(numbers[-1])
            count += len(entity)
            self._check_successors(piece, places)
            verdicts = piece["verdict"]
            reached = [STATE_AFTER.get(one, one) for one in verdicts.dictionary.to_pylist()]
            states = pa.DictionaryArray.from_arrays(verdicts.indices, text_array(reached))
            folded[places] = self._states.numbers(states)  # in their order: the last one counts
            reopens = _is_word(verdicts, "reopen")
            is_withdrawn[places[_is_word(verdicts, "withdraw")]] = True
            counts = is_person[agents] | reopens
            self._is_decided[places[counts]] = ~reopens[counts]
        folded[is_withdrawn] = self._states.number("withdrawn")
        other = np.flatnonzero(folded[:-1] != entities.states[:-1])
        if len(other):
            message = (
                f"{ENTITIES.path} says a state of {entities.ids.shown(int(other[0]))} that the "
                f"decisions in {DECISIONS.path} do not lead to"
            )
            self._findings.add("lineage_differs", message, ENTITIES.path)
        return count

    def _check_successors(self, piece: pa.RecordBatch, places: _Places) -> None:
        """An edit has a successor, which was edited from the entity; nothing else has one."""
        successors = piece["successor"]
        is_wrong = numbers_in(successors.is_valid()).astype(bool)
        rows = np.flatnonzero(is_wrong)
        later = self._entities.ids.places(words_of(successors.drop_null()))
        links = zip(places[rows].tolist(), later.tolist(), strict=True)
        is_other = [one[1] >= 0 and one not in self._edits for one in links]
        is_wrong ^= _is_word(piece["verdict"], "edit")
        is_wrong[rows[is_other]] = True
        for at in np.flatnonzero(is_wrong).tolist():
            verdict = piece["verdict"][at].as_py()
            what = f"{piece['entity'][at]} has the verdict {verdict!r} and the successor"
            message = f"{DECISIONS.path}: {what} {piece['successor'][at]}, which was not made of it"
            self._findings.add("lineage_differs", message, DECISIONS.path)

    def _remember(self, table: LineageTable, ids: Sequence[Words]) -> int:
        """Keeps the ids of a table for those that refer to it; how many there are."""
        known = self._known[table.name] = SortedIds(ids)
        self._used[table.name] = np.zeros(len(known), bool)
        if not known.is_sorted():
            self._add_unsorted(table)
        return len(known)

    def _pieces(self, table: LineageTable, encoded: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The columns that are checked, a piece at a time; the `encoded` ones as dictionaries."""
        yield from pieces(self._folder, table, table.schema.names, encoded)

    def _check_vocabulary(self, table: LineageTable, column: str, words: pa.Array) -> None:
        known = _VOCABULARY[table.name, column]
        for word in words.to_pylist()[:_MOST_WORDS]:
            if word not in known:
                self._add_word(table, column, word, known)

    def _add_word(
        self, table: LineageTable, column: str, word: str, known: Collection[str]
    ) -> None:
        wanted = ", ".join(sorted(known)) if len(known) < _FEW else "one that Loupe knows"
        message = f"{table.path}: {column} {word!r:.100} is unknown; it must be {wanted}"
        self._findings.add("lineage_unknown_word", message, table.path)

    def _refer(
        self, table: LineageTable, other: LineageTable, column: str, words: Words
    ) -> _Places:
        """The places of ids in a table that was read before, which must have them."""
        places = self._known[other.name].places(words)
        self._used[other.name][places[places >= 0]] = True
        if np.any(missing := places < 0):
            self._add_broken(f"{table.path}: {column}", other, words[missing])
        return places

    def _check_places(self, table: LineageTable, column: str, words: Words) -> _Places:
        places = self._entities.ids.places(words)
        if np.any(missing := places < 0):
            self._add_broken(f"{table.path}: {column}", ENTITIES, words[missing])
        return places

    def _add_unsorted(self, table: LineageTable) -> None:
        message = f"{table.path} is not sorted by {', '.join(table.key_columns)}, or has rows twice"
        self._findings.add("lineage_unsorted", message, table.path)

    def _add_broken(self, place: str, table: LineageTable, missing: Words) -> None:
        message = f"{place} names {_shown(missing[0])}, which is not in {table.path}"
        more = f" ({len(missing) - 1:,} more)" if len(missing) > 1 else ""
        self._findings.add("lineage_broken", message + more, place.partition(":")[0])

    def check_used(self) -> None:
        """Every row of a table must be named by another, by the rows, or by the manifest.

        Where anything else is wrong, that may be why one is not.
        """
        if self._findings.problems:
            return
        stated = self._manifest.statistics.tracklets
        decided = sum(bool(self._is_decided[one]) for one in self._tracklets)
        details = (stated.released, stated.reviewed) if stated else (0, 0)
        if details != (len(self._tracklets), decided):
            message = f"{MANIFEST} counts other tracklets than the rows and {DECISIONS.path} have"
            self._findings.add("statistics_differ", message, MANIFEST)
        self._used[CALLS.name] ^= self._calls.is_left_out  # these are named by nothing
        for table in (AGENTS, ACTIVITIES, CALLS, ENTITIES):
            if len(idle := np.flatnonzero(~self._used[table.name])):
                ids = {CALLS.name: self._calls.ids, ENTITIES.name: self._entities.ids}
                known = ids.get(table.name) or self._known[table.name]
                message = f"{table.path} has {known.shown(int(idle[0]))}, which nothing came of"
                self._findings.add("lineage_unused", message, table.path)

    def check_manifest(self) -> None:
        """Sources, prompts, videos and models of the manifest must be those of the lineage."""
        stated = self._manifest
        for kind, many in (
            ("source", stated.sources),
            ("prompt", stated.prompts),
            ("video", stated.videos),
            (TermsCorrection.kind, stated.corrections),
        ):
            ids = [one.entity_id for one in many]
            places = self._entities.ids.places(words_of_texts(ids))
            self._used[ENTITIES.name][places[places >= 0]] = True
            for entity, is_wrong in zip(ids, self._is_none_of(places, (kind,)), strict=True):
                if is_wrong:
                    message = f"{ENTITIES.path} has no {kind} {entity}; {MANIFEST} names it"
                    self._findings.add("lineage_incomplete", message, ENTITIES.path)
        for source in stated.sources:
            self._check_record(source.entity_id, source.as_imported())
            self._check_correction(source)
        for prompt in stated.prompts:
            values = prompt.model_dump(exclude={"entity_id"})
            self._check_record(prompt.entity_id, PromptText(**values))
        for video in stated.videos:
            self._check_video(video)
        self._check_models()
        for tracker in set(stated.trackers) - self._fingerprints.authors:
            message = f"{MANIFEST} lists the tracker {tracker}, of which the lineage has no track"
            self._findings.add("lineage_differs", message, MANIFEST)

    def _check_record(self, entity_id: str, record: EntityRecord) -> None:
        """What the manifest says must make the payload that the lineage has."""
        if entity_id not in self._payloads:
            return
        state, payload, withheld = self._payloads[entity_id]
        if (payload, tuple(withheld)) != published_payload(record.kind, state, record.payload()):
            message = (
                f"{MANIFEST} says of the {record.kind} {entity_id} what {ENTITIES.path} does not"
            )
            self._findings.add("lineage_differs", message, MANIFEST)

    def _check_correction(self, source: ReleasedSource) -> None:
        """The terms that are shown must be those of the last correction, if there is any."""
        shown, corrected = source.correction, source.as_correction()
        if shown is not None and corrected is not None:
            self._check_record(shown.entity_id, corrected)
        last = self._corrected.get(source.entity_id, 0)
        if last > (shown.number if shown else 0):
            message = (
                f"{MANIFEST} shows terms of the source {source.name!r} that {ENTITIES.path} has "
                f"corrected ({last})"
            )
            self._findings.add("lineage_differs", message, MANIFEST)

    def _check_video(self, video: ReleasedVideo) -> None:
        _, payload, withheld = self._payloads.get(video.entity_id, ("", None, []))
        if payload is None or withheld:
            return
        known = Video.model_validate_json(payload)
        details = (known.source, known.file_path, known.sha256, known.facts.duration_seconds)
        if details != (video.source, video.file_path, video.sha256, video.duration_seconds):
            message = (
                f"{MANIFEST} says of the video {video.entity_id} what {ENTITIES.path} does not"
            )
            self._findings.add("lineage_differs", message, MANIFEST)

    def _check_models(self) -> None:
        """Calls, tokens and money must add up; models without a call must have written."""
        stated = self._manifest.models
        if tuple(one for one in stated if one.calls) != self._models:
            message = f"{MANIFEST} says of models what the calls in {CALLS.path} do not add up to"
            self._findings.add("lineage_differs", message, MANIFEST)
        for one in stated:
            name = f"{one.name}@{one.revision}"
            unused = ModelUse.unused(one.name, one.revision)
            if not one.calls and (one != unused or name not in self._fingerprints.authors):
                message = f"{MANIFEST} lists the model {name}, of which the lineage has no text"
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
        path = self._folder / shard
        with opened_parquet(path) as file:
            for piece in bounded_batches(file, path, PIECE_ROWS, columns=_columns(file)):
                named = self._named_in(piece)
                for column, kinds in _ROW_COLUMNS.items():
                    if column in named:
                        self._check_named(shard, named[column], column, kinds)
                for column, (said, what) in _SAID.items():
                    if column in named:
                        content = self._entities.content
                        self._check_said(shard, piece, named[column], said, what, content)
                for column, said in _AUTHORS.items():
                    if column in named:
                        facts = self._entities.facts
                        self._check_said(shard, piece, named[column], said, "the author", facts)
                images = named["image_entity_id"]
                if not self._findings.tells_of(shard):  # else these may follow from that
                    self._check_images(shard, piece, images)
                    self._check_made(shard, piece, named["caption_entity_ids"])
                for column in _OF_THE_IMAGE:
                    if column in named:
                        self._check_described(shard, named[column], images, self._described)
                self._check_sources(shard, piece, images, self._reached)
                self._rows += piece.num_rows
                give_back()

    def _named_in(self, piece: pa.RecordBatch) -> dict[str, _Named]:
        """The entities that rows name, by the column that names them; each names an image.

        Raises:
            ValueError: one has no image, or what it names is no id.
        """
        if piece["image_entity_id"].null_count:
            raise ValueError("a row has no image_entity_id")
        named = {}
        for column in _ROW_COLUMNS:
            if (found := _values(piece, column)) is not None:
                rows, ids = found
                named[column] = _Named(rows, ids, self._entities.ids.places(words_of(ids)))
        return named

    def _check_images(self, shard: str, piece: pa.RecordBatch, images: _Named) -> None:
        """Identity, path, size, contrast and terms of rows must be those of their images."""
        places = images.places
        columns = [name for name in _IMAGE_COLUMNS if name in piece.schema.names]
        said = self._fingerprints.of_rows(piece.select(columns).to_pylist())
        other = (places >= 0) & ~self._entities.is_partial[places]
        other &= self._entities.facts[places] != said
        what = f"says other facts of its image {{}} than {ENTITIES.path}"
        self._add_first(shard, images, other, what)

    def _check_made(self, shard: str, piece: pa.RecordBatch, captions: _Named) -> None:
        """How captions came about, and whether people decided on them, must follow from links."""
        origins, reviewed = (
            _values(piece, name) for name in ("caption_origins", "caption_reviewed")
        )
        if origins is None or reviewed is None:
            return
        rows, places = captions.rows, captions.places
        if not (np.array_equal(rows, origins[0]) and np.array_equal(rows, reviewed[0])):
            return  # named with the other faults of rows
        edited, prompted = self._is_edited[places], self._is_prompted[places]
        is_rewrite = np.isin(self._entities.kinds[places], self._kinds.among(("rewrite",)))
        wanted = edited | self._is_decided[places]
        is_other = (places >= 0) & (numbers_in(reviewed[1]).astype(bool) != wanted)
        what = f"says whether a person decided on {{}} otherwise than {DECISIONS.path}"
        self._add_first(shard, captions, is_other, what)
        possible = np.select(
            [is_rewrite & edited, is_rewrite, edited, prompted], [0, 1, 2, 3], default=4
        )
        words = origins[1].dictionary_encode()
        may_be = [[one in kind for one in words.dictionary.to_pylist()] for kind in _ORIGINS]
        is_right = np.array(may_be, bool)[possible, numbers_in(words.indices)]
        what = f"says how {{}} came about otherwise than {DERIVATIONS.path}"
        self._add_first(shard, captions, (places >= 0) & ~is_right, what)

    def _add_first(
        self, shard: str, named: _Named, wrong: _Marks, what: str, fault: str = "lineage_differs"
    ) -> None:
        """Names the first entity of which something is wrong; `what` has a place for it."""
        if np.any(wrong):
            at = int(np.flatnonzero(wrong)[0])
            row = self._rows + int(named.rows[at]) + 1
            self._findings.add_row(fault, what.format(named.ids[at]), shard, row)

    def _check_named(self, shard: str, named: _Named, column: str, kinds: tuple[str, ...]) -> None:
        places = named.places
        self._used[ENTITIES.name][places[places >= 0]] = True
        if kinds == ("tracklet",):
            self._tracklets.update(places[places >= 0].tolist())
        wrong = self._is_none_of(places, kinds)
        what = f"names {{}}, and {ENTITIES.path} has no {' or '.join(kinds)} of it"
        self._add_first(shard, named, wrong, what, "lineage_incomplete")
        if column == "image_entity_id" or kinds == _TEXTS:
            live = np.isin(self._entities.states[places], self._states.among(_LIVE))
            what = f"holds {{}}, which was turned down by {ENTITIES.path}"
            self._add_first(shard, named, ~wrong & ~live, what, "lineage_turned_down")

    def _check_said(
        self,
        shard: str,
        piece: pa.RecordBatch,
        named: _Named,
        said: str,
        what: str,
        wanted: NDArray[np.int64],
    ) -> None:
        places, beside = named.places, _values(piece, said)
        if beside is None or not np.array_equal(named.rows, beside[0]):
            return  # named with the other faults of rows
        other = (places >= 0) & (wanted[places] != numbers_of(beside[1].to_pylist()))
        self._add_first(shard, named, other, f"has not {what} of {{}} that {ENTITIES.path} has")

    def _check_described(
        self, shard: str, texts: _Named, images: _Named, described: _Places
    ) -> None:
        """The texts of a row must be of its image."""
        places = texts.places
        other = (places >= 0) & (described[places] != images.places[texts.rows])
        what = f"has {{}}, which does not describe its image by {DERIVATIONS.path}"
        self._add_first(shard, texts, other, what)

    def _is_none_of(self, places: _Places, kinds: tuple[str, ...]) -> NDArray[np.bool_]:
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
        self, shard: str, piece: pa.RecordBatch, images: _Named, reached: dict[str, _Marks]
    ) -> None:
        places = images.places
        sources = piece["source"].dictionary_encode("encode")
        numbers, names = numbers_in(sources.indices), sources.dictionary.to_pylist()
        for name, marks in reached.items():
            is_from = np.isin(numbers, [at for at, one in enumerate(names) if one == name])
            lost = is_from & (places >= 0) & ~marks[places]
            shown = repr(name).replace("{", "{{").replace("}", "}}")
            what = f"is from {shown}, to which its image does not lead"
            self._add_first(shard, images, lost, what, "source_unreached")


def _lists(piece: pa.RecordBatch, table: LineageTable) -> list[list[Any]]:
    """The columns of a table."""
    return [piece[name].to_pylist() for name in table.schema.names]


def _is_word(column: pa.DictionaryArray, word: str) -> _Marks:
    """In which rows a column has this word."""
    words = [one == word for one in column.dictionary.to_pylist()]
    return np.array(words, bool)[numbers_in(column.indices)]


def _taken(column: pa.DictionaryArray, rows: _Marks) -> set[str]:
    """The words that a column has in these rows."""
    words = column.dictionary.to_pylist()
    return {words[at] for at in np.unique(numbers_in(column.indices)[rows]).tolist()}


def _is_withheld(kind: str, payload: str | None, withheld: Sequence[str]) -> bool:
    """Whether this may be left out of an entity of a kind that is released so."""
    if payload is None or WITHHELD_WHOLE in withheld:
        return payload is None and list(withheld) == [WITHHELD_WHOLE]
    values = json.loads(payload)
    may_go = {*WITHHELD.get(kind, ()), *(values if isinstance(values, dict) else ())}
    return len(set(withheld)) == len(withheld) and may_go >= set(withheld)


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
    wanted = {*_ROW_COLUMNS, *(said for said, _ in _SAID.values()), *_AUTHORS.values()}
    wanted |= {*_IMAGE_COLUMNS, "caption_origins", "caption_reviewed"}
    found = {one for one in wanted if one in leaves or f"{one}.list.element" in leaves}
    return sorted(found | {one for one in leaves if one.startswith("contrast.")})


def _values(piece: pa.RecordBatch, column: str) -> tuple[_Places, pa.Array] | None:
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
