"""Images and captions by task and tier."""

from collections import Counter

from release.tiers import TIERS
from schemas.release import TaskStatistics, TierStatistics
from schemas.retrieval_task import RetrievalTask, Tier


class TaskCounter:
    """Counts images and captions by task and tier."""

    def __init__(self) -> None:
        self._images: Counter[tuple[RetrievalTask | None, Tier | None]] = Counter()
        self._captions: Counter[tuple[RetrievalTask | None, Tier | None]] = Counter()

    def add(self, task: RetrievalTask | None, tier: Tier | None, captions: int) -> None:
        """Counts an image."""
        self._images[task, tier] += 1
        self._captions[task, tier] += captions

    def result(self) -> tuple[TaskStatistics, ...]:
        """By task, in the order in which the paper names them; nothing where no task is known."""
        if not self._images.keys() - {(None, None)}:
            return ()
        return tuple(self._of(task) for task in (*RetrievalTask, None) if self._is_there(task))

    def _is_there(self, task: RetrievalTask | None) -> bool:
        return any(one is task for one, _ in self._images)

    def _of(self, task: RetrievalTask | None) -> TaskStatistics:
        return TaskStatistics(
            task=task,
            images=sum(self._images[task, tier] for tier in (*TIERS, None)),
            captions=sum(self._captions[task, tier] for tier in (*TIERS, None)),
            tiers=tuple(
                TierStatistics(
                    tier=tier,
                    images=self._images[task, tier],
                    captions=self._captions[task, tier],
                )
                for tier in TIERS
                if self._images[task, tier]
            ),
        )
