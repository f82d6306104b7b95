"""Adds to the images of v1 those of their sources that resemble them, without captions: v2."""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from db.entities import LIVE, NewEntity, StoredEntity, fetch, find
from db.store import Store
from db.work import WorkResult
from flows.captioning import task_of
from flows.context import RunContext
from flows.duplicate_questions import ask_of_duplicates, standing_images
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
from schemas.tracked_video import StageSettings
from stages.near_duplicates.clusters import NearDuplicates, find_near_duplicates
from stages.similar_images.expansion import STAGE, VERSION, expand_images

_LABEL = "expand the gallery"
EXPANDED_WITH = "expanded_with"
"""The role of the settings that an image of v2 was chosen with."""


def expand_gallery(
    context: RunContext,
    dataset: str,
    pool: Pool,
    neighbours: int,
    settings: NearDuplicateSettings,
    embedder: str,
) -> tuple[ExpansionReport, list[StageReport]]:
    """Copies the neighbours of all images of v1 into `dataset`, as images of v2; gives the counts.

    Proposes a question for each pair of which it is in doubt whether one of them has to go.
    An image has the task of an image of v1 that it is a neighbour of. Running again changes
    nothing, and compares nothing, unless v1 or the sources have changed: then what is new joins,
    and what is no neighbour now is retired.
    """
    begun = _load_begun(context.store, dataset)
    chosen_with = {
        "neighbours": neighbours,
        "near_duplicates": settings.model_dump(mode="json"),
        "embedder": embedder,
    }
    told = {**chosen_with, "inputs": begun.digest_with(pool)}
    if earlier := _earlier_counts(context.store, dataset, told):
        return earlier, [StageReport(_LABEL)]
    v1, turned_down = _in_pool(begun, pool)
    near = _neighbours(pool, sorted(v1), neighbours, turned_down)
    found = expand_images(
        near,
        ExpansionSettings(neighbours=neighbours),
        partial(_deduplicated, pool, settings, embedder),
        embedder,
    )
    counts = store_entity(context, found.report, dataset).id
    limits = StageSettings(stage=STAGE, version=VERSION, values=chosen_with)
    chosen_by = store_entity(context, limits, dataset).id
    added = {one: pool.images[pool.place[one]] for one in found.images}
    tasks = {other: task_of(v1[one]) for one in sorted(near, reverse=True) for other in near[one]}
    copies = {
        one: copied_image(image, dataset, tasks[one], "v2", [(EXPANDED_WITH, chosen_by)])
        for one, image in added.items()
    }
    configuration = {"settings": chosen_by, "images": digest_of(*found.images), "counts": counts}
    copied = _store_copies(context, dataset, added.values(), copies, configuration)
    wanted = {copy.id for copy in copies.values()}
    _retire_others(context, dataset, wanted)
    stored = fetch(context.store, wanted)
    members = v1 | {one: stored[copy.id] for one, copy in copies.items()}
    asked = ask_of_duplicates(context, dataset, found.doubtful, members, embedder)
    told |= {"counts": counts, "images": _standing(context.store, dataset)}
    store_entity(context, StageSettings(stage=STAGE, version=VERSION, values=told), dataset)
    return found.report, [copied, asked]


def _store_copies(
    context: RunContext,
    dataset: str,
    added: Iterable[StoredEntity],
    copies: Mapping[str, NewEntity],
    configuration: dict[str, Any],
) -> StageReport:
    stage = Stage(
        name=STAGE, version=VERSION, dataset=dataset, configuration=configuration, label=_LABEL
    )
    items = sorted(((image.seq, image) for image in added), key=lambda item: item[0])

    def work(images: Sequence[tuple[int, StoredEntity]]) -> list[WorkResult]:
        return [WorkResult(number, entities=(copies[image.id],)) for number, image in images]

    return run_stream(context, stage, items, work, total=len(items))


def _retire_others(context: RunContext, dataset: str, wanted: Container[str]) -> None:
    """Retires images of v2 that are no neighbours now, and brings those back that are again."""
    standing = standing_images(context.store, images_of_tier(context.store, dataset, "v2"))

    def is_current(image: StoredEntity) -> bool | None:
        """None for images of v1, and for those that were turned down otherwise."""
        return True if image.id in wanted else False if image.id in standing else None

    keep_current(context, dataset, Image.kind, is_current, states=("proposed", "rejected"))


def _earlier_counts(store: Store, dataset: str, told: Mapping[str, Any]) -> ExpansionReport | None:
    """What came of an expansion of the same with the same settings, if its images still stand."""
    now = {**told, "images": _standing(store, dataset)}
    for one in find(store, dataset, StageSettings.kind):
        record = one.record(StageSettings)
        if (record.stage, record.version) != (STAGE, VERSION):
            continue
        if {key: value for key, value in record.values.items() if key != "counts"} == now:
            counts: str = record.values["counts"]
            return fetch(store, [counts])[counts].record(ExpansionReport)
    return None


def _standing(store: Store, dataset: str) -> str:
    """Changes where the images of v2 do, but for what people find the same."""
    return digest_of(*sorted(standing_images(store, images_of_tier(store, dataset, "v2"))))


class _Begun(NamedTuple):
    """The images of v1, by the image of a source that each is a copy of.

    Attributes:
        live: those that are released.
        turned_down: originals of all others: what people or the policy turned down must not come
            back among the images that captions are lost in; nor has an image neighbours that has
            no captions.
        rejected: originals of those whose like must not come back, either.
    """

    live: dict[str, StoredEntity]
    turned_down: frozenset[str]
    rejected: frozenset[str]

    def digest_with(self, pool: Pool) -> str:
        """Changes where any of these images, or those of the sources, do."""
        return digest_of(
            *sorted(self.live),
            "",
            *sorted(self.turned_down),
            "",
            *sorted(self.rejected),
            pool.digest,
        )


def _load_begun(store: Store, dataset: str) -> _Begun:
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
    return _Begun(live, frozenset(turned_down), frozenset(rejected))


def _in_pool(begun: _Begun, pool: Pool) -> tuple[dict[str, StoredEntity], frozenset[str]]:
    """The images of v1 that can be compared; and all that are turned down, with their like."""
    pool.alike.look_up(begun.rejected)
    like = {other for one in begun.rejected for other in pool.alike.get(one, ())}
    turned_down = begun.turned_down | (like - begun.live.keys())
    return {one: image for one, image in begun.live.items() if one in pool.place}, turned_down


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
