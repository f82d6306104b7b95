"""Shards: Parquet files of 10,000 records, each with the root of a Merkle tree in the store.

A shard is an entity of the dataset of its source, and steps take shards as stages take records.
Row k of a shard that a step computed belongs to row k of the shard it was computed from. A record
is erased by leaving its hash alone, so that the root and the proofs of all others remain valid.
"""

import io
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter
from pydantic_core import from_json

from loupe.db.blob_check import FaultyBlob, NamedBlob
from loupe.db.blobs import SHARD, BlobFault, BlobStore
from loupe.db.calls import NewCall
from loupe.db.configurations import configurations_of
from loupe.db.entities import (
    LIVE,
    NewDecision,
    NewEntity,
    StoredEntity,
    WorkResult,
    datasets_of,
    fetch,
    find,
    find_children,
    new_entity,
)
from loupe.db.store import Store
from loupe.db.withdrawal_graph import Blob, erased_digests, needed_blobs, own_blobs
from loupe.db.withdrawals import erased_blobs, list_withdrawals, withdrawn_entities
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.runner import sole_run
from loupe.schemas.base import canonical_json, framed, merkle_levels, sha256_of
from loupe.schemas.errors import IntegrityError, MissingBlobError, ServiceError, UsageError
from loupe.schemas.provenance import PROMOTE, Role, record_hash
from loupe.schemas.records import Image, Rejection, Shard

RECORDS = 10_000
IMPORT = "import_source"
IMPORT_STAGE = "import_shards"
IMPORT_VERSION = "1"
DUPLICATES = "near_duplicates"
_SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "image": pa.string(),
        "group": pa.string(),
        "split": pa.string(),
        "digests": pa.list_(pa.string()),
        "result": pa.string(),
        "vector": pa.binary(),
        "erased": pa.binary(),
    }
)


class ShardRow(NamedTuple):
    """A record of a source, or what a step computed from it.

    Attributes:
        number: the number of the record in its source.
        image: the id of its image, with `group` and `split` as in the store; None without one.
        digests: the digests of its files, by which withdrawals find it.
        result: a `RecordResult` as JSON; None if it is erased.
        vector: the embedding of its image, float32.
        erased: the hash of a record that is erased.
    """

    number: int
    image: str | None = None
    group: str | None = None
    split: str | None = None
    digests: Sequence[str] = ()
    result: str | None = None
    vector: bytes | None = None
    erased: bytes | None = None

    @property
    def leaf(self) -> bytes:
        """The hash of the record in the Merkle tree of its shard."""
        if self.erased is not None:
            return self.erased
        return record_hash(self.number, self.names, self.rest)

    @property
    def names(self) -> list[str]:
        """The ids of the entities and the keys of the model calls in `result`."""
        entities, _, _, calls = from_json(self.result) if self.result else ((), (), (), ())
        return [one[0] for one in (*entities, *calls)]

    @property
    def rest(self) -> str:
        """The digest of everything except number and names."""
        named = (self.image or "", self.group or "", self.split or "", self.result or "")
        return sha256_of(framed(*named, *sorted(self.digests)) + (self.vector or b""))


class RecordResult(NamedTuple):
    """What stages store of one record; see `loupe.db.entities.WorkResult`."""

    entities: tuple[NewEntity, ...] = ()
    decisions: tuple[NewDecision, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    calls: tuple[NewCall, ...] = ()

    def add(self, result: WorkResult) -> "RecordResult":
        """Return this result and that of a stage."""
        refused = (result.rejection,) if result.rejection else ()
        return self._replace(
            entities=self.entities + result.entities,
            decisions=self.decisions + result.decisions,
            rejections=self.rejections + refused,
        )

    def as_json(self) -> str:
        """Return the result as JSON."""
        return canonical_json(_RESULT.dump_python(self, mode="json"))

    @classmethod
    def of(cls, row: ShardRow) -> "RecordResult":
        """Return the result in a row; an empty one if it is erased."""
        return cls() if row.result is None else _RESULT.validate_json(row.result)


_RESULT = TypeAdapter(RecordResult)


def store_shard(
    blobs: BlobStore,
    parent: NewEntity | StoredEntity,
    step: str,
    number: int,
    rows: Sequence[ShardRow],
    rejected: Iterable[str],
) -> NewEntity:
    """Write a shard and return its entity, which is to be committed.

    If the run ends before that, the same rows are later written to the same place.

    Args:
        blobs: where to write it.
        parent: the source, or the shard that it was computed from.
        step: the step that made it.
        number: its position among the shards of the source.
        rows: its records.
        rejected: the reason of each rejection.
    """
    root = merkle_levels([row.leaf for row in rows])[-1][0].hex()
    _write(blobs, root, rows)
    record = Shard(
        source=parent.dataset,
        step=step,
        number=number,
        records=len(rows),
        root=root,
        rejected=dict(sorted(Counter(rejected).items())),
    )
    role = Role.IMPORTED_FROM if step == IMPORT else Role.COMPUTED_FROM
    return new_entity(record, parent.dataset, parents=[(role, parent.id)], group=step)


def _write(blobs: BlobStore, root: str, rows: Sequence[ShardRow]) -> None:
    file = io.BytesIO()
    table = pa.Table.from_pylist([row._asdict() for row in rows], _SCHEMA)
    pq.write_table(table, file, compression="zstd")
    blobs.put_shard(root, file.getvalue())


def read_shard(blobs: BlobStore, shard: StoredEntity) -> list[ShardRow]:
    """Return the records of a shard, compared with its Merkle root.

    Raises:
        IntegrityError: its file is missing or damaged.
    """
    record = shard.record(Shard)
    rows = [ShardRow(**row) for row in _table(blobs, record, _SCHEMA.names).to_pylist()]
    found = merkle_levels([row.leaf for row in rows])[-1][0].hex() if rows else "no records"
    if found != record.root:
        raise IntegrityError(
            f"shard {record.number} ({record.step}) of {record.source} is damaged: its records "
            f"have the Merkle root {found}, the store states {record.root}; restore "
            f"{blobs.path_of(record.root, SHARD)!r} from a backup"
        )
    return rows


def _table(blobs: BlobStore, shard: Shard, columns: Sequence[str]) -> pa.Table:
    file = io.BytesIO(blobs.read_shard(shard.root))
    try:
        return pq.read_table(file, columns=list(columns), use_threads=False).select(columns)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise IntegrityError(
            f"shard {shard.number} ({shard.step}) of {shard.source} is damaged: {error}; restore "
            f"{blobs.path_of(shard.root, SHARD)!r} from a backup"
        ) from error


def places_of(
    blobs: BlobStore, shard: StoredEntity, digests: Iterable[str], *, erased: bool = False
) -> set[int]:
    """Return the places of records whose files have one of these digests, or that are `erased`.

    Raises:
        IntegrityError: its file is missing or damaged.
    """
    table = _table(blobs, shard.record(Shard), ("digests", "erased"))
    lists = table["digests"].combine_chunks()
    wanted = pc.is_in(lists.flatten(), value_set=pa.array(list(digests), pa.string()))
    found = set(pc.list_parent_indices(lists).filter(wanted).to_pylist())
    if erased:
        found.update(pc.indices_nonzero(pc.is_valid(table["erased"])).to_pylist())
    return found


_INDEX = ("number", "image", "group", "split", "digests")


def read_index(blobs: BlobStore, shard: StoredEntity) -> Iterator[ShardRow]:
    """Return the records of a shard that have an image, without their results.

    Raises:
        IntegrityError: its file is missing or damaged.
    """
    rows = _table(blobs, shard.record(Shard), _INDEX).to_pylist()
    return (ShardRow(**row) for row in rows if row["image"] is not None)


def imported_shards(store: Store, dataset: str, source_id: str | None = None) -> list[StoredEntity]:
    """Return the shards of a dataset, or of one of its annotation files, as imported, in order."""
    shards = (one for one in find(store, dataset, Shard.kind, states=LIVE) if one.group == IMPORT)
    if source_id is not None:
        own = {one.id for one in find_children(store, source_id, Role.IMPORTED_FROM)}
        shards = (one for one in shards if one.id in own)
    return sorted(shards, key=lambda one: one.record(Shard).number)


def lost_shards(store: Store, blobs: BlobStore, dataset: str, source_id: str) -> dict[int, str]:
    """Return number and Merkle root of the shards of an annotation file that cannot be read."""
    shards = imported_shards(store, dataset, source_id)
    lost = [one.record(Shard) for one in shards if _fault_or_rows(blobs, one)[0]]
    return {one.number: one.root for one in lost}


def restore_shard(blobs: BlobStore, root: str, rows: Sequence[ShardRow]) -> None:
    """Write the file of a shard again if these are its records; they differ if some are erased."""
    if merkle_levels([row.leaf for row in rows])[-1][0].hex() == root:
        _write(blobs, root, rows)


def require_shards(store: Store, dataset: str) -> None:
    """Raise a `UsageError` if a source was not imported into shards."""
    if not imported_shards(store, dataset):
        raise UsageError(f"{dataset!r} has no shards; import it with: loupe import --shards")


def computed_shards(
    store: Store, shard: StoredEntity, states: Collection[str] = LIVE
) -> list[StoredEntity]:
    """Return the shards that steps computed from a shard."""
    found = find_children(store, shard.id, Role.COMPUTED_FROM)
    return [one for one in found if one.state in states]


def erase_withdrawn(
    context: RunContext, entity_ids: Iterable[str], digests: Collection[str]
) -> int:
    """Erase from all shards what was withdrawn; return the number of records.

    Records are found by the digests of their files and, if they were promoted, by the entities that
    were made of them. A shard that is withdrawn with its source is erased as a whole.
    """
    ids = list(entity_ids)
    places: dict[str, set[int]] = defaultdict(set)
    for made_from in configurations_of(context.store, PROMOTE, ids):
        imported = made_from["rows"][0]
        places[imported["shard"]].add(imported["row"])
    erased = 0
    for one in fetch(context.store, ids).values():
        if one.kind == Shard.kind:
            with _sole_erasure(context, one.dataset):
                erased += _erase_shard(context.store, context.blobs, one)
    for dataset in datasets_of(context.store):
        erased += erase_records(context, dataset, digests, places)
    return erased


def erase_records(
    context: RunContext,
    dataset: str,
    digests: Collection[str],
    places: Mapping[str, Collection[int]] = {},
) -> int:
    """Erase records from the shards of a source, and from all that was computed from them since.

    Returns how many records were erased that were not erased before.

    Args:
        context: the run.
        dataset: the dataset of the source.
        digests: the digests of withdrawn files.
        places: further places of records, by the id of their shard.
    """
    store, blobs, erased = context.store, context.blobs, 0
    with _sole_erasure(context, dataset):
        for shard in imported_shards(store, dataset):
            try:
                found = places_of(blobs, shard, digests, erased=True)
            except MissingBlobError:
                continue  # nothing is left to erase
            if found := found.union(places.get(shard.id, ())):
                erased += _erase_places(store, blobs, shard, found)
    return erased


def _sole_erasure(context: RunContext, dataset: str) -> AbstractContextManager[None]:
    """Prevent other runs from erasing in the same shards, whose files are written as a whole."""
    return sole_run(context, dataset, "shards")


def _erase_shard(store: Store, blobs: BlobStore, shard: StoredEntity) -> int:
    """Erase a shard and the files of its records that no entity needs; return how many it had."""
    try:
        rows = read_shard(blobs, shard)
    except MissingBlobError:
        return 0
    made = (one for row in rows for one in RecordResult.of(row).entities)
    files = {file for one in made for file in own_blobs(one.kind, one.payload)}
    with store.read() as connection:
        needed = needed_blobs(connection, files)
    for file in files:
        if file.sha256 not in needed:
            blobs.erase(*file)
    blobs.erase(shard.record(Shard).root, SHARD)
    return len(rows)


def files_in_shards(store: Store, blobs: BlobStore) -> Iterator[NamedBlob | FaultyBlob]:
    """Yield all shards with the files of their records, and the faults of unreadable ones."""
    for dataset in datasets_of(store):
        for shard in find(store, dataset, Shard.kind, states=(*LIVE, "inactive")):
            file = Blob(shard.record(Shard).root, SHARD)
            fault, rows = _fault_or_rows(blobs, shard)
            if fault is None:
                yield NamedBlob(file, shard.id)
                yield from _files_of(store, shard, rows)
            else:
                yield FaultyBlob(file, fault, shard.id)


def files_in_shard(store: Store, blobs: BlobStore, shard: StoredEntity) -> Iterator[NamedBlob]:
    """Yield the files of the records of a shard; none if it cannot be read."""
    return _files_of(store, shard, _fault_or_rows(blobs, shard)[1])


def _files_of(store: Store, shard: StoredEntity, rows: Iterable[ShardRow]) -> Iterator[NamedBlob]:
    with store.read() as connection:
        erased = erased_digests(connection)
    for row in rows:
        for one in RecordResult.of(row).entities:
            for blob in own_blobs(one.kind, one.payload, erased):
                yield NamedBlob(blob, shard.id)


def _fault_or_rows(
    blobs: BlobStore, shard: StoredEntity
) -> tuple[BlobFault | None, list[ShardRow]]:
    try:
        return None, read_shard(blobs, shard)
    except MissingBlobError:
        return BlobFault.MISSING, []
    except IntegrityError:
        return BlobFault.DAMAGED, []
    except ServiceError:
        if not blobs.is_local:  # the store does not answer
            raise
        return BlobFault.UNREADABLE, []


def images_in_shard(blobs: BlobStore, shard: StoredEntity) -> Iterator[Image]:
    """Yield the images of the records of a shard, as imported; none if it cannot be read."""
    _, rows = _fault_or_rows(blobs, shard)
    for row in rows:
        for one in RecordResult.of(row).entities:
            if one.kind == Image.kind:
                yield Image.model_validate_json(one.payload)


def root_in(data: bytes) -> str | None:
    """Return the Merkle root of the records in the file of a shard; None if it is not one."""
    try:
        table = pq.read_table(io.BytesIO(data), columns=_SCHEMA.names, use_threads=False)
        leaves = [ShardRow(**row).leaf for row in table.to_pylist()]
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):
        return None
    return merkle_levels(leaves)[-1][0].hex() if leaves else None


def erase_again(context: RunContext) -> None:
    """Erase withdrawn records of shards that were restored from a time before the withdrawal."""
    for one in list_withdrawals(context.store):
        if one.request.erases:
            digests = {blob.sha256 for blob in erased_blobs(context.store, one.id)}
            erase_withdrawn(context, withdrawn_entities(context.store, one.id), digests)


def _erase_places(
    store: Store, blobs: BlobStore, shard: StoredEntity, places: Collection[int]
) -> int:
    """Erase records of a shard, and what steps computed from them; return how many are new."""
    new = 0
    for one in (shard, *computed_shards(store, shard, (*LIVE, "inactive"))):
        rows = read_shard(blobs, one)
        left = [place for place in places if rows[place].erased is None]
        for place in left:
            rows[place] = ShardRow(rows[place].number, erased=rows[place].leaf)
        if left:
            _write(blobs, one.record(Shard).root, rows)
        new += len(left) if one is shard else 0
    return new
