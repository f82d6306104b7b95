"""When a request to a web service is sent again."""

import math
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_FIRST_PAUSE_SECONDS = 0.5


def wait_of(header: str | None) -> float | None:
    """Return the seconds that a `Retry-After` header (seconds, or a date) asks to wait.

    Returns None if there is none, or none that can be read.
    """
    after = header or ""
    try:
        seconds = float(after)
    except ValueError:
        try:
            date = parsedate_to_datetime(after)
        except (ValueError, OverflowError):  # the second of the minute for a year with many digits
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def backoff(retries_made: int, longest_seconds: float) -> float:
    """Return the seconds to wait before the next retry: they double, with jitter."""
    seconds = min(longest_seconds, _FIRST_PAUSE_SECONDS * 2.0**retries_made)
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, nothing secret
