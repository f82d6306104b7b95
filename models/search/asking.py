"""What searches of services on the web share: keys, queries in order, answers field by field."""

import json
import logging
import math
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from unicodedata import category
from urllib.parse import quote

from schemas.chat import ModelRef
from schemas.errors import ConfigurationError
from schemas.image_search import (
    SearchAnswer,
    SearchFailure,
    SearchHit,
    SearchOutcome,
    UnreadableResult,
)

# Keys of services: read from the environment, and kept out of everything that is written down.


def read_key(variable: str, what: str, service: ModelRef) -> str:
    """What the environment variable holds.

    Raises:
        ConfigurationError: it is not set, or holds nothing.
    """
    if value := os.environ.get(variable, "").strip():
        return value
    raise ConfigurationError(
        f"{service.name} takes its {what} from the environment variable {variable}, which is not "
        f"set"
    )


def without_key(text: str, key: str) -> str:
    """`text` in which the key, should a server repeat it, is not to be read."""
    for spelling in {key, quote(key, safe="")}:
        text = text.replace(spelling, "***")
    return text


# What searches of services on the web share: queries in order, faults of the world retried.

RAW_CHARACTERS = 10_000  # of a failed response, kept for diagnosis
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


# Answers of services, read field by field: what is not needed makes no result unreadable.

UNREADABLE_ANSWER: Final = "unreadable_answer"
"""Why a search failed whose answer is JSON and holds no results: the same comes back again."""

_MOST_PIXELS: Final = 10**9  # of a side; beyond, it is no size
_SHOWN_CHARACTERS: Final = 200


class Results(NamedTuple):
    """What an answer holds: its hits by rank, and the results that name no image."""

    hits: tuple[SearchHit, ...]
    unreadable: tuple[UnreadableResult, ...]


class Received(NamedTuple):
    """What a service sent with status 200, without secrets, and how long it took."""

    raw: str
    content_type: str
    seconds: float


def attempt_of(
    received: Received, base_url: str, reader: str, read: Callable[[str], Results]
) -> Attempt:
    """What a request came to that was answered with status 200.

    What is no JSON is a fault of the world: a page of somebody between, or half an answer. JSON
    that holds no results is the service's word, and comes back as often as one asks.

    Args:
        received: what came.
        base_url: the service, for messages.
        reader: the version of `read`.
        read: takes the results out of what came; raises `ValueError` where it holds none.
    """
    raw, content_type, seconds = received
    try:
        hits, unreadable = read(raw)
    except ValueError as error:
        detail = f"{base_url} answered with no search result: {error}"
        if not _is_json_type(content_type):
            failure = SearchFailure(
                reason="server_error", detail=detail, retriable=True, raw=raw[:RAW_CHARACTERS]
            )
            return Attempt(failure, retry=True)
        return Attempt(
            SearchFailure(
                reason=UNREADABLE_ANSWER, detail=detail, retriable=False, raw=raw, reader=reader
            )
        )
    return Attempt(
        SearchAnswer(hits=hits, raw=raw, seconds=seconds, unreadable=unreadable, reader=reader)
    )


def json_of(text: str) -> Any:
    """What `text` says in JSON.

    Raises:
        ValueError: it is none, or nested more deeply than can be read.
    """
    try:
        return json.loads(text)
    except RecursionError as fault:
        raise ValueError("it is nested too deeply") from fault


def text_of(value: Any) -> str | None:
    """A text that says something; None for anything else."""
    return value if isinstance(value, str) and value.strip() else None


def number_text_of(value: Any) -> str | None:
    """A text, or a number in words: what should be `"4.0"` may come as `4.0`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else text_of(value)


def size_of(value: Any) -> int | None:
    """A number of pixels; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if value == int(value) and 0 < value <= _MOST_PIXELS else None


def unreadable_result(rank: int, result: Any) -> UnreadableResult:
    """Why a result is no hit."""
    reason = "no_address" if isinstance(result, dict) else "no_object"
    return UnreadableResult(rank=rank, reason=reason, shown=_shown(result))


def read_again(
    outcome: SearchOutcome, reader: str, read: Callable[[str], Results]
) -> SearchOutcome:
    """A stored outcome as `reader` reads what came; as it is where that read it, or cannot.

    Args:
        outcome: an answer, or a failure to read one.
        reader: the version of `read`.
        read: takes the results out of what came; raises `ValueError` where it holds none.
    """
    if outcome.reader == reader:
        return outcome
    if isinstance(outcome, SearchFailure) and outcome.reason != UNREADABLE_ANSWER:
        return outcome
    try:
        hits, unreadable = read(outcome.raw)
    except ValueError:
        return outcome
    seconds = outcome.seconds if isinstance(outcome, SearchAnswer) else 0.0
    return SearchAnswer(
        hits=hits,
        raw=outcome.raw,
        seconds=seconds,
        requests=outcome.requests,
        unreadable=unreadable,
        reader=reader,
    )


def _shown(result: Any) -> str:
    try:
        return json.dumps(result, ensure_ascii=False)[:_SHOWN_CHARACTERS]
    except RecursionError:
        return "(nested too deeply to be shown)"


def _is_json_type(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().casefold()
    return media_type == "application/json" or media_type.endswith("+json")
