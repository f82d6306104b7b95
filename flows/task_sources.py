"""Takes the images that tasks begin with out of their sources, into the dataset that is built.

Of every image only the picture is taken, not what its source says of it: captions are written anew.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from db.entities import NewEntity, StoredEntity, find, find_children
from db.store import Store
from db.work import WorkResult
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.report import StageReport
from flows.runner import Stage, run_stream
from flows.single import store_entity
from flows.task_image_order import OrderedImages, Way, order_images
from flows.task_images import MEMBER_OF, copied_image, images_of_source, images_of_tier
from schemas.base import digest_of
from schemas.build import TaskSpec
from schemas.errors import ConfigurationError
from schemas.records import Image, Rejection, Sample, Source
from schemas.recos import TaskDraw

STAGE = "take_task_images"
VERSION = "1"


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
    taking = _Taking(context, dataset, task, source, seed, embedder)
    images = images_of_source(context.store, source.id)
    if not images:
        raise ConfigurationError(
            f"source {source.dataset} has no usable image; look at: loupe quarantine "
            f"{source.dataset}"
        )
    if (reduced := taking.reduced_draw()) is not None:
        return taking.take(reduced.id, [])
    ordered = taking.ordered(images)
    chosen = _different(ordered.images, taking.pictures_of_other_tasks())[: task.images]
    draw = taking.record(ordered.way, chosen)
    items = [(image.seq, _Item(image=image)) for image in chosen]
    items += [(-1 - place, _Item(name=name)) for place, name in enumerate(ordered.unknown)]
    return taking.take(draw.id, items)


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
    taking = _Taking(context, dataset, task, source, seed, embedder)
    draw = taking.draw()
    members = list(find_children(context.store, draw.id, MEMBER_OF))
    missing = task.images - sum(image.id not in turned_down for image in members)
    if missing <= 0 or turned_down.isdisjoint(image.id for image in members):
        return None
    ordered = taking.ordered(images_of_source(context.store, source.id))
    chosen = _different(ordered.images, _pictures(context.store, dataset))[:missing]
    if len(chosen) < missing:
        context.progress.say(
            f"{task.task}: {missing - len(chosen)} of {task.images} images are missing; source "
            f"{source.dataset} has no more to propose"
        )
    return taking.take(draw.id, [(one.seq, _Item(image=one)) for one in chosen])


class _Item(NamedTuple):
    """An image that is taken, or a name or a category that no image of the source has."""

    name: str = ""
    image: StoredEntity | None = None


class _Taking:
    """The images of one task, as they are taken out of one source."""

    def __init__(
        self,
        context: RunContext,
        dataset: str,
        task: TaskSpec,
        source: NewEntity,
        seed: int,
        embedder: CachedEmbedder,
    ) -> None:
        self._context = context
        self._dataset = dataset
        self._task = task
        self._source = source
        self._seed = seed
        self._embedder = embedder

    def ordered(self, images: Sequence[StoredEntity]) -> OrderedImages:
        """The images of the source, the best for the task first."""
        return order_images(self._context, self._task, images, self._seed, self._embedder)

    def record(self, way: Way, chosen: Sequence[StoredEntity]) -> NewEntity:
        """Stores what was drawn, and how.

        Raises:
            ConfigurationError: the dataset holds another draw for the task.
        """
        task, source = self._task, self._source
        draw = TaskDraw(
            task=task.task,
            source=source.dataset,
            way=way,
            query=task.query,
            categories=task.categories,
            embedder=str(self._embedder.ref) if way == "nearest" else None,
            seed=self._seed,
            images_wanted=task.images,
            images_drawn=len(chosen),
            digest=digest_of(*(image.id for image in chosen)),
        )
        for earlier in self._draws():
            if (record := earlier.record(TaskDraw)) != draw:
                raise ConfigurationError(
                    f"dataset {self._dataset!r} already holds another draw of {draw.task} images "
                    f"from {draw.source} ({record.images_drawn} {record.way}); build under another "
                    f"dataset name"
                )
        return store_entity(self._context, draw, self._dataset, [("drawn_from", source.id)])

    def draw(self) -> StoredEntity:
        """The draw that was stored."""
        return self._draws()[0]

    def reduced_draw(self) -> StoredEntity | None:
        """The same draw, where something of it was withdrawn: it cannot be made again."""
        task, store = self._task, self._context.store
        wanted = (task.query, task.categories, self._seed, task.images)
        for draw in self._draws():
            record = draw.record(TaskDraw)
            if (record.query, record.categories, record.seed, record.images_wanted) != wanted:
                continue
            if any(one.state == "withdrawn" for one in find_children(store, draw.id, MEMBER_OF)):
                return draw
        return None

    def _draws(self) -> list[StoredEntity]:
        """The draws for this task from this source."""
        wanted = (self._task.task, self._source.dataset)
        draws = ((one, one.record(TaskDraw)) for one in self._found(TaskDraw.kind))
        return [one for one, record in draws if (record.task, record.source) == wanted]

    def pictures_of_other_tasks(self) -> set[str]:
        """The pictures that v0 has for other tasks."""
        records = (image.record(Image) for image in self._found(Image.kind))
        return {
            record.sha256
            for record in records
            if record.task != self._task.task and record.tier == "v0"
        }

    def _found(self, kind: str) -> Iterator[StoredEntity]:
        return find(self._context.store, self._dataset, kind)

    def take(self, draw_id: str, items: Sequence[tuple[int, _Item]]) -> StageReport:
        """Commits images as members of a draw; what the source does not have goes to quarantine."""
        stage = Stage(
            name=STAGE,
            version=VERSION,
            dataset=self._dataset,
            configuration={"draw": draw_id},
            label=f"take {self._task.task} from {self._source.dataset}",
        )

        def work(items: Sequence[tuple[int, _Item]]) -> list[WorkResult]:
            return [self._taken(number, item, draw_id) for number, item in items]

        in_order = sorted(items, key=itemgetter(0))
        return run_stream(self._context, stage, in_order, work, total=len(items))

    def _taken(self, number: int, item: _Item, draw_id: str) -> WorkResult:
        if item.image is None:
            return WorkResult(number, rejection=self._rejection(item.name))
        parents = [(MEMBER_OF, draw_id)]
        copy = copied_image(item.image, self._dataset, self._task.task, "v0", parents)
        return WorkResult(number, entities=(copy,))

    def _rejection(self, name: str) -> Rejection:
        """Why nothing was taken for a name or a category."""
        source, context = self._source.dataset, {"name": name}
        if self._task.categories:
            detail = f"No usable image of {source} has the category {name!r}."
            return Rejection(stage=STAGE, reason="unknown_category", detail=detail, context=context)
        detail = f"{self._task.names} names {name!r}, which is no usable image of {source}."
        return Rejection(stage=STAGE, reason="unknown_name", detail=detail, context=context)


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


def _require_own_dataset(store: Store, dataset: str) -> None:
    """What is imported, or built otherwise, lies whole in its dataset."""
    for kind in (Source.kind, Sample.kind):
        if next(find(store, dataset, kind), None) is not None:
            raise ConfigurationError(
                f"dataset {dataset!r} holds what is not built from tasks; build under another "
                f"dataset name"
            )
