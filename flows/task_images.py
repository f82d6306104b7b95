"""Takes the images that tasks begin with out of their sources, into the dataset that is built.

Of every image only the picture is taken, not what its source says of it: captions are written anew.
"""

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from db.entities import (
    NewEntity,
    StoredEntity,
    fetch,
    find,
    find_children,
    find_in_groups,
    new_entity,
    parents_of,
)
from db.store import Store
from db.work import WorkResult
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.image_reading import StoredImage
from flows.importing import KNOWN_FROM
from flows.report import StageReport
from flows.runner import Stage, run_stream
from flows.single import store_entity
from models.embedding import Vectors
from schemas.base import digest_of
from schemas.build import TaskSpec
from schemas.errors import ConfigurationError
from schemas.proposals import Picture
from schemas.records import Image, ImageFacts, Rejection, Sample, Source
from schemas.recos import TaskDraw
from schemas.retrieval_task import RetrievalTask, Tier

STAGE = "take_task_images"
VERSION = "1"
SAMPLED_FROM = "sampled_from"
"""The role of the image in its source's dataset, of which one in the build is a copy."""
MEMBER_OF = "member_of"
"""The role of the draw that an image of v0 was taken in."""

Way = Literal["named", "nearest", "categories", "random"]


def take_task_images(
    context: RunContext,
    dataset: str,
    task: TaskSpec,
    source: NewEntity,
    seed: int,
    embedder: CachedEmbedder,
) -> StageReport:
    """Copies the images that `task` begins with from `source` into `dataset`, as of v0.

    A picture that the dataset has already, for another task, is passed over: each is there once.
    What is named and not in the source goes to quarantine, a category that no image has included.
    A draw stands as it is where something of it was withdrawn; nothing is taken in its place.

    Raises:
        ConfigurationError: the source has no usable image, or the dataset holds another draw for
            the task.
    """
    _require_own_dataset(context.store, dataset)
    images = images_of_source(context.store, source.id)
    if not images:
        raise ConfigurationError(
            f"source {source.dataset} has no usable image; look at: loupe quarantine "
            f"{source.dataset}"
        )
    if (reduced := _reduced_draw(context.store, dataset, task, source, seed)) is not None:
        return _take(context, dataset, task, source, reduced.id, [])
    way, ordered, unknown = _ordered(context, task, images, seed, embedder)
    others = _pictures_of_other_tasks(context.store, dataset, task.task)
    chosen = _different(ordered, others)[: task.images]
    draw = _record(context, dataset, task, source, way, seed, embedder, chosen)
    items: list[tuple[int, _Item]] = [(image.seq, _Item(image=image)) for image in chosen]
    items += [(-1 - place, _Item(name=name)) for place, name in enumerate(unknown)]
    return _take(context, dataset, task, source, draw.id, items)


def take_instead(
    context: RunContext,
    dataset: str,
    task: TaskSpec,
    source: NewEntity,
    seed: int,
    embedder: CachedEmbedder,
    turned_down: frozenset[str],
) -> StageReport | None:
    """Takes the next best images of `source` for those of `task` that were turned down.

    As many as the task lacks, or as the source still has; None where nothing was turned down.
    No picture is taken that was taken before, for any task.
    """
    draw = next(
        one
        for one in find(context.store, dataset, TaskDraw.kind)
        if (one.record(TaskDraw).task, one.record(TaskDraw).source) == (task.task, source.dataset)
    )
    members = list(find_children(context.store, draw.id, MEMBER_OF))
    missing = task.images - sum(image.id not in turned_down for image in members)
    if missing <= 0 or turned_down.isdisjoint(image.id for image in members):
        return None
    images = images_of_source(context.store, source.id)
    ordered = _ordered(context, task, images, seed, embedder)[1]
    chosen = _different(ordered, _pictures(context.store, dataset))[:missing]
    if len(chosen) < missing:
        context.progress.say(
            f"{task.task}: {missing - len(chosen)} of {task.images} images are missing; source "
            f"{source.dataset} has no more to propose"
        )
    items = [(one.seq, _Item(image=one)) for one in chosen]
    return _take(context, dataset, task, source, draw.id, items)


def _take(
    context: RunContext,
    dataset: str,
    task: TaskSpec,
    source: NewEntity,
    draw_id: str,
    items: Sequence[tuple[int, "_Item"]],
) -> StageReport:
    stage = Stage(
        name=STAGE,
        version=VERSION,
        dataset=dataset,
        configuration={"draw": draw_id},
        label=f"take {task.task} from {source.dataset}",
    )

    def work(items: Sequence[tuple[int, _Item]]) -> list[WorkResult]:
        return [_taken(number, item, dataset, task, source, draw_id) for number, item in items]

    return run_stream(context, stage, sorted(items, key=itemgetter(0)), work, total=len(items))


class _Item(NamedTuple):
    """An image that is taken, or a name or a category that no image of the source has."""

    name: str = ""
    image: StoredEntity | None = None


def images_of_source(store: Store, source_id: str) -> list[StoredEntity]:
    """The images that were imported from a source and not turned down, in the order of import."""
    children = find_children(store, source_id, "imported_from")
    return [one for one in children if one.kind == Image.kind and one.state == "proposed"]


def images_of_tier(store: Store, dataset: str, tier: str) -> list[StoredEntity]:
    """The images that first stand in a version, whatever was decided on them; none withdrawn."""
    found = find_in_groups(store, dataset, Image.kind, [tier])
    return [image for image in found if image.state != "withdrawn"]


def originals_of(store: Store, images: Sequence[StoredEntity]) -> dict[str, str]:
    """For each image of a benchmark the image of its source, by their ids."""
    parents = parents_of(store, [image.id for image in images], SAMPLED_FROM)
    return {id_: found[0] for id_, found in parents.items()}


def embed_stored(
    context: RunContext, embedder: CachedEmbedder, images: Sequence[StoredEntity]
) -> Vectors:
    """A row for each image, of shape (n, d)."""
    return embedder.embed_images([stored_image(context, image) for image in images])


def stored_image(context: RunContext, image: StoredEntity) -> StoredImage:
    """The picture of an image, in the blob store."""
    record = image.record(Image)
    name = f"{record.source}/{record.file_path}"
    return StoredImage(record.sha256, record.media_type, name, context.blobs)


def stored_picture(context: RunContext, picture: Picture) -> StoredImage:
    """A picture that a record holds, in the blob store."""
    name = f"picture {picture.sha256[:12]}"
    return StoredImage(picture.sha256, picture.media_type, name, context.blobs)


def picture_of(image: StoredEntity) -> Picture:
    """The picture of an image, for a record that holds all that people are shown."""
    record = image.record(Image)
    return Picture(
        sha256=record.sha256,
        media_type=record.media_type,
        width_px=record.width_px,
        height_px=record.height_px,
        image_id=image.id,
    )


def copied_image(
    image: StoredEntity,
    dataset: str,
    task: RetrievalTask,
    tier: Tier,
    parents: Sequence[tuple[str, str]],
) -> NewEntity:
    """An image of a source as one of the benchmark; all that is released is for testing.

    Its group is the tier: what is to be done with images hangs on that.
    """
    record = image.record(Image)
    return new_entity(
        record.model_copy(update={"split": "test", "task": task, "tier": tier}),
        dataset,
        parents=[(SAMPLED_FROM, image.id), *parents],
        split="test",
        group=tier,
    )


def _ordered(
    context: RunContext,
    task: TaskSpec,
    images: Sequence[StoredEntity],
    seed: int,
    embedder: CachedEmbedder,
) -> tuple[Way, list[StoredEntity], list[str]]:
    """The images of a source, the best for the task first, and the names that it does not know."""
    if task.names is not None:
        by_path = {image.record(Image).file_path: image for image in images}
        names = _names(task.names)
        found = [by_path[name] for name in names if name in by_path]
        return "named", found, [name for name in names if name not in by_path]
    if task.query is not None:
        rows = embed_stored(context, embedder, images)
        cosines = np.round(rows @ embedder.embed_texts([task.query])[0], 6)
        order = sorted(range(len(images)), key=lambda at: (-cosines[at], images[at].id))
        return "nearest", [images[at] for at in order], []
    drawn = sorted(images, key=lambda image: digest_of("task", str(seed), task.task, image.id))
    if task.categories:
        found, unknown = _with_categories(context.store, drawn, task.categories)
        return "categories", found, unknown
    return "random", drawn, []


def _with_categories(
    store: Store, images: Sequence[StoredEntity], categories: Sequence[str]
) -> tuple[list[StoredEntity], list[str]]:
    """The images that have at least one of the categories; and the categories that none has."""
    known = parents_of(store, [image.id for image in images], KNOWN_FROM)
    records = fetch(store, {one for found in known.values() for one in found})
    of_record = {
        id_: {name.casefold() for name in entity.record(ImageFacts).categories}
        for id_, entity in records.items()
    }
    wanted = {" ".join(name.casefold().split()): name for name in categories}
    found = [
        image
        for image in images
        if any(not wanted.keys().isdisjoint(of_record[one]) for one in known.get(image.id, ()))
    ]
    seen = set().union(*of_record.values())
    return found, [name for folded, name in wanted.items() if folded not in seen]


def _names(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the names in {path} cannot be read: {error}") from error
    names = (line.strip().removeprefix("./") for line in lines)
    return list(dict.fromkeys(name for name in names if name and not name.startswith("#")))


def _pictures_of_other_tasks(store: Store, dataset: str, task: RetrievalTask) -> set[str]:
    records = (image.record(Image) for image in find(store, dataset, Image.kind))
    return {record.sha256 for record in records if record.task != task and record.tier == "v0"}


def _pictures(store: Store, dataset: str) -> set[str]:
    """The pictures that v0 has or had, of all tasks."""
    return {one.record(Image).sha256 for one in images_of_tier(store, dataset, "v0")}


def _different(images: Sequence[StoredEntity], taken: set[str]) -> list[StoredEntity]:
    """The images whose picture is not taken, each picture once."""
    chosen: dict[str, StoredEntity] = {}
    for image in images:
        sha256 = image.record(Image).sha256
        if sha256 not in taken:
            chosen.setdefault(sha256, image)
    return list(chosen.values())


def _record(
    context: RunContext,
    dataset: str,
    task: TaskSpec,
    source: NewEntity,
    way: Way,
    seed: int,
    embedder: CachedEmbedder,
    chosen: Sequence[StoredEntity],
) -> NewEntity:
    draw = TaskDraw(
        task=task.task,
        source=source.dataset,
        way=way,
        query=task.query,
        categories=task.categories,
        embedder=str(embedder.ref) if way == "nearest" else None,
        seed=seed,
        images_wanted=task.images,
        images_drawn=len(chosen),
        digest=digest_of(*(image.id for image in chosen)),
    )
    for earlier in find(context.store, dataset, TaskDraw.kind):
        record = earlier.record(TaskDraw)
        if (record.task, record.source) == (draw.task, draw.source) and record != draw:
            raise ConfigurationError(
                f"dataset {dataset!r} already holds another draw of {draw.task} images from "
                f"{draw.source} ({record.images_drawn} {record.way}); build under another dataset "
                f"name"
            )
    return store_entity(context, draw, dataset, [("drawn_from", source.id)])


def _reduced_draw(
    store: Store, dataset: str, task: TaskSpec, source: NewEntity, seed: int
) -> StoredEntity | None:
    """The draw for a task that something was withdrawn of: it cannot be made again."""
    wanted = (task.task, source.dataset, task.query, task.categories, seed, task.images)
    for draw in find(store, dataset, TaskDraw.kind):
        record = draw.record(TaskDraw)
        asked = (record.task, record.source, record.query, record.categories, record.seed)
        if (*asked, record.images_wanted) != wanted:
            continue
        if any(one.state == "withdrawn" for one in find_children(store, draw.id, MEMBER_OF)):
            return draw
    return None


def _taken(
    number: int,
    item: _Item,
    dataset: str,
    task: TaskSpec,
    source: NewEntity,
    draw_id: str,
) -> WorkResult:
    if item.image is None:
        detail = f"{task.names} names {item.name!r}, which is no usable image of {source.dataset}."
        reason = "unknown_name"
        if task.categories:
            detail = f"No usable image of {source.dataset} has the category {item.name!r}."
            reason = "unknown_category"
        context = {"name": item.name}
        rejection = Rejection(stage=STAGE, reason=reason, detail=detail, context=context)
        return WorkResult(number, rejection=rejection)
    copy = copied_image(item.image, dataset, task.task, "v0", [(MEMBER_OF, draw_id)])
    return WorkResult(number, entities=(copy,))


def _require_own_dataset(store: Store, dataset: str) -> None:
    """What is imported, or built otherwise, lies whole in its dataset."""
    for kind in (Source.kind, Sample.kind):
        if next(find(store, dataset, kind), None) is not None:
            raise ConfigurationError(
                f"dataset {dataset!r} holds what is not built from tasks; build under another "
                f"dataset name"
            )
