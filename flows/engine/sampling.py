"""Draw identities of a source into the dataset that is built, the same for the same seed."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from loupe.db.entities import (
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch,
    fetch_children,
    find,
    find_children,
    new_entity,
)
from loupe.db.quarantine import quarantined
from loupe.db.store import Store
from loupe.flows.engine.context import RunContext
from loupe.flows.engine.importing import STAGE as IMPORT
from loupe.flows.engine.report import StageReport
from loupe.flows.engine.runner import Stage, get_or_create_entity, quarantine, run_stream
from loupe.schemas.base import Record, digest_of
from loupe.schemas.build import SourceSpec
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Granularity, Image, Rejection, Sample, Source
from loupe.sources.importer import SEVERAL_IDENTITIES

VERSION = "1"
STAGE = "sample_identities"
COMPARISON = "compare_images"


class SampleSettings(Record):
    """The number of identities, the images of each (None: all) and the seed of the draw."""

    identities: int
    images_per_identity: int | None
    seed: int


def sample_identities(
    images: Mapping[str, Sequence[str]], settings: SampleSettings
) -> dict[str, list[str]]:
    """Return up to `settings.identities` of the identities in `images`, each with capped images.

    `images` maps an identity to the names of its images. Each name is ranked by a digest of seed
    and name (a hash draw). The result does not depend on the order of the input or a random number
    generator, and adding an identity replaces at most the last one drawn.
    """
    drawn = _first(images, settings.identities, settings.seed)
    return {
        name: _first(images[name], settings.images_per_identity, settings.seed) for name in drawn
    }


def _first(
    names: Mapping[str, Sequence[str]] | Sequence[str], count: int | None, seed: int
) -> list[str]:
    return sorted(names, key=lambda name: digest_of(str(seed), name))[:count]


def draw_sample(
    context: RunContext,
    dataset: str,
    spec: SourceSpec,
    source: NewEntity,
    settings: SampleSettings,
    coarse: int | None = None,
) -> tuple[StageReport, ...]:
    """Copy drawn images of `spec` and their captions into `dataset`.

    Images whose bytes are also those of another identity are quarantined, if identities are drawn:
    each caption of such an image is right for all of them, and would count for one. The draw is
    recorded as a `sample` entity, from which the copies derive. If `coarse` is given,
    each image is a group of its own, and at most so many of its captions are copied, as coarse
    ones.

    Raises:
        ConfigurationError: the source has no usable image, or the dataset contains another draw.
    """
    if next(find(context.store, dataset, Source.kind), None) is not None:
        # An imported dataset contains all of its images: a draw into it would have no effect.
        raise ConfigurationError(
            f"dataset {dataset!r} contains an imported source; use another dataset name"
        )
    is_of_persons = coarse is None
    repeated = _repeated_images(context.store, source, spec) if is_of_persons else {}
    pool, withdrawn = _pool(context.store, dataset, source, spec, repeated)
    draw = sample_identities(pool, settings)
    if not draw:
        raise ConfigurationError(
            f"source {spec.name} has no usable image in its {spec.split!r} split; "
            f"look at: loupe quarantine {spec.name}"
        )
    sample = _record(context, dataset, spec, source, settings, draw)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"sample": sample.id},
        label=f"sample {spec.name}",
    )
    drawn = (image for images in draw.values() for image in images)
    ids = [image for image in drawn if image not in withdrawn]
    elsewhere = _images_of_others(context.store, dataset, spec) if is_of_persons else {}

    def result(number: int, image: StoredEntity, captions: Sequence[StoredEntity]) -> WorkResult:
        record = image.record(Image)
        if owner := elsewhere.get(record.sha256):
            return WorkResult(number, rejection=_repeats(record, [owner, _owner(record)]))
        return WorkResult(number, _copied(dataset, image, captions, sample, coarse))

    def work(images: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
        captions = fetch_children(context.store, [one.id for _, one in images], Role.DESCRIBES)
        return [result(number, image, captions[image.id]) for number, image in images]

    def numbered() -> Iterator[tuple[int, StoredEntity]]:
        yield from sorted((one.seq, one) for one in fetch(context.store, ids).values())

    refused = [(image.seq, _repeats(record, owners)) for image, record, owners in repeated.values()]
    comparison = Stage(
        name=COMPARISON,
        version=VERSION,
        dataset=dataset,
        configuration={"source": source.id, "sample": sample.id},
        label=f"compare images of {spec.name}",
    )
    reports = [quarantine(context, comparison, refused)] if refused else []
    copied = run_stream(context, stage, numbered(), work, total=len(ids), fixed=True)
    return (*reports, copied)


class _Repeated(NamedTuple):
    """An image whose bytes several identities have."""

    entity: StoredEntity
    record: Image
    owners: list[str]


def _repeated_images(store: Store, source: NewEntity, spec: SourceSpec) -> dict[str, _Repeated]:
    """Return the images of the split whose bytes are those of several identities of the source.

    The identities of files that the import rejected, because it saw them under several, count.
    """
    owners: dict[str, set[str]] = defaultdict(set)
    for entity in _images_of(store, source):
        record = entity.record(Image)
        owners[record.sha256].add(_owner(record))
    for rejection in quarantined(store, spec.name, SEVERAL_IDENTITIES, stage=IMPORT):
        shared = rejection.context.get("shared")
        if shared and shared["source"] == source.id:
            owners[shared["sha256"]].add(f"{spec.name}/{shared['identity']}")
    return {
        entity.id: _Repeated(entity, record, sorted(owners[record.sha256]))
        for entity in _images_of(store, source)
        for record in [entity.record(Image)]
        if entity.split == spec.split and len(owners[record.sha256]) > 1
    }


def _images_of(store: Store, source: NewEntity) -> Iterator[StoredEntity]:
    for entity in find_children(store, source.id, Role.IMPORTED_FROM):
        if entity.kind == Image.kind:
            yield entity


def _images_of_others(store: Store, dataset: str, spec: SourceSpec) -> dict[str, str]:
    """Map the digests of images that were drawn from other sources to their identities."""
    images = (entity.record(Image) for entity in find(store, dataset, Image.kind))
    return {image.sha256: _owner(image) for image in images if image.source != spec.name}


def _owner(image: Image) -> str:
    return f"{image.source}/{image.identity}"


def _repeats(image: Image, owners: Sequence[str]) -> Rejection:
    detail = (
        f"image {image.file_path!r} is the same image, byte for byte, under the identities "
        f"{' and '.join(owners)}; keep it under one of them"
    )
    return Rejection.of(COMPARISON, SEVERAL_IDENTITIES, detail, file=image.file_path)


def _copied(
    dataset: str,
    image: StoredEntity,
    captions: Sequence[StoredEntity],
    sample: NewEntity,
    coarse: int | None,
) -> tuple[NewEntity, ...]:
    """Return an image and its captions; see `draw_sample`."""
    copy = new_entity(
        image.record(Image),
        dataset,
        parents=[(Role.SAMPLED_FROM, image.id), (Role.MEMBER_OF, sample.id)],
        split=image.split,
        group=image.group,
    )
    records = [(one.id, one.record(Caption)) for one in captions]
    if coarse is not None:
        copy = copy._replace(group=copy.id)
        first = sorted(records, key=lambda one: one[1].position)[:coarse]
        changed = {"granularity": Granularity.COARSE}
        records = [(id_, record.model_copy(update=changed)) for id_, record in first]
    copies = (
        new_entity(
            record,
            dataset,
            parents=[(Role.DESCRIBES, copy.id), (Role.SAMPLED_FROM, id_)],
            split=image.split,
            group=copy.id,
        )
        for id_, record in records
    )
    return (copy, *copies)


def _pool(
    store: Store,
    dataset: str,
    source: NewEntity,
    spec: SourceSpec,
    without: Container[str],
) -> tuple[dict[str, list[str]], set[str]]:
    """Return the ids of the images of the split, by identity, and those withdrawn since.

    Only images imported from this file count, except `without`: an edited annotation file is
    another source. Images drawn into `dataset` before they were withdrawn still count, so that the
    draw stays the same. Images that were not drawn do not change it when they are withdrawn.
    """
    images: dict[str, list[str]] = defaultdict(list)
    withdrawn: dict[str, str] = {}
    for entity in find_children(store, source.id, Role.IMPORTED_FROM):
        if entity.id in without:
            continue
        if entity.split == spec.split and entity.state == "proposed":
            images[str(entity.group)].append(entity.id)
        elif entity.split == spec.split and entity.state == "withdrawn":
            withdrawn[entity.id] = str(entity.group)
    copies = fetch_children(store, list(withdrawn), Role.SAMPLED_FROM)
    drawn = {id_ for id_, many in copies.items() if any(one.dataset == dataset for one in many)}
    for id_ in drawn:
        images[withdrawn[id_]].append(id_)
    return images, drawn


def _record(
    context: RunContext,
    dataset: str,
    spec: SourceSpec,
    source: NewEntity,
    settings: SampleSettings,
    draw: Mapping[str, Sequence[str]],
) -> NewEntity:
    images = sorted(f"{name}:{image}" for name, many in draw.items() for image in many)
    sample = Sample(
        source=spec.name,
        split=spec.split,
        seed=settings.seed,
        identities_wanted=settings.identities,
        images_per_identity=settings.images_per_identity,
        identities_drawn=len(draw),
        images_drawn=len(images),
        digest=digest_of(*images),
    )
    for earlier in find(context.store, dataset, Sample.kind):
        record = earlier.record(Sample)
        if record.source == spec.name and record != sample:
            raise ConfigurationError(
                f"dataset {dataset!r} already holds another draw from {spec.name} "
                f"(seed {record.seed}, {record.identities_drawn} identities, "
                f"{record.images_drawn} images): the seed, the limits, or the file, columns, split "
                f"or images of the source were different; build under another dataset name"
            )
    return get_or_create_entity(context, sample, dataset, [(Role.DRAWN_FROM, source.id)])
