"""The hours of annotators."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date

from loupe.db.review_audits import timed_answers
from loupe.db.reviews import names_of_annotators
from loupe.db.store import Store
from loupe.schemas.base import Record
from loupe.schemas.quality import LONGEST_MINUTES


class HoursRow(Record):
    """The time of an annotator in a queue on a day (UTC).

    `answers` counts answers and later changes of them, gold items, adjudications and audits
    included. `untimed` counts those without a time.
    """

    day: date
    annotator: str
    name: str | None
    queue: str
    answers: int
    hours: float
    untimed: int


def hours_worked(
    store: Store,
    queues: Iterable[str],
    first: date | None = None,
    last: date | None = None,
    *,
    names: bool = False,
) -> list[HoursRow]:
    """Return the time that people spent, by day, person and queue.

    An answer counts for `LONGEST_MINUTES` at most, as a task may have been left open. Label Studio
    adds the time of a change to that of the answer, so that only the difference is new.
    """
    people = names_of_annotators(store) if names else {}
    before: dict[tuple[str, int], float] = {}
    found: dict[tuple[date, str, str], list[float | None]] = defaultdict(list)
    for one in timed_answers(store, queues):
        new = None
        if one.seconds is not None:
            new = max(0.0, one.seconds - before.get((one.task_key, one.remote_id), 0.0))
            before[one.task_key, one.remote_id] = one.seconds
        day = one.annotated_at.astimezone(UTC).date()
        if (first is None or first <= day) and (last is None or day <= last):
            found[day, one.annotator, one.queue].append(new)
    longest = 60 * LONGEST_MINUTES
    rows = []
    for (day, annotator, queue), times in sorted(found.items()):
        counted = [min(time, longest) for time in times if time is not None]
        row = HoursRow(
            day=day,
            annotator=annotator,
            name=people.get(annotator),
            queue=queue,
            answers=len(times),
            hours=sum(counted) / 3600,
            untimed=times.count(None),
        )
        rows.append(row)
    return rows
