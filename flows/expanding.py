"""Adds to the images of v1 those of their sources that resemble them, without captions: v2."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from db.entities import LIVE, StoredEntity
from db.store import Store
from db.work import WorkResult
from flows.captioning import task_of
from flows.context import RunContext
from flows.image_pools import Pool
from flows.report import StageReport
from flows.retiring import keep_current
from flows.runner import Stage, run_stream
from flows.similar_images import captions_of
from flows.single import store_entity
from flows.task_images import copied_image, images_of_tier, originals_of
from retrieval.neighbours import nearest_rows
from schemas.base import digest_of
from schemas.near_duplicates import NearDuplicateSettings
from schemas.records import Image
from schemas.similar_images import ExpansionReport, ExpansionSettings
from stages.near_duplicates.clusters import NearDuplicates, find_near_duplicates
from stages.similar_images.expansion import STAGE, VERSION, expand_images


def expand_gallery(
    context: RunContext,
    dataset: str,
    pool: Pool,
    neighbours: int,
    settings: NearDuplicateSettings,
    embedder: str,
) -> tuple[ExpansionReport, StageReport]:
    """Copies the neighbours of all images of v1 into `dataset`, as images of v2; gives the counts.

    An image has the task of an image of v1 that it is a neighbour of. Running again changes
    nothing, unless v1 has changed: then what is new joins, and what is no neighbour now is retired.
    """
    v1, turned_down = _by_original(context.store, dataset, pool)
    near = _neighbours(pool, sorted(v1), neighbours, turned_down)
    found = expand_images(
        near,
        ExpansionSettings(neighbours=neighbours),
        partial(_deduplicated, pool, settings, embedder),
        embedder,
    )
    counts = store_entity(context, found.report, dataset)
    tasks = {other: task_of(v1[one]) for one in sorted(near, reverse=True) for other in near[one]}
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"images": digest_of(*found.images), "counts": counts.id},
        label="expand the gallery",
    )
    added = [pool.images[pool.place[one]] for one in found.images]
    items = sorted(((image.seq, image) for image in added), key=lambda item: item[0])

    copies = {
        image.id: copied_image(image, dataset, tasks[image.id], "v2", ()) for _, image in items
    }
    wanted = {copy.id for copy in copies.values()}

    def work(images: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
        return [WorkResult(number, entities=(copies[image.id],)) for number, image in images]

    report = run_stream(context, stage, items, work, total=len(items))
    keep_current(context, dataset, Image.kind, lambda one: one.group != "v2" or one.id in wanted)
    return found.report, report


def _by_original(
    store: Store, dataset: str, pool: Pool
) -> tuple[dict[str, StoredEntity], frozenset[str]]:
    """The images of v1 by the image of the pool that each is a copy of; and those turned down.

    What people or the policy turned down, as a caption of another image fits it, must not come back
    among the images that captions are lost in; nor has an image neighbours that has no captions.
    """
    images = [image for tier in ("v0", "v1") for image in images_of_tier(store, dataset, tier)]
    originals = originals_of(store, images)
    captions = captions_of(store, [image.id for image in images])
    live = {
        originals[image.id]: image
        for image in images
        if image.state in LIVE and captions.get(image.id)
    }
    turned_down = {originals[image.id] for image in images} - live.keys()
    rejected = {originals[image.id] for image in images if image.state not in LIVE}
    turned_down |= {other for one in rejected for other in pool.alike.get(one, ())} - live.keys()
    return {one: image for one, image in live.items() if one in pool.place}, frozenset(turned_down)


def _neighbours(
    pool: Pool, v1: Sequence[str], wanted: int, turned_down: frozenset[str]
) -> Mapping[str, list[str]]:
    """For each image of v1 the most similar ones of its source, the nearest first."""
    places = np.array([pool.place[one] for one in v1], np.int64)
    found = nearest_rows(
        pool.vectors[places],
        pool.vectors,
        min(wanted + len(turned_down), len(pool.images)),
        query_groups=pool.sources[places],
        gallery_groups=pool.sources,
        excluded=places,
    )
    rows = ([pool.images[place].id for place in row if place >= 0] for row in found.places.tolist())
    return {
        one: [other for other in row if other not in turned_down][:wanted]
        for one, row in zip(v1, rows, strict=True)
    }


def _deduplicated(
    pool: Pool,
    settings: NearDuplicateSettings,
    embedder: str,
    images: Sequence[str],
    protected: frozenset[str],
) -> NearDuplicates:
    """One image of each content; what was rendered is never twice the same, however alike."""
    compared = [image for image in images if image not in pool.truths]
    found = find_near_duplicates(
        {image: pool.fingerprints[image] for image in compared},
        settings,
        embeddings=pool.vectors[[pool.place[image] for image in compared]],
        embedder=embedder,
        protected=protected & set(compared),
    )
    kept = set(found.kept) | pool.truths.keys()
    return found._replace(kept=tuple(image for image in images if image in kept))
