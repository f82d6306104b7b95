"""Drift: when an annotator's gold answers are too often wrong, what of theirs nobody confirmed.

The rule and each use of it are recorded (`db.returns`); no person is judged by less than `least`
gold answers, nor by old ones.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from annotate.answers import ReviewAnswer
from annotate.gold import Accuracy, accuracy
from annotate.queues import Queue
from db.annotations import CountedAnswer, counted_answers
from db.gold import StoredCheck, checked_annotators, checks_of
from db.returns import (
    GoldAccuracy,
    ReturnedWork,
    barred,
    in_adjudication,
    return_work,
    tasks_of,
)

Same = Callable[[ReviewAnswer, ReviewAnswer], bool]


class Rule(NamedTuple):
    """When an annotator's work returns: too few of their `window` newest gold answers are right.

    That is fewer than the share `floor`, once there are `least` of them.
    """

    floor: float
    window: int
    least: int

    @classmethod
    def of(cls, queue: Queue) -> "Rule":
        """The rule that a queue declares."""
        return cls(queue.accuracy_floor, queue.accuracy_window, queue.accuracy_least)


class Drift(NamedTuple):
    """The rule was broken by this accuracy."""

    rule: Rule
    accuracy: Accuracy


def verdict(checks: Sequence[StoredCheck], rule: Rule) -> Drift | None:
    """What the checks of an annotator, newest first, come to; None while nothing is wrong."""
    found = accuracy(checks, rule.window)
    if found.total < rule.least or found.share >= rule.floor:
        return None
    return Drift(rule, found)


def unreviewed_answers(
    answers: Iterable[CountedAnswer],
    assignee: str,
    same: Same,
    in_adjudication: frozenset[str] = frozenset(),
) -> list[CountedAnswer]:
    """Those of the annotator's answers that nobody has confirmed.

    An answer stays where somebody else said the same, or where an adjudicator has decided on the
    item or is about to.

    Args:
        answers: all that count on the items that the annotator answered, whoever gave them.
        assignee: the annotator.
        same: whether two answers agree.
        in_adjudication: the items that lie with an adjudicator now.
    """
    others: dict[str, list[CountedAnswer]] = {}
    own: list[CountedAnswer] = []
    for answer in answers:
        if answer.assignee == assignee and answer.purpose == "review":
            own.append(answer)
        elif answer.assignee != assignee:
            others.setdefault(answer.entity_id, []).append(answer)
    return [
        answer
        for answer in own
        if answer.entity_id not in in_adjudication
        and not _is_confirmed(answer, others.get(answer.entity_id, ()), same)
    ]


def _is_confirmed(answer: CountedAnswer, others: Sequence[CountedAnswer], same: Same) -> bool:
    mine = ReviewAnswer.model_validate(answer.answer)
    return any(
        other.purpose == "adjudication" or same(mine, ReviewAnswer.model_validate(other.answer))
        for other in others
    )


class Returned(NamedTuple):
    """What a queue took back from an annotator, and why."""

    assignee: str
    drift: Drift
    work: ReturnedWork


def enforce(connection: Connection, queue: Queue, same: Same) -> list[Returned]:
    """Takes back the unconfirmed work of everybody who drifts, and whom it had let work so far.

    They get nothing more from this queue until they are reinstated; what waits for them is taken
    off the desk by the next push. To be called after checks were recorded, in the same transaction;
    `same` says whether two answers agree.
    """
    found = []
    rule = Rule.of(queue)
    stopped = barred(connection, queue.name)
    for assignee in checked_annotators(connection, queue.name):
        drift = verdict(checks_of(connection, queue.name, assignee), rule)
        if drift is not None and assignee not in stopped:
            work = _take_back(connection, queue, same, assignee, drift)
            found.append(Returned(assignee, drift, work))
    return found


def _take_back(
    connection: Connection, queue: Queue, same: Same, assignee: str, drift: Drift
) -> ReturnedWork:
    tasks = tasks_of(connection, queue.name, assignee)
    entity_ids = {task.entity_id for task in tasks}
    answers = counted_answers(connection, queue.name, sorted(entity_ids))
    unconfirmed = unreviewed_answers(
        (answer for found in answers.values() for answer in found),
        assignee,
        same,
        in_adjudication(connection, queue.name),
    )
    return return_work(
        connection,
        queue.name,
        assignee,
        drift.rule._asdict(),
        GoldAccuracy(*drift.accuracy),
        [answer.task_key for answer in unconfirmed],
    )
