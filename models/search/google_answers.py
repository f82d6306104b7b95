"""What Google's Custom Search JSON API says: its answers, and its errors."""

import json
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from schemas.image_search import GoogleSearch, SearchHit

_DAY_IS_OVER = frozenset({"dailyLimitExceeded", "dailyLimitExceededUnreg", "quotaExceeded"})
_TOO_FAST = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"})
_BAD_KEY = frozenset({"API_KEY_INVALID", "keyInvalid", "keyExpired", "accessNotConfigured"})


class _ImageOfItem(BaseModel):
    contextLink: str | None = None  # noqa: N815 - the API's name
    width: int | None = None
    height: int | None = None


class _Item(BaseModel):
    link: str = Field(min_length=1)
    title: str | None = None
    mime: str | None = None
    image: _ImageOfItem = _ImageOfItem()


def read_hits(
    answer: dict[str, Any], spec: GoogleSearch, first: int, count: int
) -> tuple[SearchHit, ...]:
    """The hits of an answer, of which the first has rank `first`; without a link it is none.

    The API tells no licence and no author: the licence is the one that the filter lets pass.

    Raises:
        ValueError: the answer has no list of items where one should be.
    """
    items = answer.get("items", [])
    if not isinstance(items, list):
        raise ValueError(f"its items are no list but {type(items).__name__}")  # noqa: TRY004
    hits = []
    for rank, item in enumerate(items[:count], start=first):
        try:
            read = _Item.model_validate(item)
        except ValidationError:
            continue
        hits.append(
            SearchHit(
                rank=rank,
                image_url=read.link,
                page_url=read.image.contextLink or None,
                title=read.title or "",
                licence=spec.licence,
                licence_basis="filter",
                width_px=_size(read.image.width),
                height_px=_size(read.image.height),
                media_type=read.mime or None,
            )
        )
    return tuple(hits)


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


def _size(pixels: int | None) -> int | None:
    return pixels if pixels and pixels > 0 else None
