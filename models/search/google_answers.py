"""What Google's Custom Search JSON API says: its answers, and its errors."""

import json
from typing import Any, Final, NamedTuple

from models.search.reading import Results, json_of, size_of, text_of, unreadable_result
from schemas.image_search import GoogleSearch, SearchHit, UnreadableResult

_DAY_IS_OVER = frozenset({"dailyLimitExceeded", "dailyLimitExceededUnreg", "quotaExceeded"})
_TOO_FAST = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"})
_BAD_KEY = frozenset({"API_KEY_INVALID", "keyInvalid", "keyExpired", "accessNotConfigured"})


READER: Final = "2"
"""The version of `read_results`: answers that another one read are read again."""


def read_results(text: str, spec: GoogleSearch, first: int, count: int) -> Results:
    """The results of an answer, of which the first has rank `first`; without a link it is none.

    The API tells no licence and no author: the licence is the one that the filter lets pass.

    Raises:
        ValueError: the text is no answer, or has no list of items where one should be.
    """
    answer = json_of(text)
    if not isinstance(answer, dict):
        raise ValueError(f"it is no object but {type(answer).__name__}")  # noqa: TRY004
    items = answer.get("items", [])
    if not isinstance(items, list):
        raise ValueError(f"its items are no list but {type(items).__name__}")  # noqa: TRY004
    hits: list[SearchHit] = []
    unreadable: list[UnreadableResult] = []
    for rank, item in enumerate(items[:count], start=first):
        if isinstance(item, dict) and (link := text_of(item.get("link"))):
            hits.append(_hit(rank, link, item, spec))
        else:
            unreadable.append(unreadable_result(rank, item))
    return Results(tuple(hits), tuple(unreadable))


def _hit(rank: int, link: str, item: dict[str, Any], spec: GoogleSearch) -> SearchHit:
    told = item.get("image")
    image: dict[str, Any] = told if isinstance(told, dict) else {}
    return SearchHit(
        rank=rank,
        image_url=link,
        page_url=text_of(image.get("contextLink")),
        title=text_of(item.get("title")) or "",
        licence=spec.licence,
        licence_basis="filter",
        width_px=size_of(image.get("width")),
        height_px=size_of(image.get("height")),
        media_type=text_of(item.get("mime")),
    )


class Refusal(NamedTuple):
    """What an answer with a status of 400 and above means."""

    reason: str
    retriable: bool
    counted: bool
    retry: bool
    message: str


def read_refusal(status: int, body: str) -> Refusal:
    """What Google means by an error: statuses alone do not tell a day's quota from a minute's."""
    message, words = _words_of(body)
    if status in (403, 429) and (words & _DAY_IS_OVER or "per day" in message.casefold()):
        return Refusal("quota_exhausted", True, False, False, message)
    if status == 429 or (status == 403 and words & _TOO_FAST):
        return Refusal("rate_limited", True, False, True, message)
    if status == 408:
        return Refusal("timeout", True, True, True, message)
    if status >= 500:
        return Refusal("server_error", True, True, True, message)
    if status in (401, 403, 404) or words & _BAD_KEY or "API key" in message or status < 400:
        return Refusal("misconfigured", True, False, False, message)
    return Refusal("refused_query", False, False, False, message)


def _words_of(body: str) -> tuple[str, frozenset[str]]:
    """The message of an error, and the words that say what kind it is."""
    try:
        error = json.loads(body)["error"]
        message = str(error.get("message", ""))
        parts = [*error.get("errors", []), *error.get("details", [])]
        words = {str(part.get("reason")) for part in parts} | {str(error.get("status"))}
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", frozenset()
    return message, frozenset(words)
