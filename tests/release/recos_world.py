"""A small benchmark of tasks in a real store, with three tiers."""

from itertools import islice
from typing import NamedTuple

from loupe.db.entities import NewDecision, new_entity
from loupe.schemas.base import sha256_of
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Source
from loupe.schemas.taxonomy import RetrievalTask, Tier
from tests.release.worlds import GATE, QWEN, Composer, model_call, source

RECOS = "recos"
PHOTOS = source("photographs", None, format="folder")
RENDERED = source("rendered", None, format="rendered", licence="CC0", homepage=None)
CAPTIONS = 2
_RENDERED_TASKS = (RetrievalTask.CALCULATION, RetrievalTask.CODE)
_TASKS = (RetrievalTask.COLOR, RetrievalTask.COUNT, *_RENDERED_TASKS)


class Benchmark(NamedTuple):
    """A composed dataset and the ids of its images by tier."""

    world: Composer
    images: dict[Tier, list[str]]


def benchmark(tasks: tuple[RetrievalTask, ...] = _TASKS) -> Benchmark:
    """Compose two captioned images of v0 and v1 and three candidates of v2 for each task."""
    world = Composer(RECOS)
    tiers: tuple[tuple[Tier, int], ...] = (("v0", 2), ("v1", 2), ("v2", 3))
    made: dict[Tier, list[str]] = {}
    for tier, number in tiers:
        made[tier] = [_image(world, task, tier, place) for task in tasks for place in range(number)]
    return Benchmark(world, made)


def _image(world: Composer, task: RetrievalTask, tier: Tier, place: int) -> str:
    of = RENDERED if task in _RENDERED_TASKS else PHOTOS
    path = f"{task.name.lower()}/{tier}-{place}.jpg"
    image = world.image(of, path, path, sampled=False, task=task, tier=tier)
    if tier != "v2":
        for position in range(CAPTIONS):
            draft(world, image, of, f"A {task} scene, {tier} {place}, told {position}.", position)
    return image


def draft(
    world: Composer, image: str, of: Source, text: str, position: int, *, verdict: str = "accept"
) -> str:
    """Add a caption written by a model, and a decision on it."""
    return _drafted(world, image, of, text, position, [], verdict)


def revise(world: Composer, earlier: str, image: str, of: Source, text: str, position: int) -> str:
    """Add a caption written by a model as a revision of `earlier`, which is rejected."""
    world.decisions = [one for one in world.decisions if one.entity_id != earlier]
    world.decisions.append(NewDecision(earlier, "reject", GATE, reason="under_detailed"))
    return _drafted(world, image, of, text, position, [(Role.REVISED_FROM, earlier)], "accept")


def _drafted(
    world: Composer,
    image: str,
    of: Source,
    text: str,
    position: int,
    parents: list[tuple[Role, str]],
    verdict: str,
) -> str:
    record = Caption(source=of.name, text=text, position=position, author=str(QWEN))
    parents = [(Role.DESCRIBES, image), (Role.PROMPTED_BY, world.prompt), *parents]
    key = sha256_of(f"{image}{text}".encode())[:32]
    world.calls[key] = model_call(key, QWEN)
    caption = world.add(
        new_entity(record, world.dataset, parents=parents, group=image, model_call=key)
    )
    world.decisions.append(NewDecision(caption, verdict, GATE))  # type: ignore[arg-type]
    return caption


def captions_of(world: Composer, image: str) -> list[str]:
    """Captions of an image in the order of their creation."""
    described = (Role.DESCRIBES, image)
    return [one.id for one in world.entities.values() if described in one.parents]


def first_captions(made: Benchmark, tier: Tier, count: int) -> list[str]:
    """The first caption of each of the first `count` images of a tier."""
    return [captions_of(made.world, image)[0] for image in islice(made.images[tier], count)]
