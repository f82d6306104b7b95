"""The tasks and tiers of a release's rows, against what its manifest states."""

from typing import Any

from release.findings import Findings
from release.manifest import MANIFEST
from release.task_counts import TaskCounter
from release.tiers import TIERS, tiers_within
from schemas.release import Manifest, TaskStatistics
from schemas.retrieval_task import RetrievalTask

_TASKS = tuple(task.value for task in RetrievalTask)


class TaskChecks:
    """Counts rows by task and tier, and names those that cannot be so."""

    def __init__(self, manifest: Manifest, findings: Findings) -> None:
        self._manifest = manifest
        self._findings = findings
        self._counter = TaskCounter()

    def check(self, file: str, number: int, row: dict[str, Any]) -> None:
        """Checks a row of Parquet."""
        task, tier = row.get("task"), row.get("tier")
        if task is not None and task not in _TASKS:
            what = f"is for the task {task!r}; wanted one of {', '.join(_TASKS)}"
            self._report("task_wrong", what, file, number)
            task = None
        stated = self._manifest.tier
        within = tiers_within(stated) if stated else ()
        if tier not in (within or (None,)):
            what = f"is of the tier {tier!r}; the release is of {', '.join(within) or 'none'}"
            self._report("tier_wrong", what, file, number)
            tier = tier if tier in TIERS else None
        self._counter.add(task and RetrievalTask(task), tier, len(row["captions"]))

    def check_totals(self) -> None:
        """Checks what the manifest counts."""
        found, stated = self._counter.result(), self._manifest.statistics.tasks
        for ours, theirs in _side_by_side(found, stated):
            if ours != theirs:
                task = f"for the task {ours.task or 'that is not known'}"
                message = (
                    f"the Parquet files hold {_said(ours)} {task}; {MANIFEST} says {_said(theirs)}"
                )
                self._findings.add("totals_differ", message, MANIFEST)

    def _report(self, fault: str, what: str, file: str, number: int) -> None:
        self._findings.add(fault, f"{file}: row {number} {what}", file, number)


def _side_by_side(
    found: tuple[TaskStatistics, ...], stated: tuple[TaskStatistics, ...]
) -> list[tuple[TaskStatistics, TaskStatistics]]:
    ours, theirs = {one.task: one for one in found}, {one.task: one for one in stated}
    tasks = dict.fromkeys((*ours, *theirs))
    return [(ours.get(task, _nothing(task)), theirs.get(task, _nothing(task))) for task in tasks]


def _nothing(task: RetrievalTask | None) -> TaskStatistics:
    return TaskStatistics(task=task, images=0, captions=0)


def _said(one: TaskStatistics) -> str:
    tiers = "; ".join(
        f"{tier.tier}: {tier.images:,} images, {tier.captions:,} captions" for tier in one.tiers
    )
    return f"{one.images:,} images and {one.captions:,} captions{f' ({tiers})' if tiers else ''}"
