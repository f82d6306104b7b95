"""What a build asked for, and what its dataset has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from loupe.db.entities import LIVE, StoredEntity, fetch_children, find
from loupe.db.store import Store
from loupe.schemas.proposals import Strategy
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image
from loupe.schemas.release import QuotaStatistics
from loupe.schemas.requests import CAPTIONS_OF_AN_IMAGE
from loupe.schemas.taxonomy import Tier
from loupe.schemas.video import StageSettings

TASKS_STAGE = "build_recos"
"""The stage whose settings have the tasks of a benchmark of tasks."""


class Missing(NamedTuple):
    """Something that a build asked for and does not have; `why` is empty or a clause."""

    what: str
    asked: float
    reached: float
    why: str = ""

    @classmethod
    def of(cls, quota: QuotaStatistics) -> "Missing":
        """Return what a quota lacks."""
        return cls(quota.what, quota.asked, quota.reached)

    @property
    def sentence(self) -> str:
        """What is missing, in words."""
        why = f" ({self.why})" if self.why else ""
        return f"{self.what}: {_shown(self.reached)} of {_shown(self.asked)}{why}"


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def quota_statistics(
    store: Store, dataset: str, tier: Tier | None = None
) -> tuple[QuotaStatistics, ...]:
    """Return what a benchmark of tasks or of contrastive images asked for, with what it has.

    Images that are left out of a release, because they have no captions, do not count. Empty for
    other datasets.
    """
    if tier is not None:
        return tuple(_of_tasks(store, dataset, tier))
    return tuple(_of_contrasts(store, dataset))


# Benchmarks of tasks


def _of_tasks(store: Store, dataset: str, tier: Tier) -> Iterator[QuotaStatistics]:
    images = [one for one in find(store, dataset, Image.kind) if one.state in LIVE]
    counts = _accepted_captions(store, [one.id for one in images])
    released = [one for one in images if counts[one.id]]
    v0 = [one for one in released if one.group == "v0"]
    of_task = Counter(str(one.record(Image).task) for one in v0)
    for task, asked in _asked_of_tasks(store, dataset).items():
        yield QuotaStatistics(what=f"images of {task}", asked=asked, reached=of_task[task])
    yield _captions_of("v0", v0, counts)
    if tier > "v0":
        v1 = [one for one in released if one.group == "v1"]
        yield QuotaStatistics(what="similar images of v1", asked=len(v0), reached=len(v1))
        yield _captions_of("v1", v1, counts)


def _asked_of_tasks(store: Store, dataset: str) -> Counter[str]:
    """Return the images wanted of each task, also of those that could not be drawn."""
    tasks: Sequence[dict[str, Any]] = ()
    for one in find(store, dataset, StageSettings.kind):
        settings = one.record(StageSettings)
        if settings.stage == TASKS_STAGE:
            tasks = settings.values["tasks"]
    asked = Counter[str]()
    for task in tasks:
        asked[task["task"]] += task["images"]
    return asked


def _captions_of(
    tier: str, images: Sequence[StoredEntity], counts: Counter[str]
) -> QuotaStatistics:
    return QuotaStatistics(
        what=f"captions of {tier}, {CAPTIONS_OF_AN_IMAGE} an image",
        asked=CAPTIONS_OF_AN_IMAGE * len(images),
        reached=sum(min(counts[one.id], CAPTIONS_OF_AN_IMAGE) for one in images),
    )


def _accepted_captions(store: Store, images: Iterable[str]) -> Counter[str]:
    described = fetch_children(store, images, Role.DESCRIBES)
    counts = Counter[str]()
    for image, captions in described.items():
        counts[image] = sum(one.state == "accepted" for one in captions)
    return counts


# Benchmarks of contrastive images: an accepted strategy asks for an image


def _of_contrasts(store: Store, dataset: str) -> Iterator[QuotaStatistics]:
    images = [one for one in find(store, dataset, Image.kind) if one.state in LIVE]
    strategies = list(find(store, dataset, Strategy.kind, states=("accepted",)))
    anchors = {one.id for one in images if one.record(Image).contrast is None}
    strategies = [one for one in strategies if one.group in anchors]
    if not strategies:
        return
    contrastive = [one for one in images if one.id not in anchors]
    counts = _accepted_captions(store, [one.id for one in contrastive])
    found = [one for one in contrastive if counts[one.id]]
    with_images = {one.group for one in found}
    yield QuotaStatistics(
        what="anchors with contrastive images", asked=len(anchors), reached=len(with_images)
    )
    wanted = Counter(one.record(Strategy).difference.value for one in strategies)
    reached = Counter[str]()
    for one in found:
        contrast = one.record(Image).contrast
        if contrast is not None:
            reached[contrast.difference.value] += 1
    for difference, asked in sorted(wanted.items()):
        what = f"contrastive images of type {difference}"
        yield QuotaStatistics(what=what, asked=asked, reached=reached[difference])
