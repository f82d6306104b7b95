"""The answers of annotators, counted: how many, on which days, how fast, and what they said."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, timedelta

from annotate.intervals import share
from annotate.statistics_records import DayOfWork, LeadTime, Verdicts, Work
from db.review_statistics import GivenAnswer, TaskCount
from db.reviews import WAITING


class Tally:
    """The answers of one annotator, counted.

    Attributes:
        verdicts: of first opinions, how many came to each.
        seconds: the lead times of first opinions, as far as they are known.
        days: for each day how many answers came, by what they were asked for.
    """

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.days: dict[date, Counter[str]] = defaultdict(Counter)

    def add(self, given: GivenAnswer) -> None:
        """Counts an answer."""
        kind = "gold" if given.gold else given.purpose
        self.days[given.annotated_at.astimezone(UTC).date()][kind] += 1
        if kind != "review":
            return
        self.verdicts[given.answer.get("verdict", "")] += 1
        if given.lead_time_seconds is not None:
            self.seconds.append(given.lead_time_seconds)


def work_of(tallies: Iterable[Tally], tasks: Iterable[TaskCount]) -> Work:
    """What the annotators of these tallies did, who have these tasks."""
    days: dict[date, Counter[str]] = defaultdict(Counter)
    verdicts: Counter[str] = Counter()
    seconds: list[float] = []
    for tally in tallies:
        verdicts += tally.verdicts
        seconds += tally.seconds
        for day, kinds in tally.days.items():
            days[day] += kinds
    kinds = sum(days.values(), Counter())
    states: Counter[str] = Counter()
    for task in tasks:
        if task.purpose == "review":
            states[task.state] += task.tasks
    return Work(
        answers=kinds["review"],
        gold_answers=kinds["gold"],
        adjudications=kinds["adjudication"],
        second_looks=kinds["second-look"],
        waiting=sum(states[state] for state in WAITING),
        skipped=states["skipped"],
        returned=states["returned"],
        lead_time=_lead_time(seconds),
        verdicts=_verdicts(verdicts),
        days=tuple(_day(day, days[day]) for day in sorted(days)),
    )


def useful_per_day(days: Sequence[DayOfWork], today: date) -> list[int]:
    """How many answers that items need came on each full day since the first, oldest first."""
    if not days:
        return []
    came = {day.day: day.reviews + day.adjudications for day in days}
    first = days[0].day
    return [came.get(first + timedelta(days=n), 0) for n in range((today - first).days)]


def _day(day: date, kinds: Mapping[str, int]) -> DayOfWork:
    return DayOfWork(
        day=day,
        reviews=kinds["review"],
        gold=kinds["gold"],
        adjudications=kinds["adjudication"],
        second_looks=kinds["second-look"],
    )


def _lead_time(seconds: Sequence[float]) -> LeadTime:
    if not seconds:
        return LeadTime(known=0, median_seconds=None, p90_seconds=None)
    import numpy as np

    median, p90 = np.percentile(seconds, (50, 90))
    return LeadTime(known=len(seconds), median_seconds=float(median), p90_seconds=float(p90))


def _verdicts(counts: Mapping[str, int]) -> Verdicts:
    accepted, edited, rejected = (counts[name] for name in ("accept", "edit", "reject"))
    known = accepted + edited + rejected
    return Verdicts(
        accepted=share(accepted, known),
        edited=share(edited, known),
        rejected=share(rejected, known),
    )
