"""Checks the tables of `lineage/` against each other, the rows and the manifest.

Columns are read in pieces and compared as arrays; only ids and numbers are kept in memory. The ids
of entities, activities and agents are digests of their contents, so that a changed value is
detected by its id. Of entities with withheld parts, only form, links and states are compared.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
    Ids,
    PayloadFingerprints,
    SortedIds,
    array_of,
    framed_column,
    hash_of_crop,
    hex_of,
    ids_in,
    ids_of,
    images_of,
    numbers_in,
    numbers_of,
    pieces,
    release_memory,
    text_array,
    text_scalar,
    truths_in,
)
from release.manifest import MANIFEST
from release.model_use import model_uses
from release.parquet import bounded_batches, opened_parquet
from release.rows import BESIDE_IMAGES
from schemas.base import ID_BYTES, EntityRecord, digest_of, entity_id, unframed
from schemas.provenance import (
    ANSWERED,
    PROMOTE,
    STATE_AFTER,
    WITHHELD_WHOLE,
    AgentKind,
    CallRow,
    Promotion,
    Role,
)
from schemas.records import PromptText, Shard, TermsCorrection
from schemas.release import Manifest, ModelUse
from schemas.validation import fault_of
from schemas.video import LINKED_LATER, Video

_Numbers = NDArray[np.int64]
_Words = NDArray[np.int16]
_Marks = NDArray[np.bool_]


def _numbered(words: Iterable[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(words)}


_KINDS = _numbered(WHOLE | WITHHELD.keys())
_STATES = _numbered(["proposed", *STATE_AFTER.values()])
_ROLES = _numbered(Role)
_VERDICTS = _numbered(STATE_AFTER)
_VOCABULARY: dict[tuple[str, str], Mapping[str, int]] = {
    ("entities", "kind"): _KINDS,
    ("entities", "state"): _STATES,
    ("derivations", "role"): _ROLES,
    ("decisions", "verdict"): _VERDICTS,
    ("calls", "use"): _numbered(CallUse),
    ("agents", "kind"): _numbered(get_args(AgentKind)),
}
"""The words of columns with a fixed vocabulary, and their numbers; any other word is a fault."""
_UNKNOWN = -1
_STATE_AFTER = np.array([*(_STATES[state] for state in STATE_AFTER.values()), _UNKNOWN], np.int16)
"""The number of the state after each verdict; the last is for unknown verdicts."""
_FEW = 10
_CALL_COLUMNS = (
    *("parameters", "tokens_in", "tokens_out", "cost", "currency", "served", "prompt_digest"),
)
_MOST_KINDS_OF_CALLS = 100_000
_UP = (Role.IMPORTED_FROM, Role.SAMPLED_FROM, Role.CROP_OF)
"""The roles of links from images and videos to their source, as in `db.release_rows`."""
_DESCRIBING = (Role.DESCRIBES, Role.REWRITE_OF, Role.EDITED_FROM)
"""The roles of links from texts to the image that they describe, as for `_UP`."""
_PROMOTED = frozenset({Role.PROMOTED_FROM, Role.PROMOTED_WITH})
"""The roles of links from promoted entities to shards, which are part of no id."""
_LIVE = ("proposed", "accepted")
_TEXTS = ("caption", "rewrite")


class _EntityColumn(NamedTuple):
    """A column of rows that refers to entities.

    Attributes:
        kinds: the kinds that these entities may have.
        content: the column of the row that repeats the digest of an image, or the text.
        author: the column of the row that repeats the author.
        of_image: whether the texts describe the image of their row.
    """

    kinds: tuple[str, ...]
    content: str | None = None
    author: str | None = None
    of_image: bool = False


_ELEMENT = "translations.list.element"
_ENTITY_COLUMNS: dict[str, _EntityColumn] = {
    "image_entity_id": _EntityColumn(("image",), "sha256"),
    "caption_entity_ids": _EntityColumn(_TEXTS, "captions", "caption_authors", of_image=True),
    "coarse_caption_entity_ids": _EntityColumn(_TEXTS, "coarse_captions", of_image=True),
    f"{_ELEMENT}.entity_id": _EntityColumn(_TEXTS, f"{_ELEMENT}.text", f"{_ELEMENT}.author"),
    "crop.tracklet_entity_id": _EntityColumn(("tracklet",)),
    "crop.video_entity_id": _EntityColumn(("video",)),
    "contrast.anchor_entity_id": _EntityColumn(("image",)),
}
_IMAGE_COLUMNS = (
    *("source", "identity", "split", "source_file_path", "width_px", "height_px", "task", "tier"),
    *("contrast", "licence", "creator", "source_url"),
)
_ORIGINS = (
    *(("edited_rewrite",), ("rewrite",), ("edited", "edited_draft", "confirmed_draft")),
    *(("drafted",), ("written", "source")),
)
"""The origins of captions: edited rewrites, rewrites, edited, prompted and other captions."""
_ENTITY = np.dtype(
    [
        *(("kind", "i2"), ("state", "i2"), ("content", "i8"), ("facts", "i8"), ("described", "i8")),
        *(("is_partial", "?"), ("is_edited", "?"), ("is_prompted", "?"), ("is_decided", "?")),
    ]
)
"""What is stored of an entity.

The numbers of its kind and state, its hashes by `release.lineage.ids`, the position of the image
that it describes, and whether something of it is withheld, it is an edit, a prompt was used for it,
and a person decided on it.
"""
_NO_ENTITY = np.array([(_UNKNOWN, _UNKNOWN, 0, 0, -1, False, False, False, False)], _ENTITY)


def verify_lineage(
    folder: Path, manifest: Manifest, shards: Sequence[str], findings: Findings
) -> None:
    """Report inconsistencies; `shards` are the files of the rows, in order."""
    if any(findings.concerns(table.path) for table in TABLES):
        return  # damaged tables are not compared, and reading them may fail
    missing = [table.path for table in TABLES if not (folder / table.path).is_file()]
    for path in missing:
        findings.add("file_missing", f"{path} is missing", path)
    if missing:
        return
    checks = _LineageChecks(folder, manifest, findings)
    for table in (AGENTS, ACTIVITIES, CALLS, ENTITIES, DERIVATIONS, DECISIONS):
        try:
            checks.read(table)
        except READING_FAULTS as error:
            what = f"{table.path} cannot be read: {fault_of(error)}"
            findings.add("lineage_unreadable", what, table.path)
            return
    checks.check_manifest()
    checks.follow_links()
    for shard in shards:
        try:
            checks.check_rows(shard)
        except READING_FAULTS as error:
            if not findings.concerns(shard):
                findings.add("rows_unreadable", f"{shard} cannot be read: {error}", shard)
            return
    checks.check_used()


class _Agent(NamedTuple):
    """A person, a model at a revision, or software at a version."""

    kind: AgentKind
    name: str
    revision: str


class _EntityReferences(NamedTuple):
    """The entities in a column of some rows: the row, id and list index of each."""

    rows: _Numbers
    ids: pa.StringArray
    places: _Numbers


class _Parents:
    """The parents of entities as they enter their ids, read in parallel with the entities."""

    def __init__(self, folder: Path) -> None:
        self._pieces = pieces(folder, DERIVATIONS)
        self._children = ids_of([])
        self._links = text_array([])

    def of(self, ids: Ids) -> pa.StringArray | None:
        """The framed parents of each of these ids, which must ascend from call to call.

        None if the derivations cannot be read, are in another order, or belong to no entity.
        """
        try:
            while not np.any(self._children > ids[-1]) and (piece := next(self._pieces, None)):
                links = pc.binary_join_element_wise(
                    piece["role"], piece["parent"], text_scalar("=")
                )
                self._children = np.concatenate([self._children, ids_in(piece["child"])])
                self._links = pa.concat_arrays([self._links, framed_column(links)])
        except READING_FAULTS:
            return None
        count = int(np.count_nonzero(self._children <= ids[-1]))
        children, links = self._children[:count], self._links[:count]
        self._children, self._links = self._children[count:], self._links[count:]
        places = SortedIds([ids]).places(children)
        if np.any(places < 0) or np.any(np.diff(places) < 0):
            return None
        ends = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=len(ids)))])
        of_each = pa.ListArray.from_arrays(array_of(ends).cast(pa.int32()), links)
        return pc.binary_join(of_each, text_scalar(""))


class _LineageChecks:
    """Reads the tables in the order of their references, and the rows last."""

    def __init__(self, folder: Path, manifest: Manifest, findings: Findings) -> None:
        self._folder = folder
        self._manifest = manifest
        self._findings = findings
        licences: dict[str, set[str]] = {}
        for source in manifest.sources:
            licences.setdefault(source.name, set()).add(source.licence)
        self._fingerprints = PayloadFingerprints(licences)
        self._ids = {table.name: SortedIds() for table in TABLES}
        self._used = {table.name: np.empty(0, bool) for table in TABLES}
        self._agents: list[_Agent] = []
        self._asked = np.empty(0, np.int64)  # the agent of each call
        self._left_out = np.empty(0, bool)  # calls that no entity in the tables derives from
        self._models: tuple[ModelUse, ...] = ()
        self._promoted = np.empty(0, "S32")  # activities and the entities that each names, as bytes
        self._promoting = np.empty(0, bool)  # activities that promote a record
        self._promoted_from: dict[str, set[tuple[str, str, int]]] = {}  # step, root, records
        self._entities = _NO_ENTITY  # the last element represents missing ids (position -1)
        self._payloads: dict[str, tuple[str, str | None, list[str]]] = {}
        self._corrected: Counter[str] = Counter()
        self._upward = [np.empty((2, 0), np.int64)]  # positions of children and of their parents
        self._describing = [np.empty((2, 0), np.int64)]
        self._edits: set[tuple[int, int]] = set()
        self._frames: set[int] = set()  # the hashes of the frames of tracklets
        self._tracklets: set[int] = set()
        self._reached: dict[str, _Marks] = {}
        self._rows = 0

    def read(self, table: LineageTable) -> None:
        """Check a table against those before it and those that it refers to.

        Raises:
            Exception: one of `READING_FAULTS` if it is not such a table, or cannot be read.
        """
        count = getattr(self, f"_read_{table.name}")()
        wanted = getattr(self._manifest.lineage, table.name)
        if count != wanted:
            self._add("totals_differ", table, f"has {count:,} rows; {MANIFEST} says {wanted:,}")

    def _read_agents(self) -> int:
        ids = []
        for piece in pieces(self._folder, AGENTS, ("kind",)):
            ids.append(ids_in(piece["id"]))
            self._codes(AGENTS, piece, "kind")
            for row in piece.to_pylist():
                agent = _Agent(row["kind"], row["name"], row["revision"])
                self._agents.append(agent)
                is_whole, withheld = digest_of("agent", *agent) == row["id"], set(row["withheld"])
                if is_whole is bool(withheld) or not {"name", "revision"} >= withheld:
                    self._add_other_id(AGENTS, row["id"])
        return self._register(AGENTS, ids)

    def _read_activities(self) -> int:
        ids, promoting, promoted = [], [], bytearray()
        for piece in pieces(self._folder, ACTIVITIES):
            ids.append(ids_in(piece["id"]))
            self._positions(ACTIVITIES, "agents", ids_in(piece["agents"].flatten()), AGENTS)
            _check_objects("configuration", piece["configuration"])
            for row in piece.to_pylist():
                id_, stage, configuration = row["id"], row["stage"], row["configuration"]
                content = (stage, row["version"], configuration, *row["agents"])
                if digest_of("activity", *content) != id_:
                    self._add_other_id(ACTIVITIES, id_)
                promoting.append(stage == PROMOTE)
                if stage == PROMOTE:
                    for name in self._read_promotion(configuration):
                        promoted += bytes.fromhex(id_ + name)
        self._promoting = np.array([*promoting, False])
        self._promoted = np.frombuffer(bytes(promoted), "S32")
        return self._register(ACTIVITIES, ids)

    def _read_promotion(self, configuration: str) -> Iterable[str]:
        """Check the proofs of a promoted record; return the ids of the entities that it became.

        Raises:
            ValueError: if it is not the configuration of a promotion.
        """
        promotion = Promotion.model_validate_json(configuration)
        for row in promotion.rows:
            stated = self._promoted_from.setdefault(row.shard, set())
            stated.add((row.step, row.root, row.records))
            if not row.is_proven(promotion.number):
                what = f"has a proof of record {promotion.number} that does not lead to the root of"
                self._differs(ACTIVITIES, f"{what} shard {row.shard}")
        return promotion.rows[0].names if promotion.rows else ()

    def _read_calls(self) -> int:
        ids, left_out, asked = [], [np.empty(0, bool)], [np.empty(0, np.int64)]
        counted: Counter[tuple[Any, ...]] = Counter()
        for piece in pieces(self._folder, CALLS, ("agent", "parameters", "served", "use")):
            ids.append(ids_in(piece["key"]))
            for name in ("parameters", "served"):
                _check_objects(name, piece[name].dictionary)
            asked.append(self._positions(CALLS, "agent", ids_in(piece["agent"]), AGENTS))
            uses = self._codes(CALLS, piece, "use")
            left_out.append(uses == _VOCABULARY["calls", "use"][CallUse.LEFT_OUT])
            self._check_numbers(piece)
            is_counted = uses != _VOCABULARY["calls", "use"][CallUse.OTHER]
            rows = _filtered(piece, is_counted)
            columns = (rows[name].to_pylist() for name in ("status", *_CALL_COLUMNS))
            agents = asked[-1][is_counted].tolist()
            for agent, status, *details in zip(agents, *columns, strict=True):
                counted[(agent, *details)] += 1
                if status not in ANSWERED:
                    self._add_word(CALLS, "status", status, ANSWERED)
            if len(counted) > _MOST_KINDS_OF_CALLS:
                raise ValueError(f"its calls are of more than {_MOST_KINDS_OF_CALLS:,} kinds")
        prompts = {prompt.digest for prompt in self._manifest.prompts}
        for digest in {key[-1] for key in counted} - prompts:
            self._differs(CALLS, f"names the prompt {digest!r}, which {MANIFEST} does not list")
        self._models = model_uses(self._call_rows(counted), ())
        self._asked, self._left_out = np.concatenate(asked), np.concatenate(left_out)
        return self._register(CALLS, ids)

    def _call_rows(self, counted: Counter[tuple[Any, ...]]) -> Iterator[CallRow]:
        for (agent, parameters, *answer, _), count in counted.items():
            if agent >= 0:
                _, name, revision = self._agents[agent]
                yield CallRow._make((name, revision, json.loads(parameters), *answer, count))

    def _check_numbers(self, piece: pa.RecordBatch) -> None:
        for name in ("tokens_in", "tokens_out", "cost"):
            values = piece[name].drop_null().to_pylist()
            if any(value < 0 or not math.isfinite(value) for value in values):
                self._differs(CALLS, f"says {name} is {min(values)}; it must be 0 or more")
        if np.any(truths_in(piece["cost"].is_valid()) > truths_in(piece["currency"].is_valid())):
            self._differs(CALLS, "says a cost without a currency")

    def _read_entities(self) -> int:
        ids, found = [], []
        parents, doubtful, datasets = _Parents(self._folder), set(), {self._manifest.dataset}
        named = ids_of(self._manifest.stated_entities)
        author_of_agent = numbers_of(f"{one.name}@{one.revision}" for one in self._agents)
        for piece in pieces(self._folder, ENTITIES, ("dataset", "kind", "state", "activity")):
            ids.append(ids_in(piece["id"]))
            found.append(entities := np.zeros(piece.num_rows, _ENTITY))
            entities["kind"] = kinds = self._codes(ENTITIES, piece, "kind")
            entities["state"] = self._codes(ENTITIES, piece, "state")
            content, facts = self._fingerprints.of(piece["kind"], piece["payload"])
            entities["content"], entities["facts"] = content, facts
            is_partial = numbers_in(pc.list_value_length(piece["withheld"])) > 0
            entities["is_partial"] = is_partial
            self._check_ids(piece, ids[-1], is_partial, parents)
            self._check_withheld(piece, is_partial)
            doubtful |= _different(piece["dataset"], is_partial)
            datasets |= _different(piece["dataset"], ~is_partial)
            self._check_promoted(piece, ids[-1], kinds)
            self._check_calls(piece, facts, author_of_agent)
            is_correction = kinds == _KINDS[TermsCorrection.kind]
            for row in _filtered(piece, is_correction | np.isin(ids[-1], named)).to_pylist():
                self._remember_payload(row, named)
            if self._manifest.videos:
                for row in _filtered(piece, kinds == _KINDS["tracklet"]).to_pylist():
                    self._frames.update(self._fingerprints.of_crops(row["payload"], row["id"]))
        for missing in self._promoted_from:
            self._add("lineage_incomplete", ENTITIES, f"has no shard {missing}; an activity does")
        for dataset in doubtful - datasets:
            self._add_word(ENTITIES, "dataset", dataset, datasets)
        self._entities = np.concatenate([*found, _NO_ENTITY])
        return self._register(ENTITIES, ids)

    def _check_promoted(self, piece: pa.RecordBatch, ids: Ids, kinds: _Words) -> None:
        """Check that activities exist, and that promoted entities and their shards match them."""
        activities = ids_in(piece["activity"])
        places = self._positions(ENTITIES, "activity", activities, ACTIVITIES)
        rows = np.flatnonzero(self._promoting[places])
        pairs = np.stack([activities[rows], ids[rows]], axis=1).view("S32").reshape(-1)
        for at in rows[~np.isin(pairs, self._promoted)].tolist():
            what = f"says that {hex_of(ids[at])} was promoted from a row that does not name it"
            self._differs(ENTITIES, what)
        for row in _filtered(piece, kinds == _KINDS[Shard.kind]).to_pylist():
            stated = self._promoted_from.pop(row["id"], set())
            if row["state"] == "withdrawn":
                continue  # its root is not released
            shard = Shard.model_validate_json(row["payload"] or "")
            if not stated <= {(shard.step, shard.root, shard.records)}:
                self._differs(ACTIVITIES, f"states another root or size of the shard {row['id']}")

    def _remember_payload(self, row: Mapping[str, Any], named: Ids) -> None:
        """Store an entity that the manifest names, or a correction of the terms of a source.

        Raises:
            ValueError: if the payload is not a correction.
        """
        if row["kind"] == TermsCorrection.kind and row["payload"] is not None:
            one = TermsCorrection.model_validate_json(row["payload"])
            self._corrected[one.source_id] = max(one.number, self._corrected[one.source_id])
        if np.isin(ids_of([row["id"]]), named):
            self._payloads[row["id"]] = (row["state"], row["payload"], row["withheld"])

    def _check_ids(
        self, piece: pa.RecordBatch, ids: Ids, is_partial: _Marks, parents: _Parents
    ) -> None:
        """Check that ids are digests of the entities, unless parts are withheld."""
        if (parts := parents.of(ids)) is None:
            return  # reported with the derivations
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
        made = np.frombuffer(b"".join(digests), ids.dtype)
        for at in whole[made != ids[whole]].tolist():
            dataset, kind, payload, id_ = (
                piece[name][at].as_py() for name in ("dataset", "kind", "payload", "id")
            )
            later = LINKED_LATER.get(kind, frozenset()) | _PROMOTED
            links = [link.split("=", 1) for link in unframed(parts[at].as_py().encode())]
            first = [(role, parent) for role, parent in links if role not in later]
            if len(first) == len(links) or entity_id(dataset, kind, payload, first) != id_:
                self._add_other_id(ENTITIES, id_)

    def _check_withheld(self, piece: pa.RecordBatch, is_partial: _Marks) -> None:
        """Check that omitted fields are named correctly."""
        for row in _filtered(piece, is_partial).to_pylist():
            if not _is_withheld(row["kind"], row["payload"], row["withheld"]):
                what = f"says that {row['withheld']!r:.100} is left out of {row['id']}"
                self._differs(ENTITIES, what)

    def _check_calls(
        self, piece: pa.RecordBatch, authors: _Numbers, author_of_agent: _Numbers
    ) -> None:
        """Check that calls exist, and that their texts name the model that was called."""
        is_called = truths_in(piece["model_call"].is_valid())
        keys = ids_in(piece["model_call"].drop_null())
        calls = self._positions(ENTITIES, "model_call", keys, CALLS)
        agents = np.append(self._asked, -1)[calls]
        said = authors[is_called]
        other = (agents >= 0) & (said != 0) & (np.append(author_of_agent, 0)[agents] != said)
        for row in np.flatnonzero(is_called)[other].tolist():
            self._differs(ENTITIES, f"says {piece['id'][row]} is not by the model of its call")

    def _read_derivations(self) -> int:
        kinds = self._entities["kind"]
        count, last = 0, ids_of([])
        for piece in pieces(self._folder, DERIVATIONS, ("role",)):
            child = ids_in(piece["child"])
            below = self._positions(DERIVATIONS, "child", child, ENTITIES, is_use=False)
            above = self._positions(DERIVATIONS, "parent", ids_in(piece["parent"]), ENTITIES)
            last = self._check_rising(DERIVATIONS, child, last)
            roles = self._codes(DERIVATIONS, piece, "role")
            roles[(below < 0) | (above < 0)] = _UNKNOWN
            describing = _is_any(roles, _ROLES, *_DESCRIBING) & _is_any(
                kinds[below], _KINDS, *_TEXTS
            )
            self._describing.append(np.stack([below, above])[:, describing])
            upward = _is_any(roles, _ROLES, *_UP) & _is_any(kinds[below], _KINDS, "image", "video")
            upward &= _is_any(kinds[above], _KINDS, "image", "video", "source")
            self._upward.append(np.stack([below, above])[:, upward])
            edits = roles == _ROLES[Role.EDITED_FROM]
            self._entities["is_edited"][below[edits]] = True
            self._edits.update(zip(above[edits].tolist(), below[edits].tolist(), strict=True))
            prompted = below[roles == _ROLES[Role.PROMPTED_BY]]
            self._entities["is_prompted"][prompted] = True
            count += len(child)
        return count

    def _check_rising(self, table: LineageTable, ids: Ids, last: Ids) -> Ids:
        """Check that the ids by which rows are looked up ascend; returns the last of them."""
        rows = np.concatenate([last, ids])
        if np.any(rows[:-1] > rows[1:]):
            self._add_unsorted(table)
        return rows[-1:]

    def _read_decisions(self) -> int:
        states = self._entities["state"]
        folded = np.full(len(states), _STATES["proposed"], np.int16)
        is_withdrawn = np.zeros(len(states), bool)
        is_person = np.array([agent.kind == "person" for agent in self._agents] + [False])
        count, last, number = 0, ids_of([]), -1
        for piece in pieces(self._folder, DECISIONS, ("verdict", "agent", "reason")):
            entity, numbers = ids_in(piece["entity"]), numbers_in(piece["number"])
            places = self._positions(DECISIONS, "entity", entity, ENTITIES, is_use=False)
            agents = self._positions(DECISIONS, "agent", ids_in(piece["agent"]), AGENTS)
            verdicts = self._codes(DECISIONS, piece, "verdict")
            is_same = np.concatenate([last if len(last) else entity[:1], entity[:-1]]) == entity
            wanted = np.where(is_same, np.concatenate([[number], numbers[:-1]]) + 1, 0)
            if np.any(numbers != wanted):
                what = "does not number the decisions on an entity from 0"
                self._add("lineage_unsorted", DECISIONS, what)
            last, number = self._check_rising(DECISIONS, entity, last), int(numbers[-1])
            count += len(entity)
            self._check_successors(piece, verdicts, places)
            folded[places] = _STATE_AFTER[verdicts]  # in order: the last one counts
            is_withdrawn[places[verdicts == _VERDICTS["withdraw"]]] = True
            reopens = verdicts == _VERDICTS["reopen"]
            counts = is_person[agents] | reopens
            self._entities["is_decided"][places[counts]] = ~reopens[counts]
        folded[is_withdrawn] = _STATES["withdrawn"]
        other = np.flatnonzero(folded[:-1] != states[:-1])
        if len(other):
            shown = hex_of(self._ids[ENTITIES.name].ids[other[0]])
            what = f"says a state of {shown} that does not follow from {DECISIONS.path}"
            self._differs(ENTITIES, what)
        return count

    def _check_successors(self, piece: pa.RecordBatch, verdicts: _Words, places: _Numbers) -> None:
        """Check that edited entities have a successor edited from them, and others have none."""
        has_one = truths_in(piece["successor"].is_valid())
        rows = np.flatnonzero(has_one)
        later = self._ids[ENTITIES.name].places(ids_in(piece["successor"].drop_null()))
        links = zip(places[rows].tolist(), later.tolist(), strict=True)
        is_wrong = has_one ^ (verdicts == _VERDICTS["edit"])
        is_wrong[rows[[one[1] >= 0 and one not in self._edits for one in links]]] = True
        for at in np.flatnonzero(is_wrong).tolist():
            entity, verdict, successor = (
                piece[name][at].as_py() for name in ("entity", "verdict", "successor")
            )
            what = f"says {entity} has the verdict {verdict!r} and the successor {successor}"
            self._differs(DECISIONS, f"{what}, which was not edited from it")

    def check_manifest(self) -> None:
        """Check the manifest's sources, prompts, videos and models against the lineage."""
        stated = self._manifest
        records: list[tuple[str, EntityRecord | None]] = []
        for source in stated.sources:
            records.append((source.entity_id, source.as_imported()))
            if (shown := source.correction) is not None:
                records.append((shown.entity_id, source.as_correction()))
            last = self._corrected[source.entity_id]
            if last > (shown.number if shown else 0):
                what = (
                    f"shows terms of the source {source.name!r} that {ENTITIES.path} has corrected"
                )
                self._differs(None, f"{what} ({last})")
        for prompt in stated.prompts:
            values = prompt.model_dump(exclude={"entity_id"})
            records.append((prompt.entity_id, PromptText(**values)))
        for id_, record in records:
            if record is not None and self._is_there(record.kind, id_):
                state, payload, withheld = self._payloads[id_]
                made = published_payload(record.kind, state, record.payload())
                if (payload, tuple(withheld)) != made:
                    self._differs_in_facts(record.kind, id_)
        for video in stated.videos:
            _, payload, withheld = self._payloads.get(video.entity_id, ("", None, []))
            if self._is_there(Video.kind, video.entity_id) and payload and not withheld:
                known = Video.model_validate_json(payload)
                seconds = known.facts.duration_seconds
                details = (known.source, known.file_path, known.sha256, seconds)
                said = (video.source, video.file_path, video.sha256, video.duration_seconds)
                if details != said:
                    self._differs_in_facts(Video.kind, video.entity_id)
        self._check_models()
        for tracker in set(stated.trackers) - self._fingerprints.authors:
            self._differs(None, f"lists the tracker {tracker}, but the lineage has no track by it")

    def _is_there(self, kind: str, id_: str) -> bool:
        """Whether the lineage has an entity that the manifest names; reported if not."""
        (place,) = self._ids[ENTITIES.name].places(ids_of([id_]))
        is_there = bool(self._entities["kind"][place] == _KINDS[kind])
        if is_there:
            self._used[ENTITIES.name][place] = True
        else:
            what = f"has no {kind} {id_}; {MANIFEST} names it"
            self._add("lineage_incomplete", ENTITIES, what)
        return is_there

    def _differs_in_facts(self, kind: str, id_: str) -> None:
        self._differs(None, f"states other facts of the {kind} {id_} than {ENTITIES.path}")

    def _check_models(self) -> None:
        """Check the sums of calls, tokens and cost; models without a call must have written."""
        stated = self._manifest.models
        if tuple(one for one in stated if one.calls) != self._models:
            self._differs(
                None, f"states totals of models that differ from the calls in {CALLS.path}"
            )
        for one in stated:
            name = f"{one.name}@{one.revision}"
            unused = ModelUse.unused(one.name, one.revision)
            if not one.calls and (one != unused or name not in self._fingerprints.authors):
                self._differs(None, f"lists the model {name}, but the lineage has no text by it")

    def follow_links(self) -> None:
        """Find the image that each text describes, and the source of each image."""
        is_image = self._entities["kind"] == _KINDS["image"]
        links = np.concatenate(self._describing, axis=1)
        self._entities["described"] = images_of(links, is_image)
        below, above = np.concatenate(self._upward, axis=1)
        for source in self._manifest.sources:
            (place,) = self._ids[ENTITIES.name].places(ids_of([source.entity_id]))
            marks = self._reached.setdefault(source.name, np.zeros(len(is_image), bool))
            if place >= 0:
                marks[place] = True
        for marks in self._reached.values():
            count = -1
            while count != (count := int(marks.sum())):
                marks[below[marks[above]]] = True

    def check_rows(self, shard: str) -> None:
        """Check that entities of rows exist, and that their images derive from the stated source.

        Shards must be passed in order.

        Raises:
            Exception: one of `READING_FAULTS` if it is not a file of rows.
        """
        path = self._folder / shard
        with opened_parquet(path) as file:
            for piece in bounded_batches(file, path, PIECE_ROWS, columns=BESIDE_IMAGES):
                if piece["image_entity_id"].null_count:
                    raise ValueError("a row has no image_entity_id")
                named = self._references(piece)
                for column, entities in named.items():
                    self._check_named(shard, entities, column)
                    self._check_repeated(shard, piece, entities, column)
                images = named["image_entity_id"]
                if not self._findings.concerns(shard):  # otherwise these may be consequences
                    self._check_images(shard, piece, images)
                    self._check_made(shard, piece, named["caption_entity_ids"])
                for column, texts in named.items():
                    if _ENTITY_COLUMNS[column].of_image:
                        described = self._entities["described"][texts.places]
                        is_other = described != images.places[texts.rows]
                        is_other &= texts.places >= 0
                        what = f"has {{}}, which does not describe its image by {DERIVATIONS.path}"
                        self._add_first(shard, texts, is_other, what)
                self._check_sources(shard, piece, images)
                self._check_crops(shard, piece)
                self._rows += piece.num_rows
                release_memory()

    def _references(self, piece: pa.RecordBatch) -> dict[str, _EntityReferences]:
        """The entities in rows, by column."""
        known = self._ids[ENTITIES.name]
        found = {column: _values(piece, column) for column in _ENTITY_COLUMNS}
        return {
            column: _EntityReferences(*one, known.places(ids_in(one[1])))
            for column, one in found.items()
            if one is not None
        }

    def _check_named(self, shard: str, named: _EntityReferences, column: str) -> None:
        kinds, places = _ENTITY_COLUMNS[column].kinds, named.places
        self._used[ENTITIES.name][places[places >= 0]] = True
        if kinds == ("tracklet",):
            self._tracklets.update(places[places >= 0].tolist())
        is_right = _is_any(self._entities["kind"][places], _KINDS, *kinds)
        what = f"names {{}}, and {ENTITIES.path} has no {' or '.join(kinds)} of it"
        self._add_first(shard, named, ~is_right, what, "lineage_incomplete")
        if column == "image_entity_id" or kinds == _TEXTS:
            is_live = _is_any(self._entities["state"][places], _STATES, *_LIVE)
            what = f"holds {{}}, which is rejected in {ENTITIES.path}"
            self._add_first(shard, named, is_right & ~is_live, what, "lineage_rejected")

    def _check_repeated(
        self, shard: str, piece: pa.RecordBatch, named: _EntityReferences, column: str
    ) -> None:
        """Check that digests, texts and authors next to the ids are those of the entities."""
        _, content, author, _ = _ENTITY_COLUMNS[column]
        words = "the SHA-256" if content == "sha256" else "the text"
        for said, field, what in ((content, "content", words), (author, "facts", "the author")):
            beside = _values(piece, said) if said else None
            if beside is None or not np.array_equal(named.rows, beside[0]):
                continue  # reported with other faults of rows
            wanted = self._entities[field][named.places]
            is_other = wanted != numbers_of(beside[1].to_pylist())
            message = f"differs from {ENTITIES.path} in {what} of {{}}"
            self._add_first(shard, named, is_other & (named.places >= 0), message)

    def _check_images(self, shard: str, piece: pa.RecordBatch, images: _EntityReferences) -> None:
        """Check that identity, path, size, contrast and terms of rows are those of their images."""
        entities = self._entities[images.places]
        columns = [name for name in _IMAGE_COLUMNS if name in piece.schema.names]
        said = self._fingerprints.of_rows(piece.select(columns).to_pylist())
        other = (images.places >= 0) & ~entities["is_partial"] & (entities["facts"] != said)
        what = f"states other facts of its image {{}} than {ENTITIES.path}"
        self._add_first(shard, images, other, what)

    def _check_made(self, shard: str, piece: pa.RecordBatch, captions: _EntityReferences) -> None:
        """Check that origins and reviews of captions follow from the links."""
        origins, reviewed = (
            _values(piece, name) for name in ("caption_origins", "caption_reviewed")
        )
        if origins is None or reviewed is None:
            return
        rows, places = captions.rows, captions.places
        if not (np.array_equal(rows, origins[0]) and np.array_equal(rows, reviewed[0])):
            return  # reported with other faults of rows
        texts = self._entities[places]
        edited, is_rewrite = texts["is_edited"], texts["kind"] == _KINDS["rewrite"]
        is_other = truths_in(reviewed[1]) != (edited | texts["is_decided"])
        what = f"differs from {DECISIONS.path} on whether a person decided on {{}}"
        self._add_first(shard, captions, (places >= 0) & is_other, what)
        possible = np.select(
            [is_rewrite & edited, is_rewrite, edited, texts["is_prompted"]], [0, 1, 2, 3], default=4
        )
        words = origins[1].dictionary_encode()
        may_be = [[one in kind for one in words.dictionary.to_pylist()] for kind in _ORIGINS]
        is_right = np.array(may_be, bool)[possible, numbers_in(words.indices)]
        what = f"states another origin of {{}} than {DERIVATIONS.path}"
        self._add_first(shard, captions, (places >= 0) & ~is_right, what)

    def _check_crops(self, shard: str, piece: pa.RecordBatch) -> None:
        """Check that crops of videos are frames of their tracklets."""
        rows = piece.select(["crop", "sha256"]).to_pylist() if self._manifest.videos else ()
        for number, row in enumerate(rows, self._rows + 1):
            crop = row["crop"]
            if crop and crop["box_xyxy"] and hash_of_crop(crop, row["sha256"]) not in self._frames:
                what = f"is no frame of its tracklet by {ENTITIES.path}"
                self._findings.add_row("lineage_differs", what, shard, number)

    def _check_sources(self, shard: str, piece: pa.RecordBatch, images: _EntityReferences) -> None:
        sources = piece["source"].dictionary_encode("encode")
        numbers, names = numbers_in(sources.indices), sources.dictionary.to_pylist()
        for name, marks in self._reached.items():
            is_from = np.isin(numbers, [at for at, one in enumerate(names) if one == name])
            lost = is_from & (images.places >= 0) & ~marks[images.places]
            shown = repr(name).replace("{", "{{").replace("}", "}}")
            what = f"is from {shown}, from which its image does not derive"
            self._add_first(shard, images, lost, what, "source_unreached")

    def check_used(self) -> None:
        """Check that every row of a table is referenced by another, the rows, or the manifest.

        Skipped if there are other problems, which may be the reason.
        """
        if self._findings.problems:
            return
        stated = self._manifest.statistics.tracklets
        decided = int(self._entities["is_decided"][list(self._tracklets)].sum())
        details = (stated.released, stated.reviewed) if stated else (0, 0)
        if details != (len(self._tracklets), decided):
            message = f"{MANIFEST} counts other tracklets than the rows and {DECISIONS.path} have"
            self._findings.add("statistics_differ", message, MANIFEST)
        self._used[CALLS.name] ^= self._left_out  # these are never referenced
        for table in (AGENTS, ACTIVITIES, CALLS, ENTITIES):
            if len(idle := np.flatnonzero(~self._used[table.name])):
                shown = hex_of(self._ids[table.name].ids[idle[0]])
                self._add("lineage_unused", table, f"has {shown}, which is never referenced")

    def _register(self, table: LineageTable, ids: Sequence[Ids]) -> int:
        """Keep the ids of a table for references to it; returns their number."""
        known = self._ids[table.name] = SortedIds(ids)
        self._used[table.name] = np.zeros(len(known), bool)
        if not known.is_sorted():
            self._add_unsorted(table)
        return len(known)

    def _positions(
        self, table: LineageTable, column: str, ids: Ids, to: LineageTable, *, is_use: bool = True
    ) -> _Numbers:
        """The positions of ids in a table that was read before; missing ids are reported."""
        places = self._ids[to.name].places(ids)
        if is_use:
            self._used[to.name][places[places >= 0]] = True
        if len(missing := ids[places < 0]):
            more = f" ({len(missing) - 1:,} more)" if len(missing) > 1 else ""
            message = (
                f"{table.path}: {column} names {hex_of(missing[0])}, which is not in {to.path}"
            )
            self._findings.add("lineage_broken", message + more, table.path)
        return places

    def _codes(self, table: LineageTable, piece: pa.RecordBatch, column: str) -> _Words:
        """The numbers of the words in a column; unknown words are reported."""
        words, known = piece[column].dictionary.to_pylist(), _VOCABULARY[table.name, column]
        for word in words:
            if word not in known:
                self._add_word(table, column, word, known)
        numbers = np.array([known.get(word, _UNKNOWN) for word in words], np.int16)
        return numbers[numbers_in(piece[column].indices)]

    def _add_word(
        self, table: LineageTable, column: str, word: str, known: Collection[str]
    ) -> None:
        wanted = ", ".join(sorted(known)) if len(known) < _FEW else "one that Loupe knows"
        what = f"says {column} {word!r:.100}, which is unknown; it must be {wanted}"
        self._add("lineage_unknown_word", table, what)

    def _add_unsorted(self, table: LineageTable) -> None:
        what = f"is not sorted by {', '.join(table.key_columns)}, or has rows twice"
        self._add("lineage_unsorted", table, what)

    def _add_other_id(self, table: LineageTable, id_: str) -> None:
        self._differs(table, f"has {id_}, which is not the digest of its content in {FOLDER}/")

    def _add_first(
        self,
        shard: str,
        named: _EntityReferences,
        wrong: _Marks,
        what: str,
        fault: str = "lineage_differs",
    ) -> None:
        """Report the first faulty entity; `what` has a placeholder for it."""
        if np.any(wrong):
            at = int(np.flatnonzero(wrong)[0])
            row = self._rows + int(named.rows[at]) + 1
            self._findings.add_row(fault, what.format(named.ids[at]), shard, row)

    def _differs(self, table: LineageTable | None, what: str) -> None:
        """Report a difference between a table, or the manifest (None), and the rest."""
        path = table.path if table else MANIFEST
        self._findings.add("lineage_differs", f"{path} {what}", path)

    def _add(self, fault: str, table: LineageTable, what: str) -> None:
        self._findings.add(fault, f"{table.path} {what}", table.path)


def _filtered(piece: pa.RecordBatch, marks: _Marks) -> pa.RecordBatch:
    """The rows that are marked."""
    return piece.filter(array_of(marks.astype(np.int64)).cast(pa.bool_()))


def _different(column: pa.DictionaryArray, marks: _Marks) -> set[str]:
    """The distinct words of a column in the marked rows."""
    words = column.dictionary.to_pylist()
    return {words[at] for at in np.unique(numbers_in(column.indices)[marks]).tolist()}


def _is_any(numbers: _Words, known: Mapping[str, int], *words: str) -> _Marks:
    """Whether each number represents one of these words."""
    return np.isin(numbers, [known[word] for word in words])


def _is_withheld(kind: str, payload: str | None, withheld: Sequence[str]) -> bool:
    """Whether this may be withheld of an entity of a kind that is released with omissions."""
    if payload is None or WITHHELD_WHOLE in withheld:
        return payload is None and list(withheld) == [WITHHELD_WHOLE]
    values = json.loads(payload)
    may_go = {*WITHHELD.get(kind, ()), *(values if isinstance(values, dict) else ())}
    return len(set(withheld)) == len(withheld) and may_go >= set(withheld)


def _check_objects(column: str, texts: pa.Array) -> None:
    """Check a column of JSON objects.

    Raises:
        ValueError: if a value is not a JSON object.
    """
    for text in texts.to_pylist():
        try:
            is_object = isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            is_object = False
        if not is_object:
            raise ValueError(f"{column} must be JSON objects; got {text!r:.100}")


def _values(piece: pa.RecordBatch, column: str) -> tuple[_Numbers, pa.Array] | None:
    """The ids in a column, and the row of each; None if there is no such column."""
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
    return rows[truths_in(values.is_valid())], values.drop_null()
