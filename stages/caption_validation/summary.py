"""What came of the captions: shares that pass, by round and by task."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schemas.discriminability import share_passing
from schemas.recos import CaptionVerdict, DiscriminabilitySettings
from schemas.retrieval_task import RetrievalTask
from stages.caption_validation.history import Attempt, CaptionHistory, Step


class RoundSummary(NamedTuple):
    """Where all captions stood after a round; those that had passed stay as they were.

    Attributes:
        round: how often captions had been written anew; 0 is as they were first written.
        written: how many captions were written in this round; all in round 0.
        attempts: the text of each caption after it.
    """

    round: int
    written: int
    attempts: tuple[Attempt, ...]

    @property
    def counts(self) -> dict[CaptionVerdict, int]:
        """How many captions had which verdict."""
        verdicts = [attempt.verdict for attempt in self.attempts]
        return {verdict: verdicts.count(verdict) for verdict in CaptionVerdict}

    @property
    def share_passing(self) -> float:
        """The share, in [0, 1], of captions that passed."""
        return share_passing([attempt.verdict for attempt in self.attempts])


class TaskSummary(NamedTuple):
    """The share, in [0, 1], of a task's captions that passed at first and in the end."""

    task: RetrievalTask
    captions: int
    first: float
    last: float
    for_people: int


def summary_by_round(histories: Sequence[CaptionHistory]) -> list[RoundSummary]:
    """A summary for each round, the first included; none of no captions."""
    last = max((history.round for history in histories), default=-1)
    return [
        RoundSummary(
            number,
            sum(history.round >= number for history in histories),
            tuple(history.attempts[min(number, history.round)] for history in histories),
        )
        for number in range(last + 1)
    ]


def summary_by_task(
    histories: Iterable[CaptionHistory], settings: DiscriminabilitySettings
) -> list[TaskSummary]:
    """A summary for each task that has captions, in the order of `RetrievalTask`."""
    by_task: dict[RetrievalTask, list[CaptionHistory]] = {task: [] for task in RetrievalTask}
    for history in histories:
        by_task[history.task].append(history)
    return [
        TaskSummary(
            task,
            len(found),
            share_passing([history.attempts[0].verdict for history in found]),
            share_passing([history.current.verdict for history in found]),
            sum(history.next_step(settings) is Step.ASK_PEOPLE for history in found),
        )
        for task, found in by_task.items()
        if found
    ]
