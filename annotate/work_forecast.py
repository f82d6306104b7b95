"""When the work will be done, if the days to come are like those that were.

Each day to come is one of the last days, drawn at random, idle ones included, until there are
answers enough. Of a thousand such futures the middle 80 % give the range of dates: weekends, sick
leave and a single day of great zeal weigh as much as they did, and no more.
"""

from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from annotate.intervals import SEED
from schemas.base import Record

RECENT_DAYS = 28
LEAST_DAYS = 3
_FUTURES = 1000
_RANGE = (10, 90)
_LONGEST_DAYS = 3650


class Forecast(Record):
    """The answers that are still needed, and between which days they will be there.

    `per_day` is the mean number of answers a day over the last `days` days. Where nothing can be
    said, the dates are None and `reason` says why.
    """

    answers_needed: int
    days: int = 0
    per_day: float | None = None
    earliest: date | None = None
    latest: date | None = None
    reason: str = ""


def forecast(answers_needed: int, per_day: Sequence[int], today: date) -> Forecast:
    """When the answers will be there.

    Args:
        answers_needed: how many are still needed.
        per_day: how many came on each full day since the first one, oldest first; only the last
            `RECENT_DAYS` are looked at.
        today: the day from which on they are waited for; it is counted as one to come.
    """
    recent = np.asarray(per_day[-RECENT_DAYS:], dtype=np.int64)
    days = len(recent)
    per_day_mean = float(recent.mean()) if days else None
    found = Forecast(answers_needed=answers_needed, days=days, per_day=per_day_mean)
    if answers_needed == 0:
        return found.model_copy(update={"earliest": today, "latest": today})
    if days < LEAST_DAYS:
        reason = f"{LEAST_DAYS} full days of work are needed to forecast from; there are {days}"
        return found.model_copy(update={"reason": reason})
    if not recent.any():
        return found.model_copy(update={"reason": f"nobody answered in the last {days} days"})
    earliest, latest = _days_needed(answers_needed, recent)
    if latest > _LONGEST_DAYS:
        return found.model_copy(update={"reason": "at this rate it takes more than ten years"})
    return found.model_copy(
        update={
            "earliest": today + timedelta(days=earliest - 1),
            "latest": today + timedelta(days=latest - 1),
        }
    )


def _days_needed(answers: int, recent: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """In how many days they are there in a good and in a bad future, at least one."""
    generator = np.random.default_rng(SEED)
    came = np.zeros(_FUTURES, dtype=np.int64)
    needed = np.zeros(_FUTURES, dtype=np.int64)
    for _ in range(_LONGEST_DAYS + 1):
        unfinished = came < answers
        if not unfinished.any():
            break
        needed += unfinished
        came += generator.choice(recent, size=_FUTURES)
    return [int(days) for days in np.percentile(needed, _RANGE, method="inverted_cdf")]
