"""What the card of a benchmark of tasks shows beside the published one's table 1 and figure 3."""

from typing import NamedTuple

from release.published import CCD_TABLE, RECOS, RECOS_TASKS
from release.tiers import TIERS, tiers_within
from schemas.quality import wilson_interval
from schemas.release import ChoiceStatistics, ContrastStatistics, Manifest, TaskStatistics
from schemas.retrieval_task import Tier
from schemas.taxonomy import PrimaryType


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
        _task_line(counted.get(task), task.value, _tiers_of(manifest), published)
        for task, published in RECOS_TASKS.items()
    ]
    unknown = counted.get(None)
    return known + [_task_line(unknown, "not known", _tiers_of(manifest), 0)] * (
        unknown is not None
    )


def _tiers_of(manifest: Manifest) -> tuple[Tier, ...]:
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
        is_there = tier in _tiers_of(manifest)
        images = sum(one.images for one in held) if is_there else None
        captions = sum(one.captions for one in held) if is_there else None
        published = RECOS[tier]
        lines.append(VersionLine(tier, images, captions, published.images, published.captions))
    return lines


_PUBLISHED_CHOICES = {
    "caption-to-image": (96.5, 95.8),
    "image-to-caption": (97.8, 97.5),
}
"""What the two testers of CCD had right, in percent (appendix A.4, table 3)."""


class SizeLine(NamedTuple):
    """A line of table 1: label, this release's originals, this release, published."""

    name: str
    originals: str
    here: str
    published: tuple[str, ...]


class TypeLine(NamedTuple):
    """Contrastive images of a type, or of all types of an aspect."""

    name: str
    is_aspect: bool
    images: int
    found: int
    edited: int


class ChoiceLine(NamedTuple):
    """What a tester had right of the tests drawn, in percent, with the interval and CCD's."""

    direction: str
    tester: str
    correct: int
    total: int
    size: int
    share: str
    interval: str
    published: str


def size_table(manifest: Manifest) -> list[SizeLine]:
    """Images, tokens and similarities beside the paper's table 1; empty without contrasts."""
    held = manifest.statistics.contrasts
    if held is None:
        return []
    near = held.nearest
    return [
        SizeLine(
            "images",
            f"{held.anchors:,}",
            f"{manifest.statistics.images:,}",
            tuple(f"{one.images:,}" for one in CCD_TABLE),
        ),
        SizeLine(
            "mean tokens of a caption",
            _two(held.coarse_tokens),
            _two(held.tokens),
            tuple(_two(one.tokens) for one in CCD_TABLE),
        ),
        SizeLine(
            "mean cosine with the five nearest other images",
            _three(near.original_images if near else None),
            _three(near.images if near else None),
            tuple(_three(one.image_similarity) for one in CCD_TABLE),
        ),
        SizeLine(
            "mean cosine with the five nearest captions of other images",
            _three(near.original_captions if near else None),
            _three(near.captions if near else None),
            tuple(_three(one.text_similarity) for one in CCD_TABLE),
        ),
    ]


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _three(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def type_table(contrasts: ContrastStatistics | None) -> list[TypeLine]:
    """Each aspect, below it its types where it has several."""
    lines = []
    for aspect in PrimaryType if contrasts else ():
        assert contrasts is not None  # noqa: S101 - there is no aspect without
        below = [one for one in contrasts.differences if one.difference.primary is aspect]
        lines.append(
            TypeLine(
                aspect.value,
                True,
                sum(one.images for one in below),
                sum(one.found for one in below),
                sum(one.edited for one in below),
            )
        )
        if len(below) > 1:
            lines += [
                TypeLine(one.difference.value, False, one.images, one.found, one.edited)
                for one in below
            ]
    return lines


def left_out_lines(contrasts: ContrastStatistics | None) -> list[str]:
    """Why anchors have no fine captions, each reason with its number; empty without such."""
    held = contrasts.left_out if contrasts else None
    if held is None:
        return []
    reasons = (
        (held.alone, "anchor without a contrastive image", "anchors without contrastive images"),
        (
            held.turned_down,
            "group whose captions were rejected",
            "groups whose captions were rejected",
        ),
        (
            held.undecided,
            "group whose captions were not written or not reviewed",
            "groups whose captions were not written or not reviewed",
        ),
    )
    return [f"{count:,} {one if count == 1 else many}" for count, one, many in reasons if count]


def repeat_lines(contrasts: ContrastStatistics | None) -> list[str]:
    """What is in the release more than once, a sentence each."""
    if contrasts is None:
        return []
    held = contrasts.repeats
    lines = []
    if held.images:
        lines.append(
            f"{held.images:,} images are byte-identical to another image of the release, "
            f"such as {_files(held.image_pairs)}; no model can tell which of them is the target."
        )
    if held.captions:
        lines.append(
            f"{held.captions:,} captions are identical to a caption of another image, such as "
            f"those of {_files(held.caption_pairs)}; each image is right, but only one counts."
        )
    return lines


def _files(pairs: tuple[tuple[str, str], ...]) -> str:
    """Pairs of files in words."""
    return ", ".join(f"`{first}` and `{second}`" for first, second in pairs)


def choice_table(manifest: Manifest) -> list[ChoiceLine]:
    """A line for each tester and direction."""
    return [_choice_line(one) for one in manifest.statistics.choices]


def _choice_line(one: ChoiceStatistics) -> ChoiceLine:
    lower, upper = wilson_interval(one.correct, one.total)
    first, second = _PUBLISHED_CHOICES[one.direction]
    return ChoiceLine(
        direction=one.direction.replace("-", " "),
        tester=one.tester,
        correct=one.correct,
        total=one.total,
        size=one.size,
        share=f"{100 * one.correct / one.total:.1f} %" if one.total else "–",
        interval=f"{100 * lower:.1f}–{100 * upper:.1f} %",
        published=f"{first:.1f} % and {second:.1f} %",
    )
