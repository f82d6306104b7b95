"""Promote records of shards: they become entities, the same as if imported one by one.

Answers of models to requests about a promoted record are stored with it, so that a build that asks
them finds the answers. The activity that made the entities names shards, rows and Merkle proofs.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from loupe.db.calls import record_call
from loupe.db.configurations import configurations_of
from loupe.db.entities import LIVE, NewEntity, StoredEntity, WorkResult, datasets_of, fetch, find
from loupe.db.withdrawal_graph import image_with
from loupe.db.withdrawals import refused_files
from loupe.db.work import commit_chunk, register_plan, stream_mark, worked_inputs
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import WITHDRAWN, open_source
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.sampling import SampleSettings, sample_identities
from loupe.flows.shards.files import (
    DUPLICATES,
    IMPORT_STAGE,
    IMPORT_VERSION,
    RecordResult,
    ShardRow,
    computed_shards,
    imported_shards,
    places_of,
    read_index,
    read_shard,
)
from loupe.schemas.base import merkle_levels, merkle_proof
from loupe.schemas.build import SourceSpec
from loupe.schemas.errors import ConfigurationError, IntegrityError, UsageError
from loupe.schemas.provenance import PROMOTE, PromotedRow, Promotion, Role
from loupe.schemas.records import Image, Rejection, Shard

VERSION = "1"
_DIGITS = 64


def promote_drawn(
    context: RunContext, spec: SourceSpec, settings: SampleSettings
) -> tuple[NewEntity, StageReport]:
    """Promote the records that `draw_sample` would draw from `spec` if all were entities.

    Raises:
        ConfigurationError: the annotation file is not the one in the shards, or its import is not
            complete.
        IntegrityError: a shard is missing or damaged.
    """
    source = open_source(context, spec).entity
    shards = imported_shards(context.store, spec.name, source.id)
    if not shards:
        raise ConfigurationError(
            f"the shards of {spec.name!r} were made from another version of {spec.annotations}; "
            f"import it again with: loupe import --shards"
        )
    plan_id = register_plan(
        context.store, IMPORT_STAGE, IMPORT_VERSION, _import_of(context, shards)
    )
    if not stream_mark(context.store, plan_id).seq:
        raise ConfigurationError(
            f"the import of {spec.name!r} into shards is not complete; finish it with: loupe "
            f"import --shards"
        )
    refused = refused_files(context.store).keys()
    gone = {one.id for one in find(context.store, spec.name, Image.kind, states=("withdrawn",))}
    pool: dict[str, dict[str, int]] = {}
    for shard in shards:
        duplicates = _duplicates(context, shard)
        for row in read_index(context.blobs, shard):
            is_gone = row.image in gone or not refused.isdisjoint(row.digests)
            if is_gone or row.split != spec.split or row.number in duplicates:
                continue
            pool.setdefault(str(row.group), {}).setdefault(str(row.image), row.number)
        drawn = sample_identities({name: tuple(images) for name, images in pool.items()}, settings)
        pool = {name: pool[name] for name in drawn}  # the others cannot be drawn any more
    numbers = [pool[name][image] for name, images in drawn.items() for image in images]
    return source, promote_records(context, spec.name, numbers, source.id)


def _import_of(context: RunContext, shards: Iterable[StoredEntity]) -> dict[str, Any]:
    """Return the configuration of the import that made the newest of these shards."""
    return configurations_of(context.store, IMPORT_STAGE, [max(shards).id])[0]


def _duplicates(context: RunContext, shard: StoredEntity) -> set[int]:
    """Return the numbers of the records that the last search for near-duplicates rejected."""
    found = [one for one in computed_shards(context.store, shard) if one.group == DUPLICATES]
    rows = read_shard(context.blobs, found[-1]) if found else ()
    return {row.number for row in rows if RecordResult.of(row).rejections}


def find_records(context: RunContext, dataset: str, names: Iterable[str]) -> list[int]:
    """Return the numbers of records that are named by number or by the SHA-256 of an image.

    Raises:
        UsageError: no record has an image with one of the digests.
    """
    found = {int(name) for name in names if name.isdecimal() and len(name) < _DIGITS}
    digests = {name.lower() for name in names if not name.isdecimal() or len(name) == _DIGITS}
    for row in _rows_with(context, dataset, digests.copy()):
        found.add(row.number)
        digests.difference_update(row.digests)
    if digests:
        named = ", ".join(sorted(digests))
        raise UsageError(f"the shards of {dataset!r} have no image with the SHA-256 {named}")
    return sorted(found)


def promote_image(
    context: RunContext, sha256: str, confirm: Callable[[Sequence[str]], None] = lambda _: None
) -> str:
    """Promote the records of all shards that have an image with this digest, and return its id.

    A record may have several images: a contrastive one is imported with its anchor.

    Args:
        context: the run.
        sha256: the digest.
        confirm: receives the names of the records before anything is changed, and may raise.

    Raises:
        UsageError: there is none.
        IntegrityError: a shard is missing or damaged.
    """
    records = [
        (dataset, row.number)
        for dataset in datasets_of(context.store)
        for row in _rows_with(context, dataset, [sha256])
    ]
    if records:
        confirm([f"record {number} of the shards of {name!r}" for name, number in records])
    for dataset, number in records:
        promote_records(context, dataset, [number])
    with context.store.read() as connection:
        found = image_with(connection, sha256)
    if found is None:
        raise UsageError(f"no image in the store or in shards has the SHA-256 {sha256}")
    return found


def _rows_with(context: RunContext, dataset: str, digests: Collection[str]) -> Iterator[ShardRow]:
    """Return the records of a source that have a file with one of these digests."""
    for shard in imported_shards(context.store, dataset) if digests else ():
        if places := places_of(context.blobs, shard, digests):
            rows = read_shard(context.blobs, shard)
            yield from (rows[place] for place in sorted(places))


def promote_records(
    context: RunContext, dataset: str, numbers: Iterable[int], source_id: str | None = None
) -> StageReport:
    """Promote records of the shards of `dataset`, by their numbers in the annotation file.

    Of several versions of the file, `source_id` or else the newest one counts.

    Raises:
        UsageError: there is no such record.
        IntegrityError: a shard is missing or damaged.
    """
    report = StageReport(f"promote records of {dataset}")
    shards = {
        one.record(Shard).number: one
        for one in sorted(imported_shards(context.store, dataset, source_id))
    }
    size = _import_of(context, shards.values())["records"] if shards else 1
    by_shard: dict[int, list[int]] = defaultdict(list)
    for number in sorted(set(numbers)):
        shard = shards.get(number // size)
        if shard is None or number % size >= shard.record(Shard).records:
            raise UsageError(f"the shards of {dataset!r} have no record {number}")
        by_shard[number // size].append(number)
    with context.progress.shown(report, sum(map(len, by_shard.values()))):
        for at, wanted in by_shard.items():
            tables = [
                _Table(one, read_shard(context.blobs, one))
                for one in (shards[at], *computed_shards(context.store, shards[at]))
            ]
            for number in wanted:
                _promote(context, dataset, tables, number, number % size, report)
                context.progress.advance(report.stage, 1)
    return report


class _Table:
    """The rows of a shard, and its Merkle tree."""

    def __init__(self, shard: StoredEntity, rows: Sequence[ShardRow]) -> None:
        self.shard = shard
        self.rows = rows
        self._levels = merkle_levels([row.leaf for row in rows])

    def named(self, place: int) -> PromotedRow:
        """Return what provenance states of a row."""
        record, row = self.shard.record(Shard), self.rows[place]
        return PromotedRow(
            shard=self.shard.id,
            step=record.step,
            root=record.root,
            records=record.records,
            row=place,
            proof=b"".join(merkle_proof(self._levels, place)).hex(),
            names=tuple(row.names),
            rest=row.rest,
        )


def _promote(
    context: RunContext,
    dataset: str,
    tables: Sequence[_Table],
    number: int,
    place: int,
    report: StageReport,
) -> None:
    used = (tables[0], *(one for one in tables[1:] if one.rows[place].names))
    promotion = Promotion(number=number, rows=tuple(one.named(place) for one in used))
    plan_id = register_plan(context.store, PROMOTE, VERSION, promotion.model_dump(mode="json"))
    if worked_inputs(context.store, plan_id, [number]):
        report.already_done += 1
        return
    row, result = tables[0].rows[place], RecordResult.of(tables[0].rows[place])
    refused = next(iter(result.rejections), None)
    if row.erased or not refused_files(context.store).keys().isdisjoint(row.digests):
        detail = f"record {number} of {dataset!r} was withdrawn"
        refused = Rejection(stage=PROMOTE, reason=WITHDRAWN, detail=detail)
    if refused is None:
        for table in tables[1:]:
            for call in RecordResult.of(table.rows[place]).calls:
                record_call(context.store, call)
    entities = () if refused else result.entities
    known = fetch(context.store, [one.id for one in entities])  # links never change
    linked = tuple(one if one.id in known else _linked(one, used) for one in entities)
    made = WorkResult(number, linked, rejection=refused)
    commit_chunk(context.store, context.activity(plan_id, dataset), [made])
    report.add([made])


def _linked(entity: NewEntity, tables: Sequence[_Table]) -> NewEntity:
    """Return an entity with links to the shards that its promotion names; its id stays the same."""
    imported, *computed = (one.shard.id for one in tables)
    links = ((Role.PROMOTED_FROM, imported), *((Role.PROMOTED_WITH, one) for one in computed))
    return entity.linked(*links)


def damaged_shards(context: RunContext, dataset: str) -> Iterator[str]:
    """Check all shards of a source and the proofs of promoted records; return what is wrong."""
    roots: dict[str, str] = {}
    for imported in imported_shards(context.store, dataset):
        for shard in (imported, *computed_shards(context.store, imported, (*LIVE, "inactive"))):
            roots[shard.id] = shard.record(Shard).root
            try:
                read_shard(context.blobs, shard)
            except IntegrityError as error:
                yield str(error)
    for configuration in configurations_of(context.store, PROMOTE):
        promoted = Promotion.model_validate(configuration)
        for one in promoted.rows:
            is_known = roots.get(one.shard, one.root) == one.root
            if one.names and not (is_known and one.is_proven(promoted.number)):
                yield (
                    f"record {promoted.number} was promoted with a proof that does not lead to "
                    f"the root of shard {one.shard}"
                )
