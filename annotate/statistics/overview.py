"""The overview of a review for its lead, over all queues.

It shows what each build waits for and who must act, the problems of queues, annotators who differ
from the others, and the work left.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Literal

from loupe.annotate.gold import answers_to_qualify
from loupe.annotate.planning import ADDING, people_of, too_little_gold
from loupe.annotate.queues import SHARED, Purpose, Queue
from loupe.annotate.statistics.agreement import Facts, Share
from loupe.annotate.statistics.hours import hours_worked
from loupe.annotate.statistics.queue import (
    AnnotatorStatistics,
    LeadTime,
    QueueStatistics,
    queue_statistics,
)
from loupe.db.calls import cost_rows
from loupe.db.gold import IN_FORCE, gold_items
from loupe.db.review_audits import TaskCount, task_counts
from loupe.db.reviews import (
    WAITING,
    active_annotators,
    annotators,
    count_states,
    names_of_annotators,
    paused_annotators,
    review_tasks,
)
from loupe.db.store import Store
from loupe.schemas.base import Record
from loupe.schemas.errors import UsageError
from loupe.schemas.wording import many

LEAST_ANSWERS = 20
"""The minimum number of answers (or pairs, or times) on both sides of a comparison."""
_LEAST_GOLD = 10
"""The minimum number of gold items on both sides of a comparison."""
_FAST = 0.5  # a median below this share of the others' is too fast
_ACCEPTS_ALL = 0.95
_LEAST_DIFFERENCE = 0.1  # of shares
_IDLE_DAYS = 3
_LOUPE = "the account of Loupe itself"
_Name = Callable[[str], str]
_Kind = Literal["fast", "accepts_all", "disagrees", "gold"]


class Remark(Record):
    """A sentence about a queue; its figures are those in `Overview.queues`.

    Attributes:
        queue: the queue; empty for several.
        sentence: the remark in words.
        people: the pseudonyms of those that it is about, or who must act ("" is Loupe's account).
        kind: the rule that found an annotator to differ from the others.
        project: the project in Label Studio where Loupe's account answers what waits there.
    """

    queue: str
    sentence: str
    people: tuple[str, ...] = ()
    kind: _Kind | None = None
    project: int | None = None


class WorkLeft(Record):
    """The work left in a queue; `queue` is empty for all queues together.

    `hours` is `answers` at the queue's median time, `cost` is `hours` at the given hourly rate;
    None: not known.
    """

    queue: str
    answers: int
    hours: float | None = None
    cost: float | None = None
    sentence: str


class AcceptedCost(Record):
    """What an accepted item of a queue cost so far.

    `minutes` are those of people in the queue, gold items, adjudications and audits included, an
    answer at most `LONGEST_MINUTES`; `calls` and `tokens` those of all stages of the dataset, of
    models and searches. `price` is what these cost by currency, without calls whose cost is not
    known, which are `unpriced`.
    """

    queue: str
    accepted: int
    minutes: float
    untimed: int
    calls: float
    tokens: float
    price: dict[str, float]
    unpriced: int
    sentence: str


class Overview(Record):
    """The state of all queues at `at`: the sections of the overview, then its figures.

    Attributes:
        at: the time.
        ready: builds that waited for people and can go on now, and how.
        blocked: what each build waits for.
        problems: why a queue cannot continue, that no one works on it, or who is suspended; and
            what to do.
        findings: figures of annotators that differ from those of the others.
        compared: how many people of each queue have enough answers to be compared.
        left: the work left.
        costs: what accepted items cost so far.
        queues: the statistics of the queues.
    """

    at: datetime
    ready: tuple[str, ...] = ()
    blocked: tuple[Remark, ...]
    problems: tuple[Remark, ...]
    findings: tuple[Remark, ...]
    compared: tuple[Remark, ...]
    left: tuple[WorkLeft, ...]
    costs: tuple[AcceptedCost, ...]
    queues: tuple[QueueStatistics, ...]


def overview(
    store: Store,
    queues: Sequence[Queue],
    now: datetime,
    *,
    names: bool = False,
    facts: Callable[[Queue], Facts | None] = lambda _: None,
    hourly_rate: float | None = None,
    ready: Sequence[str] = (),
    adding: str = ADDING,
) -> Overview:
    """Return the overview of these queues.

    Args:
        store: the provenance store.
        queues: the queues, with their policies.
        now: the present time.
        names: whether to show the names of annotators instead of their pseudonyms.
        facts: returns what extracts the facts of the texts of a queue, to compare them.
        hourly_rate: the cost of an annotator's hour, in any currency.
        ready: builds that can go on now, a sentence each.
        adding: the command that adds a person.
    """
    called = names_of_annotators(store) if names else {}

    def name(pseudonym: str) -> str:
        return called.get(pseudonym, pseudonym) or _LOUPE

    found = [
        queue_statistics(store, queue, now, names=names, facts=facts(queue)) for queue in queues
    ]
    tasks = [task_counts(store, queue.name) for queue in queues]
    each = list(zip(queues, found, tasks, strict=True))
    left = [_work_left(one, hourly_rate) for one in found if one.forecast.answers_needed]
    return Overview(
        at=now,
        ready=tuple(ready),
        blocked=tuple(
            _blocked(store, queue, one, counts, name)
            for queue, one, counts in each
            if one.items.undecided
        ),
        problems=(
            *(
                Remark(queue=queue.name, sentence=f"{queue.name}: {sentence}")
                for queue, one, counts in each
                for sentence in _problems(store, queue, one, counts, name, adding)
            ),
            *(
                remark
                for queue, _, counts in each
                for remark in _unsettled(store, queue, counts, adding)
            ),
            *_suspensions(found, name),
        ),
        findings=tuple(
            finding
            for one in found
            for person in one.annotators
            for finding in _findings(one.queue, person, name(person.annotator))
        ),
        compared=tuple(_compared(one) for one in found if one.work.answers),
        left=(*left, *([_total(left, hourly_rate)] if len(left) > 1 else [])),
        costs=tuple(cost for queue in queues if (cost := _accepted_cost(store, queue))),
        queues=tuple(found),
    )


# What blocks a build.


def _blocked(
    store: Store, queue: Queue, one: QueueStatistics, tasks: Sequence[TaskCount], name: _Name
) -> Remark:
    """Return what a build waits for."""
    items = one.items
    settling, answering = (_holders(one, tasks, purpose) for purpose in ("adjudication", "review"))
    parts = []
    if items.conflicting:
        parts.append(f"{many(items.conflicting, 'conflict')} ({_listed(settling, name)})")
    if unanswered := items.open + items.answered:
        parts.append(f"{many(unanswered, 'item')} to answer ({_listed(answering, name)})")
    if items.waiting:
        how = f"loupe queue push {queue.name}"
        if answering and answering != [SHARED]:
            how = "they follow in batches"
        parts.append(f"{many(items.waiting, 'item')} not given out ({how})")
    step = queue.name.removeprefix(f"{queue.dataset}-")
    project = _own_project(store, queue, "adjudication") if SHARED in settling else None
    if project is None and SHARED in answering:
        project = _own_project(store, queue, "review")
    return Remark(
        project=project,
        queue=queue.name,
        people=tuple(dict.fromkeys((*settling, *answering))),
        sentence=(
            f"{queue.dataset} waits in {step} for {', '.join(parts)}; "
            f"{items.decided:,} of {items.undecided + items.decided:,} are decided"
        ),
    )


def _own_project(store: Store, queue: Queue, purpose: Purpose) -> int | None:
    """Return the project in which tasks of that purpose wait for Loupe's account."""
    own = {"assignee": SHARED, "purpose": purpose, "state": WAITING}
    tasks = review_tasks(store, queue.name, **own).values()
    placed = [task.project_id for task in tasks if task.task_id is not None]
    return placed[-1] if placed else None


def _holders(one: QueueStatistics, tasks: Sequence[TaskCount], purpose: str) -> list[str]:
    """Return who has open tasks of that purpose and may answer them, by pseudonym."""
    holders = {
        task.assignee
        for task in tasks
        if task.purpose == purpose and task.state in WAITING and not task.gold
    }
    return sorted(holders - _suspended(one))


def _suspended(one: QueueStatistics) -> set[str]:
    return {revoked.annotator for revoked in one.returns if revoked.state == IN_FORCE}


def _listed(people: Sequence[str], name: _Name) -> str:
    return ", ".join(sorted(map(name, people))) or "unassigned"


# What is wrong with a queue.


def _problems(
    store: Store,
    queue: Queue,
    one: QueueStatistics,
    tasks: Sequence[TaskCount],
    name: _Name,
    adding: str,
) -> Iterator[str]:
    if quarantined := sum(unclear.state == "quarantined" for unclear in one.unclear):
        yield (
            f"{many(quarantined, 'answer')} by another person than the assignee: see "
            f"loupe queue stats {queue.name}, then loupe queue discard"
        )
    if not one.items.undecided:
        return
    yield from _too_few(store, queue, one, name, adding)
    waiting = [task for task in tasks if task.state in WAITING and task.purpose != "audit"]
    if not waiting:
        return
    open_tasks = many(sum(task.tasks for task in waiting), "open task")
    holders = {task.assignee for task in waiting}
    gone = {person.pseudonym for person in annotators(store) if person.state != "active"}
    if holders <= _suspended(one) | gone:
        yield (
            f"all open work ({open_tasks}) is assigned to {_listed(sorted(holders), name)}, "
            f"suspended, paused or deactivated: loupe queue push {queue.name} reassigns it"
        )
    elif (days := _idle_days(one, waiting)) >= _IDLE_DAYS:
        yield f"idle: no answer for {days} days; {open_tasks}: " + _listed(sorted(holders), name)


def _unsettled(
    store: Store, queue: Queue, tasks: Sequence[TaskCount], adding: str
) -> Iterator[Remark]:
    """Return the conflicts that only Loupe's account can decide."""
    conflicts = [
        task.tasks
        for task in tasks
        if (task.purpose, task.assignee) == ("adjudication", SHARED) and task.state in WAITING
    ]
    if conflicts and active_annotators(store, "annotator"):
        yield Remark(
            queue=queue.name,
            sentence=(
                f"{queue.name}: {many(sum(conflicts), 'conflict')} in {_LOUPE}, as no adjudicator "
                f"is free for them: decide them there, or {adding} --adjudicator"
            ),
            project=_own_project(store, queue, "adjudication"),
        )


def _too_few(
    store: Store, queue: Queue, one: QueueStatistics, name: _Name, adding: str
) -> Iterator[str]:
    """Return whether too few people may give first opinions, and what to do."""
    try:
        eligible = people_of(store, queue).annotators
    except UsageError as error:
        yield str(error)
        return
    gold = len(gold_items(store, queue.name))
    if gold < queue.qualification and answers_to_qualify(store, queue, eligible):
        yield too_little_gold(queue, gold)
    if len(eligible) >= queue.overlap:
        return
    who = "no one is"
    if eligible:
        who = f"only {_listed(eligible, name)} {'is' if len(eligible) == 1 else 'are'}"
    advice = f"add someone ({adding})"
    if paused := sorted(paused_annotators(store)):
        advice = f"resume {_listed(paused, name)} (loupe annotator resume NAME) or {advice}"
    if suspended := sorted(_suspended(one)):
        again = f"loupe annotator reinstate NAME {queue.name}"
        advice = f"reinstate {_listed(suspended, name)} ({again}) or {advice}"
    yield f"{who} eligible for overlap {queue.overlap}: {advice}"


def _suspensions(found: Sequence[QueueStatistics], name: _Name) -> Iterator[Remark]:
    """Return who is suspended from queues with work left, and why."""
    suspended: dict[str, dict[str, str]] = {}
    for one in found:
        for revoked in one.returns if one.items.undecided else ():
            if revoked.state == IN_FORCE:
                right = round(revoked.accuracy * revoked.gold_answers)
                suspended.setdefault(revoked.annotator, {})[one.queue] = (
                    f"{one.queue} ({right} of {revoked.gold_answers} gold answers right)"
                )
    for person, queues in suspended.items():
        queue = next(iter(queues)) if len(queues) == 1 else ""
        yield Remark(
            queue=queue,
            people=(person,),
            sentence=(
                f"{name(person)} is suspended from {', '.join(queues.values())}: loupe annotator "
                f"report NAME, then loupe annotator reinstate NAME {queue or 'QUEUE'}"
            ),
        )


def _idle_days(one: QueueStatistics, waiting: Sequence[TaskCount]) -> int:
    """Return the full days since the last answer, or since the open tasks were sent if later."""
    answered = [day.day for day in one.work.days]
    sent = min(task.oldest for task in waiting).astimezone(UTC).date()
    last: date = max([*answered, sent])
    return (one.at.date() - last).days


# Annotators whose answers differ.

_SENTENCES: dict[_Kind, str] = {
    "fast": "takes {0.median_seconds:.0f} s for an answer (median of {0.known:,}); "
    "the others {1.median_seconds:.0f} s (median of {1.known:,})",
    "accepts_all": "accepts {} answers; the others {} answers",
    "disagrees": "agrees with the others in {} pairs of answers; "
    "the others among themselves in {} pairs",
    "gold": "is right in {} gold answers; the others in {} gold answers",
}
"""The sentence of each finding, with the figures that it compares."""


def _findings(queue: str, person: AnnotatorStatistics, who: str) -> Iterator[Remark]:
    """Return differences too large, over too many answers, to be likely by chance."""
    times, accepted = person.work.lead_time, person.work.verdicts.accepted
    others = person.others
    accepts_all = (accepted.value or 0) >= _ACCEPTS_ALL and _is_less(others.accepted, accepted)
    comparisons: dict[_Kind, tuple[bool, tuple[LeadTime | Share, ...]]] = {
        "fast": (_is_fast(times, others.lead_time), (times, others.lead_time)),
        "accepts_all": (accepts_all, (accepted, others.accepted)),
        "disagrees": (_is_less(person.agreed, others.agreed), (person.agreed, others.agreed)),
        "gold": (_is_less(person.gold, others.gold, _LEAST_GOLD), (person.gold, others.gold)),
    }
    for kind, (differs, figures) in comparisons.items():
        if differs:
            sentence = f"{queue}: {who} {_SENTENCES[kind].format(*figures)}"
            yield Remark(queue=queue, people=(person.annotator,), kind=kind, sentence=sentence)


def _is_fast(own: LeadTime, others: LeadTime) -> bool:
    """Return whether the interval of a median is below half of the others' median."""
    if min(own.known, others.known) < LEAST_ANSWERS or own.high is None:
        return False
    return own.high < _FAST * (others.median_seconds or 0.0)


def _is_less(one: Share, other: Share, least: int = LEAST_ANSWERS) -> bool:
    """Return whether a share is significantly lower than the other.

    It is lower by `_LEAST_DIFFERENCE`, and its 95 % interval is below the other's.
    """
    if min(one.of, other.of) < least or one.high is None or other.low is None:
        return False
    difference = (other.value or 0.0) - (one.value or 0.0)
    return one.high < other.low and difference >= _LEAST_DIFFERENCE


def _compared(one: QueueStatistics) -> Remark:
    answers = [person.work.answers for person in one.annotators if person.work.answers]
    enough = sum(min(own, one.work.answers - own) >= LEAST_ANSWERS for own in answers)
    return Remark(
        queue=one.queue,
        sentence=(
            f"{one.queue}: {enough} of {many(len(answers), 'annotator')} compared; "
            f"both sides need {LEAST_ANSWERS} answers"
        ),
    )


# Hours and costs.


def _work_left(one: QueueStatistics, hourly_rate: float | None) -> WorkLeft:
    time, plan = one.work.lead_time, one.forecast
    work, hours = many(plan.answers_needed, "answer"), None
    parts = [f"{work}, no answer times are known"]
    if time.median_seconds is not None:
        hours = plan.answers_needed * time.median_seconds / 3600
        taken = f"{time.median_seconds:.0f} s (median of {time.known:,})"
        parts = [f"{work} × {taken} = {_duration(hours)}"]
    if plan.per_day:
        days = plan.answers_needed / plan.per_day
        pace = f"{plan.per_day:,.1f} answers a day, as in the last {many(plan.days, 'day')}"
        parts.append(f"{days:,.0f} days at {pace}")
    return _priced(one.queue, plan.answers_needed, hours, hourly_rate, parts)


def _total(left: Sequence[WorkLeft], hourly_rate: float | None) -> WorkLeft:
    """Return the total of all queues: hours and costs of those with known times."""
    known = [one.hours for one in left if one.hours is not None]
    answers, hours = sum(one.answers for one in left), None
    parts = [many(answers, "answer")]
    if known:
        hours = sum(known)
        without = len(left) - len(known)
        some = f", {many(without, 'queue')} without times left out" if without else ""
        parts.append(f"{_duration(hours)}{some}")
    return _priced("", answers, hours, hourly_rate, parts)


def _priced(
    queue: str, answers: int, hours: float | None, hourly_rate: float | None, parts: Sequence[str]
) -> WorkLeft:
    """Return the work left with its cost, and `parts` as its sentence."""
    cost = None
    if hours is not None and hourly_rate is not None:
        cost = hours * hourly_rate
        parts = [*parts, f"{cost:,.2f} at {hourly_rate:,.2f} an hour"]
    sentence = f"{queue or 'all'}: {'; '.join(parts)}"
    return WorkLeft(queue=queue, answers=answers, hours=hours, cost=cost, sentence=sentence)


def _accepted_cost(store: Store, queue: Queue) -> AcceptedCost | None:
    """Return what an accepted item cost; None without one, or without any effort."""
    states = count_states(store, queue.kind, queue.left_out).get(queue.dataset, {})
    accepted = states.get("accepted", 0)
    times = hours_worked(store, [queue.name])
    calls = cost_rows(store, queue.dataset)
    if not accepted or not (times or calls):
        return None
    minutes = 60 * sum(one.hours for one in times) / accepted
    untimed = sum(one.untimed for one in times)
    tokens = sum((one.tokens_in or 0) + (one.tokens_out or 0) for one in calls) / accepted
    price: dict[str, float] = {}
    for one in calls:
        if one.cost is not None and one.currency:
            price[one.currency] = price.get(one.currency, 0.0) + one.cost / accepted
    unpriced = sum(
        one.calls if one.cost is None or not one.currency else one.unknown_usage for one in calls
    )
    count = sum(one.calls for one in calls)
    parts = [
        f"{minutes:.1f} minutes of people" + (f" ({untimed:,} answers untimed)" if untimed else ""),
        *([f"{count / accepted:,.1f} calls, {tokens:,.0f} tokens"] if count else []),
        *(f"{value:,.4f} {currency}" for currency, value in price.items()),
        *([f"{many(unpriced, 'call')} without a price"] if unpriced else []),
    ]
    return AcceptedCost(
        queue=queue.name,
        accepted=accepted,
        minutes=minutes,
        untimed=untimed,
        calls=count / accepted,
        tokens=tokens,
        price=price,
        unpriced=unpriced,
        sentence=f"{queue.name}: {accepted:,} accepted; each {'; '.join(parts)}",
    )


def _duration(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 0.5 else many(math.ceil(60 * hours), "minute")
