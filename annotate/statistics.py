"""The statistics of a review queue: what became of its items, who did what, and how well.

People go by pseudonym; their names are added where they are asked for.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import Literal

from annotate.agreement import Facts, ItemAnswers, agreement, agreement_of
from annotate.answers import ReviewAnswer
from annotate.candidates import candidates, goes_to_people
from annotate.intervals import share
from annotate.queues import Queue
from annotate.statistics_records import (
    AnnotatorStatistics,
    GoldAccuracy,
    GoldDay,
    ItemCounts,
    QueueStatistics,
    Return,
    UnclearTask,
)
from annotate.work_forecast import forecast
from annotate.work_tally import Tally, useful_per_day, work_of
from db.annotations import UnclearAnnotation, unclear_annotations
from db.gold import StoredCheck, all_checks
from db.returns import StoredReturn, returns
from db.review_statistics import (
    GivenAnswer,
    ItemProgress,
    given_answers,
    item_progress,
    names_of_annotators,
    task_counts,
)
from db.store import Store

Stage = Literal["waiting", "open", "answered", "conflicting", "decided"]
_OUTCOMES = {"accepted": "accepted", "superseded": "edited", "rejected": "rejected"}


def queue_statistics(
    store: Store, queue: Queue, now: datetime, *, names: bool = False, facts: Facts | None = None
) -> QueueStatistics:
    """The statistics of a queue.

    Args:
        store: where everything is.
        queue: which, with its policy, overlap and rule for gold items.
        now: the time at which one asks; today is not a full day.
        names: whether to say what annotators are called.
        facts: reads what texts state, for the agreement in attributes.
    """
    tasks = task_counts(store, queue.name)
    answers = _Answers(given_answers(store, queue.name))
    checks = all_checks(store, queue.name)
    returned = returns(store, queue.name)
    items, needed = _items(store, queue)
    people = names_of_annotators(store) if names else {}
    work = work_of([*answers.tallies.values()], tasks)
    everybody = sorted({*answers.tallies, *checks, *(task.assignee for task in tasks)} - {""})
    return QueueStatistics(
        queue=queue.name,
        at=now,
        policy=str(queue.policy),
        overlap=queue.overlap,
        items=items,
        work=work,
        agreement=agreement(answers.shared, facts),
        gold=_gold(queue, [check for found in checks.values() for check in found]),
        returns=tuple(map(_return, returned)),
        unclear=tuple(map(_unclear, unclear_annotations(store, queue.name))),
        forecast=forecast(needed, useful_per_day(work.days, now.date()), now.date()),
        annotators=tuple(
            AnnotatorStatistics(
                annotator=annotator,
                name=people.get(annotator),
                work=work_of(
                    [answers.tallies.get(annotator, Tally())],
                    [task for task in tasks if task.assignee == annotator],
                ),
                agreement=agreement_of(annotator, answers.shared, facts),
                gold=_gold(queue, checks.get(annotator, [])),
                returns=sum(found.assignee == annotator for found in returned),
            )
            for annotator in everybody
        ),
    )


class _Answers:
    """All answers of a queue, read once: tallies by annotator, and what several people answered."""

    def __init__(self, given: Iterator[GivenAnswer]) -> None:
        self.tallies: dict[str, Tally] = defaultdict(Tally)
        self.shared: list[ItemAnswers] = []
        for entity_id, group in groupby(given, key=lambda answer: answer.entity_id):
            opinions = {}
            for answer in group:
                self.tallies[answer.annotator].add(answer)
                if answer.purpose == "review" and not answer.gold and answer.answer:
                    opinions[answer.annotator] = answer.answer
            if len(opinions) > 1:
                read = {who: ReviewAnswer.model_validate(said) for who, said in opinions.items()}
                self.shared.append(ItemAnswers(entity_id, read))


def _items(store: Store, queue: Queue) -> tuple[ItemCounts, int]:
    """What became of the items, and how many answers those that are not decided still need."""
    asked = item_progress(store, queue.name)
    counts: Counter[str] = Counter()
    needed = 0
    for candidate in candidates(store, queue):
        progress = asked.pop(candidate.entity.id, None)
        if progress is None and not goes_to_people(queue, candidate):
            continue
        stage = _stage(progress, queue.overlap)
        counts[stage] += 1
        counts["suspect"] += candidate.suspect
        given = progress.answered if progress else 0
        needed += 1 if stage == "conflicting" else queue.overlap - given
    for progress in asked.values():
        if (outcome := _OUTCOMES.get(progress.state)) is not None:
            counts["decided"] += 1
            counts[outcome] += 1
    return ItemCounts(**counts), needed


def _stage(progress: ItemProgress | None, overlap: int) -> Stage:
    match progress:
        case None:
            return "waiting"
        case ItemProgress(adjudicating=adjudicating) if adjudicating:
            return "conflicting"
        case ItemProgress(answered=answered) if answered >= overlap:
            return "conflicting"
        case ItemProgress(answered=answered) if answered:
            return "answered"
        case ItemProgress(waiting=waiting):
            return "open" if waiting else "waiting"


def _gold(queue: Queue, checks: Iterable[StoredCheck]) -> GoldAccuracy:
    in_order = sorted(checks, key=lambda check: (check.answered_at, check.annotation_key))
    days = []
    done: list[bool] = []
    for day, group in groupby(in_order, key=lambda check: check.answered_at.astimezone(UTC).date()):
        today = [check.correct for check in group]
        done += today
        newest = done[-queue.accuracy_window :]
        days.append(
            GoldDay(
                day=day,
                correct=sum(today),
                answers=len(today),
                recent=sum(newest) / len(newest),
            )
        )
    return GoldAccuracy(
        accuracy=share(sum(done), len(done)),
        floor=queue.accuracy_floor,
        window=queue.accuracy_window,
        days=tuple(days),
    )


def _return(stored: StoredReturn) -> Return:
    return Return(
        annotator=stored.assignee,
        returned_at=stored.returned_at,
        accuracy=stored.accuracy,
        floor=stored.rule["floor"],
        gold_answers=stored.answers,
        tasks=stored.tasks,
        state=stored.state,
    )


def _unclear(found: UnclearAnnotation) -> UnclearTask:
    return UnclearTask(
        annotation_id=found.remote_id,
        entity_id=found.task.entity_id,
        assignee=found.task.assignee,
        state=found.state,
        problem=found.problem,
    )
