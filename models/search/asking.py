"""What searches of services on the web share: queries in order, faults of the world retried."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from unicodedata import category

from schemas.image_search import SearchFailure, SearchOutcome

RAW_CHARACTERS = 10_000  # of a failed response, kept for whoever looks into it
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_log = logging.getLogger(__name__)

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Attempt:
    """What one request came to.

    `counted` tells whether the service's quota counts it; `retry` whether to ask again, and
    `wait_seconds` when, where the service said so.
    """

    outcome: SearchOutcome
    counted: bool = True
    retry: bool = False
    wait_seconds: float | None = None


def plain_query(query: str) -> str | SearchFailure:
    """The query in one line without doubled blanks, or why nobody can be asked it."""
    words = " ".join(query.split())
    if not words:
        return SearchFailure(
            reason="refused_query", detail="the query is blank, wanted words", retriable=False
        )
    if any(category(character) in ("Cc", "Cs") for character in words):
        return SearchFailure(
            reason="refused_query",
            detail=f"the query {query!a} holds control characters, wanted words",
            retriable=False,
        )
    return words


def with_retries(
    attempt: Callable[[], Attempt],
    max_retries: int,
    may_retry: Callable[[], bool],
    sleep: Sleep = time.sleep,
) -> SearchOutcome:
    """The outcome of the last attempt, with the number of all requests that counted.

    `may_retry` is asked after the pause: a run may have been stopped in it.
    """
    counted = 0
    for retries_left in range(max_retries, -1, -1):
        made = attempt()
        counted += made.counted
        if not made.retry or retries_left == 0:
            break
        pause = made.wait_seconds
        if pause is None:
            pause = _backoff(max_retries - retries_left)
        _log.info("asking again in %.1f s: %s", pause, getattr(made.outcome, "detail", ""))
        sleep(pause)
        if not may_retry():
            break
    return made.outcome.model_copy(update={"requests": counted})


def _backoff(retries_made: int) -> float:
    longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0**retries_made)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, nothing secret
