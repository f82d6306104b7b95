"""The images of a benchmark of tasks: from sources, drawn, and selected by people."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from db.entities import (
    NewEntity,
    StoredEntity,
    WorkResult,
    fetch_parents,
    find,
    find_children,
    find_in_groups,
    new_entity,
    parents_of,
)
from db.store import Store
from flows.engine.context import RunContext
from flows.engine.embedding import CachedEmbedder, stored_image
from flows.engine.report import StageReport
from flows.engine.runner import Stage, get_or_create_entity, run_each
from models.embedding import Vectors
from schemas.base import digest_of
from schemas.build import TaskSpec
from schemas.errors import ConfigurationError
from schemas.provenance import Role
from schemas.records import Image, ImageFacts, Rejection, Sample, Source
from schemas.recos import Selection, TaskDraw
from schemas.taxonomy import RetrievalTask, Tier

# The images of a benchmark of tasks, their origin and their embeddings.


def images_of_source(store: Store, source_id: str) -> list[StoredEntity]:
    """Return the images imported from a source and not rejected, by id."""
    children = find_children(store, source_id, Role.IMPORTED_FROM)
    images = (one for one in children if one.kind == Image.kind and one.state == "proposed")
    return sorted(images, key=lambda one: one.id)


def images_of_tier(store: Store, dataset: str, tier: str) -> list[StoredEntity]:
    """Return the images that a version added, by id, with any decision except withdrawal."""
    found = find_in_groups(store, dataset, Image.kind, [tier])
    return sorted((one for one in found if one.state != "withdrawn"), key=lambda one: one.id)


def originals_of(store: Store, images: Sequence[StoredEntity]) -> dict[str, str]:
    """Return the image of its source for each image of a benchmark, by their ids."""
    parents = parents_of(store, [image.id for image in images], Role.SAMPLED_FROM)
    return {id_: found[0] for id_, found in parents.items()}


def embed_stored(
    context: RunContext, embedder: CachedEmbedder, images: Sequence[StoredEntity]
) -> Vectors:
    """Return the embedding of each image, of shape (n, d)."""
    return embedder.embed_images([stored_image(context.blobs, image) for image in images])


def copied_image(
    image: StoredEntity,
    dataset: str,
    task: RetrievalTask,
    tier: Tier,
    parents: Sequence[tuple[Role, str]],
) -> NewEntity:
    """Copy an image of a source into the benchmark; all released images are for testing.

    Its group is the tier, which determines the further steps.
    """
    record = image.record(Image)
    return new_entity(
        record.model_copy(update={"split": "test", "task": task, "tier": tier}),
        dataset,
        parents=[(Role.SAMPLED_FROM, image.id), *parents],
        split="test",
        group=tier,
    )


# The images of a source in the order in which a task takes them, best first.

Method = Literal["named", "nearest", "categories", "random"]


class OrderedImages(NamedTuple):
    """Images of a source in the order of a task.

    `method` is how they were ordered; `unknown` are names or categories that the task wants and no
    image has.
    """

    method: Method
    images: list[StoredEntity]
    unknown: list[str]


def _named(images: Sequence[StoredEntity], names_file: Path) -> OrderedImages:
    by_path = {image.record(Image).file_path: image for image in images}
    names = _names(names_file)
    found = [by_path[name] for name in names if name in by_path]
    return OrderedImages("named", found, [name for name in names if name not in by_path])


def _names(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the names in {path} cannot be read: {error}") from error
    names = (line.strip().removeprefix("./") for line in lines)
    return list(dict.fromkeys(name for name in names if name and not name.startswith("#")))


def _nearest(
    context: RunContext, images: Sequence[StoredEntity], query: str, embedder: CachedEmbedder
) -> list[StoredEntity]:
    """Return all images, nearest to the query first."""
    rows = embed_stored(context, embedder, images)
    cosines = np.round(rows @ embedder.embed_texts([query])[0], 6)
    order = sorted(range(len(images)), key=lambda at: (-cosines[at], images[at].id))
    return [images[at] for at in order]


def _with_categories(
    store: Store, images: Sequence[StoredEntity], categories: Sequence[str]
) -> OrderedImages:
    """Return images with at least one of the categories, and categories without an image."""
    known = fetch_parents(store, [image.id for image in images], Role.KNOWN_FROM)
    named = {
        id_: {name.casefold() for one in many for name in one.record(ImageFacts).categories}
        for id_, many in known.items()
    }
    wanted = {" ".join(name.casefold().split()): name for name in categories}
    found = [one for one in images if not wanted.keys().isdisjoint(named.get(one.id, ()))]
    seen = set().union(*named.values())
    unknown = [name for folded, name in wanted.items() if folded not in seen]
    return OrderedImages("categories", found, unknown)


# Only images are taken, not the captions of their source: new captions are written.

STAGE = "take_task_images"
VERSION = "1"


@dataclass(frozen=True)
class TaskImages:
    """The images of one task, taken from one source into `dataset`."""

    context: RunContext
    dataset: str
    task: TaskSpec
    source: NewEntity
    seed: int
    embedder: CachedEmbedder

    def take(self) -> StageReport:
        """Copy the first images of the task into v0.

        An image that the dataset already has for another task is skipped. Missing names, and
        categories without an image, are quarantined. If something of a draw was withdrawn, the draw
        is kept and nothing is taken instead.

        Raises:
            ConfigurationError: the source has no usable image, or the dataset has another draw for
                the task.
        """
        _require_own_dataset(self.context.store, self.dataset)
        images = images_of_source(self.context.store, self.source.id)
        if not images:
            raise ConfigurationError(
                f"source {self.source.dataset} has no usable image; look at: loupe quarantine "
                f"{self.source.dataset}"
            )
        if (reduced := self._reduced_draw()) is not None:
            return self._take(reduced.id, [])
        ordered = self._ordered(images)
        others = (image.record(Image) for image in self._found(Image.kind))
        taken = {one.sha256 for one in others if one.task != self.task.task and one.tier == "v0"}
        chosen = _different(ordered.images, taken)[: self.task.images]
        draw = self._record(ordered.method, chosen)
        unknown = [(-1 - place, name) for place, name in enumerate(ordered.unknown)]
        return self._take(draw.id, [*unknown, *((image.seq, image) for image in chosen)])

    def take_instead(self, rejected_images: frozenset[str]) -> StageReport | None:
        """Take the next best images instead of rejected ones of the task.

        Takes as many as the task lacks, or as the source still has; None if nothing was rejected.
        An image that was taken before, for any task, is not taken again.
        """
        task, store = self.task, self.context.store
        draw = self._draws()[0]
        members = list(find_children(store, draw.id, Role.MEMBER_OF))
        missing = task.images - sum(image.id not in rejected_images for image in members)
        if missing <= 0 or rejected_images.isdisjoint(image.id for image in members):
            return None
        ordered = self._ordered(images_of_source(store, self.source.id))
        had = images_of_tier(store, self.dataset, "v0")  # including rejected ones
        chosen = _different(ordered.images, {one.record(Image).sha256 for one in had})[:missing]
        if len(chosen) < missing:
            self.context.progress.say(
                f"{task.task}: {missing - len(chosen)} of {task.images} images are missing; source "
                f"{self.source.dataset} has no more to propose"
            )
        return self._take(draw.id, [(one.seq, one) for one in chosen])

    def _ordered(self, images: Sequence[StoredEntity]) -> OrderedImages:
        """Return those of `images` that the task may take: named, nearest to its query, or random.

        Raises:
            ConfigurationError: the file of names cannot be read.
        """
        task = self.task
        if task.names is not None:
            return _named(images, task.names)
        if task.query is not None:
            nearest = _nearest(self.context, images, task.query, self.embedder)
            return OrderedImages("nearest", nearest, [])
        drawn = sorted(
            images, key=lambda image: digest_of("task", str(self.seed), task.task, image.id)
        )
        if task.categories:
            return _with_categories(self.context.store, drawn, task.categories)
        return OrderedImages("random", drawn, [])

    def _record(self, method: Method, chosen: Sequence[StoredEntity]) -> NewEntity:
        """Store the draw and how it was made.

        Raises:
            ConfigurationError: the dataset has another draw for the task.
        """
        task, source = self.task, self.source
        draw = TaskDraw(
            task=task.task,
            source=source.dataset,
            method=method,
            query=task.query,
            categories=task.categories,
            embedder=str(self.embedder.ref) if method == "nearest" else None,
            seed=self.seed,
            images_wanted=task.images,
            images_drawn=len(chosen),
            digest=digest_of(*(image.id for image in chosen)),
        )
        for earlier in self._draws():
            if (record := earlier.record(TaskDraw)) != draw:
                raise ConfigurationError(
                    f"dataset {self.dataset!r} already holds another draw of {draw.task} images "
                    f"from {draw.source} ({record.images_drawn} {record.method}); build under "
                    f"another dataset name"
                )
        return get_or_create_entity(
            self.context, draw, self.dataset, [(Role.DRAWN_FROM, source.id)]
        )

    def _reduced_draw(self) -> StoredEntity | None:
        """Return the same draw if something of it was withdrawn, so that it cannot be repeated."""
        task, store = self.task, self.context.store
        wanted = (task.query, task.categories, self.seed, task.images)
        for draw in self._draws():
            record = draw.record(TaskDraw)
            if (record.query, record.categories, record.seed, record.images_wanted) != wanted:
                continue
            if any(
                one.state == "withdrawn" for one in find_children(store, draw.id, Role.MEMBER_OF)
            ):
                return draw
        return None

    def _draws(self) -> list[StoredEntity]:
        """Return the draws for this task from this source."""
        wanted = (self.task.task, self.source.dataset)
        draws = ((one, one.record(TaskDraw)) for one in self._found(TaskDraw.kind))
        return [one for one, record in draws if (record.task, record.source) == wanted]

    def _found(self, kind: str) -> Iterator[StoredEntity]:
        return find(self.context.store, self.dataset, kind)

    def _take(self, draw_id: str, items: Iterable[tuple[int, StoredEntity | str]]) -> StageReport:
        """Commit images as members of a draw.

        A name or category without an image in the source is quarantined.
        """
        stage = Stage(
            name=STAGE,
            version=VERSION,
            dataset=self.dataset,
            configuration={"draw": draw_id},
            label=f"take {self.task.task} from {self.source.dataset}",
        )

        def result(number: int, item: StoredEntity | str) -> WorkResult:
            return self._taken(number, item, draw_id)

        return run_each(self.context, stage, sorted(items, key=itemgetter(0)), result)

    def _taken(self, number: int, item: StoredEntity | str, draw_id: str) -> WorkResult:
        if isinstance(item, StoredEntity):
            parents = [(Role.MEMBER_OF, draw_id)]
            copy = copied_image(item, self.dataset, self.task.task, "v0", parents)
            return WorkResult(number, entities=(copy,))
        source = self.source.dataset
        if self.task.categories:
            reason = "unknown_category"
            detail = f"No usable image of {source} has the category {item!r}."
        else:
            reason = "unknown_name"
            detail = f"{self.task.names} names {item!r}, which is no usable image of {source}."
        rejection = Rejection(stage=STAGE, reason=reason, detail=detail, context={"name": item})
        return WorkResult(number, rejection=rejection)


def _different(images: Sequence[StoredEntity], taken: set[str]) -> list[StoredEntity]:
    """Return images whose content is not taken, each content once."""
    chosen: dict[str, StoredEntity] = {}
    for image in images:
        sha256 = image.record(Image).sha256
        if sha256 not in taken:
            chosen.setdefault(sha256, image)
    return list(chosen.values())


def _require_own_dataset(store: Store, dataset: str) -> None:
    """Raise if the dataset already has images that were imported or built otherwise."""
    for kind in (Source.kind, Sample.kind):
        if next(find(store, dataset, kind), None) is not None:
            raise ConfigurationError(
                f"dataset {dataset!r} has entities that were not built from tasks; build under "
                f"another dataset name"
            )


def rejected_images(store: Store, dataset: str) -> frozenset[str]:
    """Return the images that people, or the policy, found not to fit their task, by id."""
    rejected = [one.id for one in find(store, dataset, Selection.kind, states=("rejected",))]
    return frozenset(found[0] for found in parents_of(store, rejected, Role.SELECTS).values())
