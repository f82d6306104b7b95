"""The statistics of a review queue.

Days are UTC. Rates, lead times and agreement are computed from first opinions; gold items,
adjudications and audit samples are counted separately.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import combinations, groupby
from typing import Any, Literal, NamedTuple

import numpy as np

from loupe.annotate.answers import ReviewAnswer
from loupe.annotate.interfaces.registry import interface_of
from loupe.annotate.queues import Queue, candidates, needs_review
from loupe.annotate.statistics.agreement import (
    Agreement,
    Fact,
    Facts,
    ItemAnswers,
    Share,
    agreement,
    share,
)
from loupe.annotate.statistics.forecast import Forecast, forecast
from loupe.db.annotations import GivenAnswer, given_answers, unclear_annotations
from loupe.db.gold import StoredCheck, all_checks, revocations
from loupe.db.review_audits import (
    ItemProgress,
    TaskCount,
    item_progress,
    reopened_items,
    task_counts,
)
from loupe.db.reviews import WAITING, names_of_annotators
from loupe.db.store import Store
from loupe.schemas.base import Record


class ItemCounts(Record):
    """The state of the items that people review; the first five fields add up to all of them.

    Attributes:
        waiting: not assigned yet.
        open: assigned, without an answer.
        answered: with some of the answers needed.
        conflicting: all answers exist and disagree, or an adjudicator has to settle them.
        decided: decided by people.
        suspect: undecided items that their check flagged.
        accepted: decided, accepted unchanged.
        edited: decided, replaced by an edit.
        rejected: decided, rejected.
    """

    waiting: int = 0
    open: int = 0
    answered: int = 0
    conflicting: int = 0
    decided: int = 0
    suspect: int = 0
    accepted: int = 0
    edited: int = 0
    rejected: int = 0

    @property
    def undecided(self) -> int:
        """The number of items that still wait for people."""
        return self.waiting + self.open + self.answered + self.conflicting


class Round(Record):
    """A round in which people were asked again: its number, from 2, and its items."""

    number: int
    items: int
    undecided: int


class DayOfWork(Record):
    """The number of answers on a day, by purpose."""

    day: date
    reviews: int = 0
    gold: int = 0
    adjudications: int = 0
    audits: int = 0

    @property
    def answers(self) -> int:
        """The number of all answers."""
        return self.reviews + self.gold + self.adjudications + self.audits


class LeadTime(Record):
    """How long an answer takes, in seconds, over the `known` answers with a lead time.

    `low` to `high` is the 95 % interval of the median; None for fewer than six answers.
    """

    known: int
    median_seconds: float | None
    p90_seconds: float | None
    low: float | None = None
    high: float | None = None


class Verdicts(Record):
    """The shares of first opinions that accept, edit or reject the item."""

    accepted: Share
    edited: Share
    rejected: Share


class Work(Record):
    """Completed work: first opinions with lead time and verdicts, and all answers by day.

    `days` has only days with answers. `waiting`, `skipped` and `returned` (revoked) count tasks for
    first opinions, gold items included.
    """

    answers: int
    gold_answers: int
    adjudications: int
    audits: int
    waiting: int
    skipped: int
    returned: int
    lead_time: LeadTime
    verdicts: Verdicts
    days: tuple[DayOfWork, ...]


class Return(Record):
    """A revocation: the annotator, the time and the accuracy."""

    annotator: str
    returned_at: datetime
    accuracy: float
    floor: float
    gold_answers: int
    tasks: int
    state: str


class Others(Record):
    """The figures of the others of a queue, to compare one annotator with.

    `agreed` are the pairs of answers among themselves.
    """

    lead_time: LeadTime
    accepted: Share
    agreed: Share
    gold: Share


class AnnotatorStatistics(Record):
    """One annotator's work; `name` is None unless names are requested.

    `agreed` are the pairs of the annotator's and another's answer to one item that agree: the queue
    treats them as the same, or the verdicts are equal and no text states another value of an
    attribute than the other.
    """

    annotator: str
    name: str | None
    work: Work
    agreement: Agreement
    agreed: Share
    gold: Share
    others: Others
    returns: int


class UnclearTask(Record):
    """An answer that does not count: its task's assignee and its problem.

    `state` is `unclear` (the task waits for a clear answer), `sent_back` (its author has it again,
    with the problem) or `quarantined`. `given` is the answer, as far as it can be parsed.
    `project_id` and `task_id` say where the task is now: in the assignee's own workspace, which no
    one else can open, or in that of Loupe's account if `assignee` is empty.
    """

    annotation_id: int
    project_id: int
    task_id: int | None
    entity_id: str
    assignee: str
    state: str
    problem: str
    given: str


class QueueStatistics(Record):
    """The state of a queue at `at`."""

    queue: str
    at: datetime
    policy: str
    overlap: int
    items: ItemCounts
    work: Work
    agreement: Agreement
    gold: Share
    returns: tuple[Return, ...]
    unclear: tuple[UnclearTask, ...]
    forecast: Forecast
    rounds: tuple[Round, ...] = ()
    annotators: tuple[AnnotatorStatistics, ...]


# Counts of answers: how many, on which days, how fast, and with which verdicts.


_KINDS = {"review": "reviews", "adjudication": "adjudications", "audit": "audits"}
"""The kind of an answer by the purpose of its task, named like the fields of `DayOfWork`."""


class _Tallied(NamedTuple):
    """An answer as it is counted."""

    day: date
    kind: str
    verdict: str
    seconds: float | None

    @classmethod
    def of(cls, given: GivenAnswer) -> "_Tallied":
        day = given.annotated_at.astimezone(UTC).date()
        kind = "gold" if given.gold else _KINDS[given.purpose]
        return cls(day, kind, given.answer["verdict"], given.lead_time_seconds)


def _work_of(answers: Sequence[_Tallied], tasks: Iterable[TaskCount]) -> Work:
    """Return the work of the people who gave these answers and have these tasks."""
    days: dict[date, Counter[str]] = defaultdict(Counter)
    for one in answers:
        days[one.day][one.kind] += 1
    kinds = sum(days.values(), Counter[str]())
    states: Counter[str] = Counter()
    for task in tasks:
        if task.purpose == "review":
            states[task.state] += task.tasks
    return Work(
        answers=kinds["reviews"],
        gold_answers=kinds["gold"],
        adjudications=kinds["adjudications"],
        audits=kinds["audits"],
        waiting=sum(states[state] for state in WAITING),
        skipped=states["skipped"],
        returned=states["returned"],
        lead_time=_lead_time(answers),
        verdicts=_verdicts(answers),
        days=tuple(DayOfWork(day=day, **counts) for day, counts in sorted(days.items())),
    )


def useful_per_day(days: Sequence[DayOfWork], today: date) -> list[int]:
    """Return how many needed answers were given on each full day since the first, oldest first."""
    if not days:
        return []
    came = {day.day: day.reviews + day.adjudications for day in days}
    first = days[0].day
    return [came.get(first + timedelta(days=n), 0) for n in range((today - first).days)]


def _lead_time(answers: Iterable[_Tallied]) -> LeadTime:
    """Return the median with the interval of its order statistics (normal approximation)."""
    opinions = (one for one in answers if one.kind == "reviews")
    seconds = sorted(one.seconds for one in opinions if one.seconds is not None)
    if not seconds:
        return LeadTime(known=0, median_seconds=None, p90_seconds=None)
    median, p90 = np.percentile(seconds, (50, 90))
    rank = math.floor((len(seconds) - _TWO_SIDED * math.sqrt(len(seconds))) / 2)
    low, high = (seconds[rank - 1], seconds[-rank]) if rank >= 1 else (None, None)
    return LeadTime(known=len(seconds), median_seconds=median, p90_seconds=p90, low=low, high=high)


_TWO_SIDED = 1.96
"""The number of standard deviations that include 95 %."""


def _verdicts(answers: Iterable[_Tallied]) -> Verdicts:
    counts = Counter(one.verdict for one in answers if one.kind == "reviews")
    names = {"accepted": "accept", "edited": "edit", "rejected": "reject"}
    return Verdicts(
        **{name: share(counts[verdict], counts.total()) for name, verdict in names.items()}
    )


# People have pseudonyms; their names are added on request.

Stage = Literal["waiting", "open", "answered", "conflicting", "decided"]
_OUTCOMES = {"accepted": "accepted", "superseded": "edited", "rejected": "rejected"}


def queue_statistics(
    store: Store, queue: Queue, now: datetime, *, names: bool = False, facts: Facts | None = None
) -> QueueStatistics:
    """Return the statistics of a queue.

    Args:
        store: the provenance store.
        queue: the queue, with its policy, overlap and rule for gold items.
        now: the present time; today is not a full day.
        names: whether to include the names of annotators.
        facts: extracts the facts of texts, for the agreement in attributes.
    """
    tasks = task_counts(store, queue.name)
    answers = _Answers(given_answers(store, queue.name), _agreeing(queue, facts))
    checks = all_checks(store, queue.name)
    returned = revocations(store, queue.name)
    items, needed = _items(store, queue)
    people = names_of_annotators(store) if names else {}
    work = _work_of([one for found in answers.tallied.values() for one in found], tasks)
    everybody = sorted({*answers.tallied, *checks, *(task.assignee for task in tasks)} - {""})
    return QueueStatistics(
        queue=queue.name,
        at=now,
        policy=str(queue.policy),
        overlap=queue.overlap,
        items=items,
        work=work,
        agreement=agreement(answers.shared, facts),
        gold=_right(check for found in checks.values() for check in found),
        returns=tuple(
            Return(
                annotator=one.assignee,
                returned_at=one.returned_at,
                accuracy=one.accuracy,
                floor=one.rule["floor"],
                gold_answers=one.answers,
                tasks=one.tasks,
                state=one.state,
            )
            for one in returned
        ),
        unclear=tuple(
            UnclearTask(
                annotation_id=one.remote_id,
                project_id=one.task.project_id,
                task_id=one.task.task_id,
                entity_id=one.task.entity_id,
                assignee=one.task.assignee,
                state=one.state,
                problem=one.problem,
                given=_in_words(one.result),
            )
            for one in unclear_annotations(store, queue.name)
        ),
        forecast=forecast(needed, useful_per_day(work.days, now.date()), now.date()),
        rounds=_rounds(reopened_items(store, queue.name)),
        annotators=tuple(
            AnnotatorStatistics(
                annotator=annotator,
                name=people.get(annotator),
                work=_work_of(
                    answers.tallied.get(annotator, []),
                    [task for task in tasks if task.assignee == annotator],
                ),
                agreement=agreement(answers.shared, facts, annotator),
                agreed=_agreed(pair for pair in answers.pairs if annotator in pair.people),
                gold=_right(checks.get(annotator, [])),
                others=_others(annotator, answers, checks),
                returns=sum(found.assignee == annotator for found in returned),
            )
            for annotator in everybody
        ),
    )


class _Answers:
    """All answers of a queue, read once: counted by annotator, and items with several answers.

    `pairs` are computed if `agree` is given.
    """

    def __init__(self, given: Iterator[GivenAnswer], agree: "_Agree | None" = None) -> None:
        self.tallied: dict[str, list[_Tallied]] = defaultdict(list)
        self.shared: list[ItemAnswers] = []
        self.pairs: list[_Pair] = []
        for entity_id, group in groupby(given, key=lambda answer: answer.entity_id):
            opinions = {}
            for answer in group:
                self.tallied[answer.person].append(_Tallied.of(answer))
                if answer.purpose == "review" and not answer.gold:
                    opinions[answer.person] = answer
            if len(opinions) < 2:
                continue
            read = {who: ReviewAnswer.model_validate(one.answer) for who, one in opinions.items()}
            self.shared.append(ItemAnswers(entity_id, read))
            if agree is None:
                continue
            for one, other in combinations(opinions, 2):
                self.pairs.append(_Pair({one, other}, agree(read[one], read[other])))


class _Pair(NamedTuple):
    """Two people's answers to one item: who they are, and whether the answers agree."""

    people: set[str]
    agreed: bool


_Agree = Callable[[ReviewAnswer, ReviewAnswer], bool]


def _agreeing(queue: Queue, facts: Facts | None) -> _Agree:
    """Return whether two answers agree; without `facts`, as the queue decides."""
    interface = interface_of(queue)
    stated = None if facts is None else cache(facts)

    def agree(one: ReviewAnswer, other: ReviewAnswer) -> bool:
        if interface.same(one, other, queue.text_agreement):
            return True
        if stated is None or not one.texts or one.texts.keys() != other.texts.keys():
            return False
        return (one.verdict, one.choices) == (other.verdict, other.choices) and not any(
            _contradict(stated(text), stated(other.texts[control]))
            for control, text in one.texts.items()
        )

    return agree


def _contradict(one: Collection[Fact], other: Collection[Fact]) -> bool:
    """Return whether an attribute of a subject has values in both, and none in common."""
    values: tuple[dict[tuple[Hashable, Hashable], set[Hashable]], ...] = ({}, {})
    for found, facts in zip(values, (one, other), strict=True):
        for subject, attribute, value in facts:
            found.setdefault((subject, attribute), set()).add(value)
    return any(values[0][key].isdisjoint(values[1][key]) for key in values[0].keys() & values[1])


def _others(
    annotator: str, answers: _Answers, checks: Mapping[str, Sequence[StoredCheck]]
) -> Others:
    """Return the figures of all but one annotator; pairs with that annotator are left out."""
    others = [one for who in answers.tallied if who != annotator for one in answers.tallied[who]]
    return Others(
        lead_time=_lead_time(others),
        accepted=_verdicts(others).accepted,
        agreed=_agreed(pair for pair in answers.pairs if annotator not in pair.people),
        gold=_right(one for who in checks if who != annotator for one in checks[who]),
    )


def _agreed(pairs: Iterable[_Pair]) -> Share:
    held = [pair.agreed for pair in pairs]
    return share(sum(held), len(held))


def _right(checks: Iterable[StoredCheck]) -> Share:
    held = [check.correct for check in checks]
    return share(sum(held), len(held))


def _items(store: Store, queue: Queue) -> tuple[ItemCounts, int]:
    """Return the state of the items, and the number of answers that undecided ones still need."""
    asked = item_progress(store, queue.name)
    counts: Counter[str] = Counter()
    needed = 0
    for candidate in candidates(store, queue):
        progress = asked.pop(candidate.entity.id, None)
        if progress is None and not needs_review(queue, candidate):
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


def _rounds(reopened: Sequence[tuple[int, str]]) -> tuple[Round, ...]:
    """Return the rounds after the first, from how often items were reopened, and their states."""
    rounds = []
    for again in range(1, 1 + max((times for times, _ in reopened), default=0)):
        states = [(times, state) for times, state in reopened if times >= again]
        undecided = states.count((again, "proposed"))
        rounds.append(Round(number=again + 1, items=len(states), undecided=undecided))
    return tuple(rounds)


def _stage(progress: ItemProgress | None, overlap: int) -> Stage:
    if progress is None:
        return "waiting"
    if progress.adjudicating or progress.answered >= overlap:
        return "conflicting"
    if progress.answered:
        return "answered"
    return "open" if progress.waiting else "waiting"


_LONGEST_GIVEN = 200


def _in_words(result: Mapping[str, Any]) -> str:
    """Return an answer in words, control by control; unparsable content is returned as it is."""
    parts = [str(result["unread"])] if "unread" in result else []
    for region in result.get("regions", ()):
        value = region.get("value") if isinstance(region, dict) else None
        lists = value.values() if isinstance(value, dict) else ()
        said = [str(one) for given in lists if isinstance(given, list) for one in given]
        if said:
            parts.append(f"{region.get('from_name')}: {', '.join(said)}")
    text = "; ".join(parts)
    return text if len(text) <= _LONGEST_GIVEN else f"{text[:_LONGEST_GIVEN]}…"


def shared_answers(store: Store, queue: str) -> list[ItemAnswers]:
    """Return the first opinions on items with two or more of them, without gold items."""
    return _Answers(given_answers(store, queue)).shared
