"""A forecast of when the work will be done, if future days are like past ones.

Each future day is a random one of the last days, idle ones included, until there are enough
answers. The middle 80 % of a thousand such simulations are the range of dates, so that weekends,
sick leave and a single busy day have the weight they had in the past.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np

from loupe.retrieval.ranking import SEED
from loupe.schemas.base import Record

_RECENT_DAYS = 28
LEAST_DAYS = 3
_FUTURES = 1000
_RANGE = (10, 90)
_LONGEST_DAYS = 3650


class Forecast(Record):
    """The answers still needed, and the days between which they are expected.

    `per_day` is the mean number of answers a day over the last `days` days. Without a forecast, the
    dates are None and `reason` says why.
    """

    answers_needed: int
    days: int = 0
    per_day: float | None = None
    earliest: date | None = None
    latest: date | None = None
    reason: str = ""


def forecast(answers_needed: int, per_day: Sequence[int], today: date) -> Forecast:
    """Return when the answers are expected.

    Args:
        answers_needed: the number of answers still needed.
        per_day: the number of answers on each full day since the first one, oldest first; only the
            last `_RECENT_DAYS` are used.
        today: the first day of the forecast.
    """
    recent = np.asarray(per_day[-_RECENT_DAYS:], dtype=np.int64)
    days = len(recent)
    known: dict[str, Any] = {
        "answers_needed": answers_needed,
        "days": days,
        "per_day": float(recent.mean()) if days else None,
    }
    if answers_needed == 0:
        return Forecast(**known, earliest=today, latest=today)
    if days < LEAST_DAYS:
        reason = f"a forecast needs {LEAST_DAYS} full days of work; there are {days}"
        return Forecast(**known, reason=reason)
    if not recent.any():
        return Forecast(**known, reason=f"there are no answers in the last {days} days")
    earliest, latest = _days_needed(answers_needed, recent)
    if latest > _LONGEST_DAYS:
        return Forecast(**known, reason="at this rate it takes more than ten years")
    first = today - timedelta(days=1)
    return Forecast(
        **known, earliest=first + timedelta(days=earliest), latest=first + timedelta(days=latest)
    )


def _days_needed(answers: int, recent: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[int]:
    """Return the days needed in a good and in a bad simulation, at least one."""
    generator = np.random.default_rng(SEED)
    came = generator.choice(recent, size=(_FUTURES, _LONGEST_DAYS + 1)).cumsum(axis=1)
    needed = 1 + (came < answers).sum(axis=1)
    return [int(days) for days in np.percentile(needed, _RANGE, method="inverted_cdf")]
