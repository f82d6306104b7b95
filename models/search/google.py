"""Image search by Google's Custom Search JSON API."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import httpx

from loupe.models.adapter import always
from loupe.models.retrying import wait_of
from loupe.models.search.web import Attempt, Sleep, WebSearch, size_of, text_of
from loupe.schemas.base import sha256_of
from loupe.schemas.extras import needs_extra
from loupe.schemas.image_search import (
    GOOGLE_ENDS_ON,
    GoogleSearch,
    SearchFailure,
    SearchHit,
    SearchOutcome,
)

_DAY_IS_OVER = frozenset({"dailyLimitExceeded", "dailyLimitExceededUnreg", "quotaExceeded"})
_TOO_FAST = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED"})
_BAD_KEY = frozenset({"API_KEY_INVALID", "keyInvalid", "keyExpired", "accessNotConfigured"})
_ODD_ERRORS = (AttributeError, RecursionError)
"""What the library raises for an error in a form that it does not expect."""
_LONGEST_WAIT_SECONDS = 90.0  # applies if Google states when to retry
_ENDED = (
    f"Google's Custom Search JSON API ended on {GOOGLE_ENDS_ON}; choose provider = 'openverse' or "
    f"'folder' in the profile's search"
)


def _now() -> datetime:
    return datetime.now(UTC)


class GoogleImageSearch(WebSearch[GoogleSearch]):
    """Searches by Google's own library for its Custom Search JSON API.

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
        """Send a request with the key in a header, so that no logged address contains it.

        Google's library retries nothing: `WebSearch` does, which knows the budget.
        """
        with needs_extra("searching images by Google", "web"):
            from googleapiclient.discovery import build
            from googleapiclient.errors import HttpError
            from googleapiclient.model import RawModel

        transport = _Transport(client)
        # the domain, like the address, is never that of an environment variable
        address = {"api_endpoint": self._base_url, "universe_domain": "googleapis.com"}
        service = build(
            "customsearch",
            "v1",
            http=transport,
            model=RawModel(),  # the raw answer is stored before it is parsed
            static_discovery=True,
            cache_discovery=False,
            client_options=address,
        )
        size_filter = {"imgSize": self._spec.image_size} if self._spec.image_size else {}
        request = service.cse().list(
            q=query,
            cx=self._engine,
            searchType="image",
            rights=self._spec.rights_filter,
            safe=self._spec.safe,
            num=size,
            start=1,
            **size_filter,
        )
        request.headers["X-Goog-Api-Key"] = self._key
        with suppress(HttpError, *_ODD_ERRORS):  # `_refused` classifies the response
            request.execute(num_retries=0)
        return transport.response

    def _refused(self, response: httpx.Response) -> Attempt:
        """Classify an error; the status does not distinguish a daily quota from a rate limit."""
        status = response.status_code
        raw = response.text
        message, words = _words_of(response)
        what = f"answered with status {status}" + (f": {message}" if message else "")
        wait = wait_of(response.headers.get("retry-after"))
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


class _Transport:
    """Sends the requests of Google's library as all other requests of ours.

    Its own transport sends a request again if the connection breaks, which may be paid for twice,
    follows redirects with the key, and has other rules for proxies and certificates.
    """

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.response: httpx.Response

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Any, bytes]:
        """Return the response as the library expects it."""
        self.response = self._client.request(method, uri, content=body, headers=headers)
        return _as_google(self.response), self.response.content

    def close(self) -> None:
        """Do nothing: the client is closed where it was opened."""


def _as_google(response: httpx.Response) -> Any:
    from httplib2 import Response

    made = Response({**response.headers, "status": str(response.status_code)})
    made.reason = ""
    return made


def _words_of(response: httpx.Response) -> tuple[str, frozenset[str]]:
    """Return the message of an error, and its reason words."""
    from googleapiclient.errors import HttpError

    try:
        error = HttpError(_as_google(response), response.content)
    except _ODD_ERRORS:
        return "", frozenset()
    words = set()
    for detail in error.error_details if isinstance(error.error_details, list) else []:
        if isinstance(detail, dict):
            words.add(str(detail.get("reason")))
    return error.reason, frozenset(words)
