"""What the card of a benchmark of tasks shows beside the published one's table 1 and figure 3."""

from typing import NamedTuple

from release.published import RECOS, RECOS_TASKS
from release.tiers import TIERS, tiers_within
from schemas.release import Manifest, TaskStatistics
from schemas.retrieval_task import Tier


class TaskLine(NamedTuple):
    """A task: its images by tier, all of them, their captions, and the published images of v0."""

    name: str
    tiers: tuple[int, ...]
    images: int
    captions: int
    published: int


class VersionLine(NamedTuple):
    """A version with what is published of it; of one that is not in this release, nothing else."""

    tier: Tier
    images: int | None
    captions: int | None
    published_images: int
    published_captions: int


def task_table(manifest: Manifest) -> list[TaskLine]:
    """A line for every task of the paper, images without a known task last, if there are any.

    Empty where the release is no benchmark of tasks.
    """
    if not manifest.statistics.tasks:
        return []
    counted = {one.task: one for one in manifest.statistics.tasks}
    known = [
        _task_line(counted.get(task), task.value, tiers_of(manifest), published)
        for task, published in RECOS_TASKS.items()
    ]
    unknown = counted.get(None)
    return known + [_task_line(unknown, "not known", tiers_of(manifest), 0)] * (unknown is not None)


def tiers_of(manifest: Manifest) -> tuple[Tier, ...]:
    """The tiers that a release holds."""
    return tiers_within(manifest.tier) if manifest.tier else ()


def _task_line(
    counted: TaskStatistics | None, name: str, tiers: tuple[Tier, ...], published: int
) -> TaskLine:
    if counted is None:
        return TaskLine(name, (0,) * len(tiers), 0, 0, published)
    images = {one.tier: one.images for one in counted.tiers}
    by_tier = tuple(images.get(tier, 0) for tier in tiers)
    return TaskLine(name, by_tier, counted.images, counted.captions, published)


def empty_tasks(manifest: Manifest) -> str:
    """The tasks of the paper that the release has no image for, in a sentence; empty for none."""
    names = [one.name for one in task_table(manifest) if not one.images]
    if not names:
        return ""
    what = "the task" if len(names) == 1 else "the tasks"
    return f"This release has no images for {what} {', '.join(names)}; they are not evaluated."


def version_table(manifest: Manifest) -> list[VersionLine]:
    """The three versions, each with all its tiers: v1 with v0, v2 with both.

    Empty where the release is none of them.
    """
    if manifest.tier is None:
        return []
    parts = [tier for task in manifest.statistics.tasks for tier in task.tiers]
    lines = []
    for tier in TIERS:
        held = [one for one in parts if one.tier in tiers_within(tier)]
        is_there = tier in tiers_of(manifest)
        images = sum(one.images for one in held) if is_there else None
        captions = sum(one.captions for one in held) if is_there else None
        published = RECOS[tier]
        lines.append(VersionLine(tier, images, captions, published.images, published.captions))
    return lines
