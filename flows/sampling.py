"""Draws a source's identities into the dataset that is built."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from db.entities import NewEntity, StoredEntity, children_of, fetch, find, find_children, new_entity
from db.store import Store
from db.work import WorkResult
from flows.context import RunContext
from flows.report import StageReport
from flows.runner import Stage, run_stream
from flows.single import store_entity
from schemas.build import SourceSpec, UFine3CBuild
from schemas.errors import ConfigurationError
from schemas.records import Caption, Image, Sample, Source
from stages.sample_identities import (
    STAGE,
    VERSION,
    Draw,
    SampleSettings,
    sample_identities,
)


def draw_sample(
    context: RunContext, build: UFine3CBuild, spec: SourceSpec, source: NewEntity
) -> StageReport:
    """Copies the drawn images of `spec` and their captions into `build.dataset`.

    The draw is recorded as a `sample` entity, from which the copies derive.

    Raises:
        ConfigurationError: the dataset holds another draw from this source.
    """
    _require_own_dataset(context.store, build.dataset)
    settings = SampleSettings(
        identities=spec.identities or build.identities_per_source,
        images_per_identity=spec.images_per_identity,
        seed=build.seed,
    )
    draw = sample_identities(_images_by_identity(context.store, source, spec), settings)
    if not draw.images:
        raise ConfigurationError(
            f"source {spec.name} has no usable image in its {spec.split!r} split; "
            f"look at: loupe quarantine {spec.name}"
        )
    sample = _record(context, build, spec, source, settings, draw)
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=build.dataset,
        configuration={"sample": sample.id},
        label=f"sample {spec.name}",
    )
    ids = [image for images in draw.images.values() for image in images]

    def work(images: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
        return _copy(context.store, build.dataset, sample, images)

    return run_stream(context, stage, _numbered(context.store, ids), work, total=len(ids))


def _require_own_dataset(store: Store, dataset: str) -> None:
    """What is imported lies whole in its dataset: a draw beside it would be no draw."""
    if next(find(store, dataset, Source.kind), None) is not None:
        raise ConfigurationError(
            f"dataset {dataset!r} holds an imported source; build under another dataset name"
        )


def _images_by_identity(store: Store, source: NewEntity, spec: SourceSpec) -> dict[str, list[str]]:
    """The ids of the split's images by identity; nothing but ids is held.

    Only what this very file brought counts: an edited annotation file is another source.
    """
    images: dict[str, list[str]] = defaultdict(list)
    for entity in find_children(store, source.id, "imported_from"):
        if entity.split == spec.split and entity.state == "proposed":
            images[str(entity.group)].append(entity.id)
    return images


def _record(
    context: RunContext,
    build: UFine3CBuild,
    spec: SourceSpec,
    source: NewEntity,
    settings: SampleSettings,
    draw: Draw,
) -> NewEntity:
    sample = Sample(
        source=spec.name,
        split=spec.split,
        seed=settings.seed,
        identities_wanted=settings.identities,
        images_per_identity=settings.images_per_identity,
        identities_drawn=len(draw.images),
        images_drawn=sum(len(images) for images in draw.images.values()),
        digest=draw.digest,
    )
    for earlier in find(context.store, build.dataset, Sample.kind):
        record = earlier.record(Sample)
        if record.source == spec.name and record != sample:
            raise ConfigurationError(
                f"dataset {build.dataset!r} already holds another draw from {spec.name} "
                f"(seed {record.seed}, {record.identities_drawn} identities, "
                f"{record.images_drawn} images); build under another dataset name"
            )
    return store_entity(context, sample, build.dataset, [("drawn_from", source.id)])


def _numbered(store: Store, ids: Sequence[str]) -> Iterator[tuple[int, StoredEntity]]:
    entities = fetch(store, ids)
    return iter(sorted((entity.seq, entity) for entity in entities.values()))


def _copy(
    store: Store, dataset: str, sample: NewEntity, images: Sequence[tuple[int, StoredEntity]]
) -> list[WorkResult]:
    captions_of = children_of(store, [image.id for _, image in images], "describes")
    captions = fetch(store, (one for many in captions_of.values() for one in many))
    results = []
    for number, image in images:
        copy = new_entity(
            image.record(Image),
            dataset,
            parents=[("sampled_from", image.id), ("member_of", sample.id)],
            split=image.split,
            group=image.group,
        )
        copies = (
            new_entity(
                captions[caption_id].record(Caption),
                dataset,
                parents=[("describes", copy.id), ("sampled_from", caption_id)],
                split=image.split,
                group=copy.id,
            )
            for caption_id in captions_of[image.id]
        )
        results.append(WorkResult(number, entities=(copy, *copies)))
    return results
