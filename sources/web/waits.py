"""How long a host asks to be left alone."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(header: str | None) -> float:
    """The seconds of a `Retry-After` header, given as a number or as a date; 0 where it is none."""
    if header is None:
        return 0
    try:
        seconds = float(header)
    except ValueError:
        try:
            until = parsedate_to_datetime(header)
        except (ValueError, OverflowError):  # the second for a year of many digits
            return 0
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0
