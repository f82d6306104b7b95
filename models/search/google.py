"""Image search by Google's Custom Search JSON API."""

import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import httpx

from models.adapter import always
from models.retrying import wait_of
from models.search.web import Attempt, Sleep, WebSearch, size_of, text_of
from schemas.base import sha256_of
from schemas.image_search import (
    GOOGLE_ENDS_ON,
    GoogleSearch,
    SearchFailure,
    SearchHit,
    SearchOutcome,
)

_DAY_IS_OVER = frozenset({"dailyLimitExceeded", "dailyLimitExceededUnreg", "quotaExceeded"})
_TOO_FAST = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"})
_BAD_KEY = frozenset({"API_KEY_INVALID", "keyInvalid", "keyExpired", "accessNotConfigured"})
_PATH = "customsearch/v1"
_LONGEST_ADDRESS = 2048
_LONGEST_WAIT_SECONDS = 90.0  # applies if Google states when to retry
_ENDED = (
    f"Google's Custom Search JSON API ended on {GOOGLE_ENDS_ON}; choose provider = 'openverse' or "
    f"'folder' in the profile's search"
)


def _now() -> datetime:
    return datetime.now(UTC)


class GoogleImageSearch(WebSearch[GoogleSearch]):
    """Client of Google's Custom Search JSON API.

    **The service is closed to new customers and ends on 2027-01-01**: from that day on every search
    fails with a message, and earlier results are still in the store. A request returns at most ten
    hits, without licence and author of an image: the licence of a hit is that of the filter.

    Raises:
        ConfigurationError: an environment variable named in the profile is not set.
    """

    def __init__(
        self,
        spec: GoogleSearch,
        clock: Callable[[], datetime] = _now,
        sleep: Sleep = time.sleep,
    ) -> None:
        super().__init__(spec, sleep)
        self._clock = clock
        self._engine = self._read_key(spec.engine_variable, "engine id")
        self._key = self._read_key(spec.api_key_variable, "API key")
        self._secrets.append(self._key)

    @property
    def parameters(self) -> dict[str, Any]:
        """Filters, and a digest of the engine's id, because engines return different results."""
        return {**self._spec.parameters, "engine_sha256": sha256_of(self._engine.encode())}

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        """Return the hits of one request. Fails after the end of the service (`service_ended`)."""
        if self._clock().date() >= date.fromisoformat(GOOGLE_ENDS_ON):
            return SearchFailure(reason="service_ended", detail=_ENDED, retriable=True)
        return super().search(query, count, may_retry)

    @property
    def _most_hits(self) -> int:
        return 10

    def _send(self, client: httpx.Client, query: str, size: int) -> httpx.Response:
        """Send a request with the key in a header, so that no logged address contains it."""
        parameters = {
            "q": query,
            "cx": self._engine,
            "searchType": "image",
            "rights": self._spec.rights_filter,
            "safe": self._spec.safe,
            "num": str(size),
            "start": "1",
            **({"imgSize": self._spec.image_size} if self._spec.image_size else {}),
        }
        headers = {"X-Goog-Api-Key": self._key}
        request = client.build_request("GET", _PATH, params=parameters, headers=headers)
        if len(str(request.url)) > _LONGEST_ADDRESS:
            headers["X-HTTP-Method-Override"] = "GET"
            request = client.build_request("POST", _PATH, data=parameters, headers=headers)
        return client.send(request)

    def _refused(self, response: httpx.Response) -> Attempt:
        """Classify an error; the status does not distinguish a daily quota from a rate limit."""
        status, raw = response.status_code, response.text
        message, words = _words_of(raw)
        what = f"answered with status {status}" + (f": {message}" if message else "")
        wait = wait_of(response)
        is_near = (wait or 0) <= _LONGEST_WAIT_SECONDS
        if status in (403, 429) and (words & _DAY_IS_OVER or "per day" in message.casefold()):
            return self._failed("quota_exhausted", what, raw, counted=False, retry=False)
        if status == 429 or (status == 403 and words & _TOO_FAST):
            return self._failed(
                "rate_limited", what, raw, counted=False, retry=is_near, wait_seconds=wait
            )
        if status >= 500 or status == httpx.codes.REQUEST_TIMEOUT:
            reason = "server_error" if status >= 500 else "timeout"
            return self._failed(reason, what, raw, retry=is_near, wait_seconds=wait)
        if status in (401, 403, 404) or words & _BAD_KEY or "API key" in message or status < 400:
            return self._failed("misconfigured", what, raw, counted=False, retry=False)
        return self._failed("refused_query", what, raw, counted=False, retry=False, retriable=False)

    def _listed(self, answer: Any) -> Any:
        return answer.get("items", []) if isinstance(answer, dict) else None

    def _hit(self, rank: int, result: dict[str, Any]) -> SearchHit | None:
        """Return a hit with the filter's licence, as the API returns neither licence nor author."""
        if (link := text_of(result.get("link"))) is None:
            return None
        stated = result.get("image")
        image: dict[str, Any] = stated if isinstance(stated, dict) else {}
        return SearchHit(
            rank=rank,
            image_url=link,
            page_url=text_of(image.get("contextLink")),
            title=text_of(result.get("title")) or "",
            licence=self._spec.licence,
            licence_basis="filter",
            width_px=size_of(image.get("width")),
            height_px=size_of(image.get("height")),
            media_type=text_of(result.get("mime")),
        )


def _words_of(body: str) -> tuple[str, frozenset[str]]:
    """Return the message of an error, and its reason words."""
    try:
        error = json.loads(body)["error"]
        message = str(error.get("message", ""))
        parts = [*error.get("errors", []), *error.get("details", [])]
        words = {str(part.get("reason")) for part in parts} | {str(error.get("status"))}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", frozenset()
    return message, frozenset(words)
