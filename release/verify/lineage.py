"""Checks the tables of `lineage/` against each other, the rows and the manifest.

Tables are read in pieces and their columns compared as arrays; only ids and numbers are kept in
memory. Rows are then compared with their entities one by one. The ids of entities, activities and
agents are digests of their contents, so that a changed value is detected by its id. Of entities
with withheld parts, only form, links and states are compared.
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

from loupe.release.facts import form_of
from loupe.release.findings import Findings
from loupe.release.lineage import (
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
from loupe.release.lineage.ids import (
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
    pieces,
    text_array,
    text_scalar,
    truths_in,
)
from loupe.release.manifest import MANIFEST
from loupe.release.model_use import model_uses
from loupe.release.rows import (
    CAPTION_COLUMNS,
    COARSE_COLUMNS,
    ENTITY,
    Column,
    number_in,
    own_values,
)
from loupe.schemas.base import ID_BYTES, EntityRecord, canonical_json, digest_of, unframed
from loupe.schemas.provenance import (
    ANSWERED,
    PROMOTE,
    SOURCE_ROLES,
    STATE_AFTER,
    TEXT_ROLES,
    WITHHELD_WHOLE,
    AgentKind,
    CallRow,
    Promotion,
    Role,
    is_id_of,
)
from loupe.schemas.records import PromptText, Shard, TermsCorrection
from loupe.schemas.release import Manifest, ModelUse
from loupe.schemas.validation import fault_of
from loupe.schemas.video import Video

_Numbers = NDArray[np.int64]
_Words = NDArray[np.int16]
_Marks = NDArray[np.bool_]


def _numbered(words: Iterable[str]) -> dict[str, int]:
    return {word: number for number, word in enumerate(words)}


_KINDS = _numbered(sorted(WHOLE | WITHHELD.keys()))
_STATES = _numbered(["proposed", *STATE_AFTER.values()])
_ROLES = _numbered(Role)
_VERDICTS = _numbered(STATE_AFTER)
_USES = _numbered(CallUse)
_VOCABULARY: dict[str, dict[str, Mapping[str, int]]] = {
    ENTITIES.name: {"kind": _KINDS, "state": _STATES},
    DERIVATIONS.name: {"role": _ROLES},
    DECISIONS.name: {"verdict": _VERDICTS},
    CALLS.name: {"use": _USES},
    AGENTS.name: {"kind": _numbered(get_args(AgentKind))},
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
_LIVE = {_STATES["proposed"], _STATES["accepted"]}
_TEXTS = frozenset({_KINDS["caption"], _KINDS["rewrite"]})
_IMAGES, _TRACKLETS, _VIDEOS = (
    frozenset({_KINDS[kind]}) for kind in ("image", "tracklet", "video")
)


class _Entity(NamedTuple):
    """What is kept of an entity.

    The numbers of its kind and state, its hashes by `loupe.release.lineage.ids`, the position of
    the image that it describes, and whether something of it is withheld, it is an edit, a model or
    a step wrote it, and a person decided on it.
    """

    kind: int = _UNKNOWN
    state: int = _UNKNOWN
    content: int = 0
    facts: int = 0
    described: int = -1
    is_partial: bool = False
    is_edited: bool = False
    is_prompted: bool = False
    is_decided: bool = False

    def origins(self) -> tuple[str, ...]:
        """The possible origins of a text in rows, by its links."""
        if self.kind == _KINDS["rewrite"]:
            return ("edited_rewrite",) if self.is_edited else ("rewrite",)
        if self.is_edited:
            return "edited", "edited_draft", "confirmed_draft"
        return ("drafted",) if self.is_prompted else ("written", "source")


_ENTITY = np.dtype(list(zip(_Entity._fields, ("i2", "i2", "i8", "i8", "i8", *"????"), strict=True)))


class _Named(NamedTuple):
    """An entity that a row names.

    Attributes:
        id: its id; None if the row names none.
        kinds: the numbers of the kinds that it may have.
        content: the digest of its image or its text, as the row repeats it.
        author: its author, as the row repeats it; None if the row does not.
        origin: the same for its origin.
        reviewed: the same for whether a person decided on it.
        of_image: whether it is a text that describes the image of the row.
    """

    id: str | None
    kinds: frozenset[int]
    content: str | None = None
    author: str | None = None
    origin: str | None = None
    reviewed: bool | None = None
    of_image: bool = False

    def difference(self, entity: _Entity, image: int) -> str | None:
        """The part in which the row differs from the entity; `image`: position of its image."""
        if self.content is not None and hash(self.content) != entity.content:
            return "content"
        if self.author is not None and hash(self.author) != entity.facts:
            return "author"
        if self.of_image and entity.described != image:
            return "image"
        if self.origin is not None and self.origin not in entity.origins():
            return "origin"
        is_decided = entity.is_edited or entity.is_decided
        return "review" if self.reviewed not in (None, is_decided) else None


def _own_named_by(
    row: Mapping[str, Any], columns: Mapping[str, Column], kinds: Mapping[str, int]
) -> Iterator[_Named]:
    """The records of the dataset's own that a row names."""
    for name, column in columns.items():
        for one in filter(None, row.get(name) or ()):
            content = canonical_json(own_values(column, one))
            yield _Named(one[ENTITY], frozenset({kinds[name]}), content)


def _named_by(row: Mapping[str, Any]) -> Iterator[_Named]:
    """The entities that a row names, the image first.

    Raises:
        ValueError: if it names no image.
    """
    if row["image_entity_id"] is None:
        raise ValueError("a row has no image_entity_id")
    yield _Named(row["image_entity_id"], _IMAGES, row["sha256"])
    captions = (row[name] or () for name in CAPTION_COLUMNS.values())
    for text, id_, author, origin, reviewed in zip(*captions, strict=False):
        yield _Named(id_, _TEXTS, text, author, origin, reviewed, of_image=True)
    coarse = (row.get(name) or () for name in COARSE_COLUMNS.values())
    for text, id_ in zip(*coarse, strict=False):
        yield _Named(id_, _TEXTS, text, of_image=True)
    for one in filter(None, row.get("translations") or ()):
        yield _Named(one["entity_id"], _TEXTS, one["text"], one["author"])
    if contrast := row.get("contrast"):
        yield _Named(contrast["anchor_entity_id"], _IMAGES)
    if crop := row["crop"]:
        yield _Named(crop["tracklet_entity_id"], _TRACKLETS)
        yield _Named(crop["video_entity_id"], _VIDEOS)


class _Agent(NamedTuple):
    """A person, a model at a revision, or software at a version."""

    kind: AgentKind
    name: str
    revision: str


class _Piece(NamedTuple):
    """Some rows of a table.

    Attributes:
        columns: the columns.
        ids: the ids in the first column.
        places: the position of the rows that other columns refer to, -1 for missing ones.
        words: the numbers of words in columns with a fixed vocabulary.
    """

    columns: pa.RecordBatch
    ids: Ids
    places: dict[str, _Numbers]
    words: dict[str, _Words]


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
                    piece["role"].cast(pa.string()), piece["parent"], text_scalar("=")
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


class LineageChecks:
    """Checks the tables in the order of their references, then the rows that it is given."""

    def __init__(self, folder: Path, manifest: Manifest, findings: Findings) -> None:
        self._folder = folder
        self._manifest = manifest
        self._findings = findings
        licences: dict[str, set[str]] = {}
        for source in manifest.sources:
            licences.setdefault(source.name, set()).add(source.licence)
        self._own = {column.name: column for column in form_of(manifest).own}
        self._kinds = {**_KINDS, **{name: len(_KINDS) + at for at, name in enumerate(self._own)}}
        self._fingerprints = PayloadFingerprints(licences, self._own)
        self._ids = {table.name: SortedIds() for table in TABLES}
        self._used = {table.name: np.empty(0, bool) for table in TABLES}
        self._agents: list[_Agent] = []
        self._asked = np.empty(0, np.int64)  # the agent of each call
        self._left_out = np.empty(0, bool)  # calls that no entity in the tables derives from
        self._models: tuple[ModelUse, ...] = ()
        self._promoted = np.empty(0, "S32")  # activities and the entities that each names, as bytes
        self._promoting = np.empty(0, bool)  # activities that promote a record
        self._promoted_from: dict[str, set[tuple[str, str, int]]] = {}  # step, root, records
        self._entities = np.array([_Entity()], _ENTITY)  # the last one is for missing ids (-1)
        self._payloads: dict[str, tuple[str, str | None, tuple[str, ...]]] = {}
        self._corrected: Counter[str] = Counter()
        self._upward = [np.empty((2, 0), np.int64)]  # positions of children and of their parents
        self._describing = [np.empty((2, 0), np.int64)]
        self._edits: set[tuple[int, int]] = set()
        self._frames: set[int] = set()  # the hashes of the frames of tracklets
        self._tracklets: set[int] = set()
        self._reached: dict[str, _Marks] = {}
        self._rows = 0
        self._is_read = False
        self._unread: tuple[str, str] | None = None  # a file with a row without ids, and the reason

    def check_tables(self) -> None:
        """Report inconsistencies of the tables, and between them and the manifest."""
        if any(self._findings.concerns(table.path) for table in TABLES):
            return  # damaged tables are not compared, and reading them may fail
        missing = [table.path for table in TABLES if not (self._folder / table.path).is_file()]
        for path in missing:
            self._findings.add("file_missing", f"{path} is missing", path)
        if missing:
            return
        for table in (AGENTS, ACTIVITIES, CALLS, ENTITIES, DERIVATIONS, DECISIONS):
            try:
                getattr(self, f"_read_{table.name}")(self._pieces(table))
            except READING_FAULTS as error:
                what = f"{table.path} cannot be read: {fault_of(error)}"
                self._findings.add("lineage_unreadable", what, table.path)
                return
        self._check_manifest()
        self._follow_links()
        self._is_read = True

    def _pieces(self, table: LineageTable) -> Iterator[_Piece]:
        """The rows of a table, whose order, references, words and number are checked."""
        count, last, known = 0, ids_of([]), [ids_of([])]
        for columns in pieces(self._folder, table):
            ids = ids_in(columns[0])
            places = {
                name: self._positions(table, name, columns[name], to)
                for name, to in table.references.items()
            }
            words = {
                name: self._codes(
                    table, columns[name], name, self._kinds if numbers is _KINDS else numbers
                )
                for name, numbers in _VOCABULARY.get(table.name, {}).items()
            }
            rows = np.concatenate([last, ids])
            is_unique = table.keys == 1
            if np.any(rows[:-1] >= rows[1:] if is_unique else rows[:-1] > rows[1:]):
                what = f"is not sorted by {', '.join(table.key_columns)}, or has rows twice"
                self._add("lineage_unsorted", table, what)
            if is_unique:  # other tables refer to it
                known.append(ids)
            count, last = count + len(ids), ids[-1:]
            yield _Piece(columns, ids, places, words)
        self._ids[table.name] = SortedIds(known)
        self._used[table.name] = np.zeros(len(self._ids[table.name]), bool)
        wanted = getattr(self._manifest.lineage, table.name)
        if count != wanted:
            self._add("totals_differ", table, f"has {count:,} rows; {MANIFEST} says {wanted:,}")

    def _read_agents(self, table: Iterator[_Piece]) -> None:
        for columns, *_ in table:
            for row in columns.to_pylist():
                agent = _Agent(row["kind"], row["name"], row["revision"])
                self._agents.append(agent)
                is_whole, withheld = digest_of("agent", *agent) == row["id"], set(row["withheld"])
                if is_whole is bool(withheld) or not {"name", "revision"} >= withheld:
                    self._add_other_id(AGENTS, row["id"])

    def _read_activities(self, table: Iterator[_Piece]) -> None:
        promoting, promoted = [], bytearray()
        for columns, *_ in table:
            _check_objects("configuration", columns["configuration"])
            for row in columns.to_pylist():
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

    def _read_calls(self, table: Iterator[_Piece]) -> None:
        left_out, asked = [np.empty(0, bool)], [np.empty(0, np.int64)]
        counted: Counter[tuple[Any, ...]] = Counter()
        for columns, _, places, words in table:
            for name in ("parameters", "served"):
                _check_objects(name, columns[name].dictionary)
            asked.append(places["agent"])
            left_out.append(words["use"] == _USES[CallUse.LEFT_OUT])
            self._check_numbers(columns)
            is_counted = words["use"] != _USES[CallUse.OTHER]
            rows = _filtered(columns, is_counted)
            values = (rows[name].to_pylist() for name in ("status", *_CALL_COLUMNS))
            agents = places["agent"][is_counted].tolist()
            for agent, status, *details in zip(agents, *values, strict=True):
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

    def _call_rows(self, counted: Counter[tuple[Any, ...]]) -> Iterator[CallRow]:
        for (agent, parameters, *answer, _), count in counted.items():
            if agent >= 0:
                _, name, revision = self._agents[agent]
                yield CallRow._make((name, revision, json.loads(parameters), *answer, count))

    def _check_numbers(self, columns: pa.RecordBatch) -> None:
        for name in ("tokens_in", "tokens_out", "cost"):
            values = columns[name].drop_null().to_pylist()
            if any(value < 0 or not math.isfinite(value) for value in values):
                self._differs(CALLS, f"says {name} is {min(values)}; it must be 0 or more")
        costs, currencies = (truths_in(columns[name].is_valid()) for name in ("cost", "currency"))
        if np.any(costs > currencies):
            self._differs(CALLS, "says a cost without a currency")

    def _read_entities(self, table: Iterator[_Piece]) -> None:
        found, parents = [], _Parents(self._folder)
        doubtful, datasets = set[str](), {self._manifest.dataset}
        named = ids_of(self._manifest.stated_entities)
        authors = np.array([hash(f"{one.name}@{one.revision}") for one in self._agents] + [0])
        for piece in table:
            columns, ids, places, words = piece
            found.append(entities := np.zeros(len(ids), _ENTITY))
            entities["kind"], entities["state"] = (kinds := words["kind"]), words["state"]
            content, facts = self._fingerprints.of(columns["kind"], columns["payload"])
            entities["content"], entities["facts"] = content, facts
            is_partial = numbers_in(pc.list_value_length(columns["withheld"])) > 0
            entities["is_partial"] = is_partial
            self._check_ids(piece, is_partial, parents)
            self._check_withheld(columns, is_partial)
            doubtful |= _different(columns["dataset"], is_partial)
            datasets |= _different(columns["dataset"], ~is_partial)
            self._check_promoted(piece)
            agents = np.append(self._asked, -1)[places["model_call"]]  # of no call: the last one
            is_other = (agents >= 0) & (facts != 0) & (authors[agents] != facts)
            for row in np.flatnonzero(is_other).tolist():
                self._differs(ENTITIES, f"says {hex_of(ids[row])} is not by the model of its call")
            is_correction = kinds == _KINDS[TermsCorrection.kind]
            for row in _filtered(columns, is_correction | np.isin(ids, named)).to_pylist():
                self._remember_payload(row, named)
            if self._manifest.videos:
                for row in _filtered(columns, kinds == _KINDS["tracklet"]).to_pylist():
                    self._frames.update(self._fingerprints.of_crops(row["payload"], row["id"]))
        for missing in self._promoted_from:
            self._add("lineage_incomplete", ENTITIES, f"has no shard {missing}; an activity does")
        for dataset in doubtful - datasets:
            self._add_word(ENTITIES, "dataset", dataset, datasets)
        self._entities = np.concatenate([*found, self._entities])

    def _check_promoted(self, piece: _Piece) -> None:
        """Check that promoted entities and their shards match the activities that name them."""
        columns, ids, places, words = piece
        rows = np.flatnonzero(self._promoting[places["activity"]])
        pairs = np.stack([ids_in(columns["activity"])[rows], ids[rows]], axis=1)
        for at in rows[~np.isin(pairs.view("S32").reshape(-1), self._promoted)].tolist():
            what = f"says that {hex_of(ids[at])} was promoted from a row that does not name it"
            self._differs(ENTITIES, what)
        for row in _filtered(columns, words["kind"] == _KINDS[Shard.kind]).to_pylist():
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
            self._payloads[row["id"]] = (row["state"], row["payload"], tuple(row["withheld"]))

    def _check_ids(self, piece: _Piece, is_partial: _Marks, parents: _Parents) -> None:
        """Check that ids are digests of the entities, unless parts are withheld."""
        columns, ids = piece.columns, piece.ids
        if (parts := parents.of(ids)) is None:
            return  # reported with the derivations
        own = (columns[name].cast(pa.string()) for name in ("dataset", "kind", "payload"))
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
                columns[name][at].as_py() for name in ("dataset", "kind", "payload", "id")
            )
            links = []
            for link in unframed(parts[at].as_py().encode()):
                role, _, parent = link.partition("=")
                links.append((role, parent))
            if not is_id_of(id_, dataset, kind, payload, links):
                self._add_other_id(ENTITIES, id_)

    def _check_withheld(self, columns: pa.RecordBatch, is_partial: _Marks) -> None:
        """Check that omitted fields are named correctly."""
        for row in _filtered(columns, is_partial).to_pylist():
            if not _is_withheld(row["kind"], row["payload"], row["withheld"]):
                what = f"says that {row['withheld']!r:.100} is left out of {row['id']}"
                self._differs(ENTITIES, what)

    def _read_derivations(self, table: Iterator[_Piece]) -> None:
        kinds = self._entities["kind"]
        for _, _, places, words in table:
            below, above, roles = places["child"], places["parent"], words["role"]
            roles[(below < 0) | (above < 0)] = _UNKNOWN
            describing = _is_any(roles, _ROLES, *TEXT_ROLES) & np.isin(kinds[below], [*_TEXTS])
            self._describing.append(np.stack([below, above])[:, describing])
            upward = _is_any(roles, _ROLES, *SOURCE_ROLES) & _is_any(
                kinds[below], _KINDS, "image", "video"
            )
            upward &= _is_any(kinds[above], _KINDS, "image", "video", "source")
            self._upward.append(np.stack([below, above])[:, upward])
            edits = roles == _ROLES[Role.EDITED_FROM]
            self._entities["is_edited"][below[edits]] = True
            self._edits.update(zip(above[edits].tolist(), below[edits].tolist(), strict=True))
            prompted = below[_is_any(roles, _ROLES, Role.PROMPTED_BY, Role.WRITTEN_WITH)]
            self._entities["is_prompted"][prompted] = True

    def _read_decisions(self, table: Iterator[_Piece]) -> None:
        states = self._entities["state"]
        folded = np.full(len(states), _STATES["proposed"], np.int16)
        is_withdrawn = np.zeros(len(states), bool)
        is_person = np.array([agent.kind == "person" for agent in self._agents] + [False])
        last, number = ids_of([]), -1
        for columns, ids, at, words in table:
            places, verdicts, numbers = (
                at["entity"],
                words["verdict"],
                numbers_in(columns["number"]),
            )
            is_same = np.concatenate([last if len(last) else ids[:1], ids[:-1]]) == ids
            wanted = np.where(is_same, np.concatenate([[number], numbers[:-1]]) + 1, 0)
            if np.any(numbers != wanted):
                what = "does not number the decisions on an entity from 0"
                self._add("lineage_unsorted", DECISIONS, what)
            last, number = ids[-1:], int(numbers[-1])
            self._check_successors(columns, verdicts, places)
            folded[places] = _STATE_AFTER[verdicts]  # in order: the last one counts
            is_withdrawn[places[verdicts == _VERDICTS["withdraw"]]] = True
            reopens = verdicts == _VERDICTS["reopen"]
            counts = is_person[at["agent"]] | reopens
            self._entities["is_decided"][places[counts]] = ~reopens[counts]
        folded[is_withdrawn] = _STATES["withdrawn"]
        other = np.flatnonzero(folded[:-1] != states[:-1])
        if len(other):
            shown = hex_of(self._ids[ENTITIES.name].ids[other[0]])
            what = f"says a state of {shown} that does not follow from {DECISIONS.path}"
            self._differs(ENTITIES, what)

    def _check_successors(
        self, columns: pa.RecordBatch, verdicts: _Words, places: _Numbers
    ) -> None:
        """Check that edited entities have a successor edited from them, and others have none."""
        has_one = truths_in(columns["successor"].is_valid())
        rows = np.flatnonzero(has_one)
        later = self._ids[ENTITIES.name].places(ids_in(columns["successor"].drop_null()))
        links = zip(places[rows].tolist(), later.tolist(), strict=True)
        is_wrong = has_one ^ (verdicts == _VERDICTS["edit"])
        is_wrong[rows[[one[1] >= 0 and one not in self._edits for one in links]]] = True
        for at in np.flatnonzero(is_wrong).tolist():
            entity, verdict, successor = (
                columns[name][at].as_py() for name in ("entity", "verdict", "successor")
            )
            what = f"says {entity} has the verdict {verdict!r} and the successor {successor}"
            self._differs(DECISIONS, f"{what}, which was not edited from it")

    def _check_manifest(self) -> None:
        """Check the manifest's sources, prompts, videos and models against the lineage."""
        stated = self._manifest
        records: list[tuple[str, EntityRecord]] = []
        for source in stated.sources:
            records.append((source.entity_id, source.as_imported()))
            if (shown := source.correction) and (correction := source.as_correction()):
                records.append((shown.entity_id, correction))
            if (last := self._corrected[source.entity_id]) > (shown.number if shown else 0):
                terms = f"terms of the source {source.name!r}"
                self._differs(None, f"shows {terms} that {ENTITIES.path} has corrected ({last})")
        for prompt in stated.prompts:
            values = prompt.model_dump(exclude={"entity_id"})
            records.append((prompt.entity_id, PromptText(**values)))
        for id_, record in records:
            held = self._held(record.kind, id_)
            made = held and published_payload(record.kind, held[0], record.payload())
            if held and held[1:] != made:
                self._differs_in_facts(record.kind, id_)
        for video in stated.videos:
            _, payload, withheld = self._held(Video.kind, video.entity_id) or ("", None, ())
            if payload and not withheld:
                known = Video.model_validate_json(payload)
                seconds = known.facts.duration_seconds
                details = (known.source, known.file_path, known.sha256, seconds)
                said = (video.source, video.file_path, video.sha256, video.duration_seconds)
                if details != said:
                    self._differs_in_facts(Video.kind, video.entity_id)
        self._check_models()
        for tracker in set(stated.trackers) - self._fingerprints.authors:
            self._differs(None, f"lists the tracker {tracker}, but the lineage has no track by it")

    def _held(self, kind: str, id_: str) -> tuple[str, str | None, tuple[str, ...]] | None:
        """State, payload and withheld fields of an entity that the manifest names.

        None, which is reported, if the lineage has no such entity.
        """
        (place,) = self._ids[ENTITIES.name].places(ids_of([id_]))
        if self._entities["kind"][place] != _KINDS[kind]:
            self._add("lineage_incomplete", ENTITIES, f"has no {kind} {id_}; {MANIFEST} names it")
            return None
        self._used[ENTITIES.name][place] = True
        return self._payloads[id_]

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

    def _follow_links(self) -> None:
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

    def check_rows(self, shard: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Check rows against the entities that they name; reports the first fault of each.

        `rows` are the next rows, without images, and `shard` is their file. They are not checked if
        the tables could not be read. Rows that name no valid ids are reported by `check_used`.
        """
        if not self._is_read:
            return
        try:
            self._check_rows(shard, rows)
        except READING_FAULTS as error:
            self._is_read = False
            self._unread = shard, f"{shard} cannot be read: {fault_of(error)}"

    def _check_rows(self, shard: str, rows: Sequence[Mapping[str, Any]]) -> None:
        known, used = self._ids[ENTITIES.name], self._used[ENTITIES.name]
        named = []
        for row in rows:
            many = [*_named_by(row), *_own_named_by(row, self._own, self._kinds)]
            named.append([one for one in many if one.id is not None])
        ids = [one.id or "" for many in named for one in many]
        places = known.places(ids_in(text_array(ids)))
        used[places[places >= 0]] = True
        entities = map(_Entity._make, self._entities[places].tolist())
        found = zip(places.tolist(), entities, strict=True)
        for row, many in zip(rows, named, strict=True):
            self._rows += 1
            held = [(one, *next(found)) for one in many]
            if fault := next(self._faults_of(row, held), None):
                number = number_in(row["file_path"]) or self._rows
                self._findings.add_row(*fault, shard, number)

    def _faults_of(
        self, row: Mapping[str, Any], held: list[tuple[_Named, int, _Entity]]
    ) -> Iterator[tuple[str, str]]:
        """The faults of a row, given the entities that it names with their positions."""
        _, image_place, image = held[0]
        for one, place, entity in held:
            if entity.kind not in one.kinds:
                kinds = " or ".join(kind for kind in _KINDS if _KINDS[kind] in one.kinds)
                what = f"names {one.id}, and {ENTITIES.path} has no {kinds} of it"
                yield "lineage_incomplete", what
                continue
            if one.kinds is _TRACKLETS:
                self._tracklets.add(place)
            if one.content is not None and entity.state not in _LIVE:
                yield "lineage_rejected", f"holds {one.id}, which is rejected in {ENTITIES.path}"
            if part := one.difference(entity, image_place):
                yield "lineage_differs", f"differs from {FOLDER}/ in the {part} of {one.id}"
        if not image.is_partial and image.facts != self._fingerprints.of_row(row):
            what = f"states other facts of its image {held[0][0].id} than {ENTITIES.path}"
            yield "lineage_differs", what
        reached = self._reached.get(row["source"])
        if reached is not None and not reached[image_place]:
            what = f"is from {row['source']!r}, from which its image does not derive"
            yield "source_unreached", what
        crop = row["crop"] if self._manifest.videos else None
        if crop and crop["box_xyxy"] and hash_of_crop(crop, row["sha256"]) not in self._frames:
            yield "lineage_differs", f"is no frame of its tracklet by {ENTITIES.path}"

    def check_used(self) -> None:
        """Check that every row of a table is referenced by another, the rows, or the manifest.

        Skipped if there are other problems, which may be the reason. Rows that could not be checked
        are reported, unless their file has other problems.
        """
        if self._unread and not self._findings.concerns(self._unread[0]):
            self._findings.add("rows_unreadable", self._unread[1], self._unread[0])
        if self._findings.problems or not self._is_read:
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

    def _positions(self, table: LineageTable, column: str, values: pa.Array, to: str) -> _Numbers:
        """The positions of ids, or of the ids in lists, in a table that was read before.

        Missing ids are reported. The first column states what a row is about, not a use of it.
        """
        values = values.flatten() if pa.types.is_list(values.type) else values
        places = np.full(len(values), -1, np.int64)
        ids = ids_in(values.drop_null())
        places[truths_in(values.is_valid())] = found = self._ids[to].places(ids)
        if column != table.schema.names[0]:
            self._used[to][found[found >= 0]] = True
        if len(missing := ids[found < 0]):
            more = f" ({len(missing) - 1:,} more)" if len(missing) > 1 else ""
            what = f"names {hex_of(missing[0])}, which is not in {FOLDER}/{to}.parquet{more}"
            self._findings.add("lineage_broken", f"{table.path}: {column} {what}", table.path)
        return places

    def _codes(
        self, table: LineageTable, values: pa.Array, column: str, known: Mapping[str, int]
    ) -> _Words:
        """The numbers of the words in a column; unknown words are reported."""
        words = values.dictionary.to_pylist()
        for word in words:
            if word not in known:
                self._add_word(table, column, word, known)
        numbers = np.array([known.get(word, _UNKNOWN) for word in words], np.int16)
        return numbers[numbers_in(values.indices)]

    def _add_word(
        self, table: LineageTable, column: str, word: str, known: Collection[str]
    ) -> None:
        wanted = ", ".join(sorted(known)) if len(known) < _FEW else "one that Loupe knows"
        what = f"says {column} {word!r:.100}, which is unknown; it must be {wanted}"
        self._add("lineage_unknown_word", table, what)

    def _add_other_id(self, table: LineageTable, id_: str) -> None:
        self._differs(table, f"has {id_}, which is not the digest of its content in {FOLDER}/")

    def _differs(self, table: LineageTable | None, what: str) -> None:
        """Report a difference between a table, or the manifest (None), and the rest."""
        path = table.path if table else MANIFEST
        self._findings.add("lineage_differs", f"{path} {what}", path)

    def _add(self, fault: str, table: LineageTable, what: str) -> None:
        self._findings.add(fault, f"{table.path} {what}", table.path)


def _filtered(columns: pa.RecordBatch, marks: _Marks) -> pa.RecordBatch:
    """The rows that are marked."""
    return columns.filter(array_of(marks.astype(np.int64)).cast(pa.bool_()))


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
