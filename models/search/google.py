"""Image search by Google's Custom Search JSON API."""

import http.client
import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import httplib2

from models.image_search import always
from models.search.asking import (
    RAW_CHARACTERS,
    Attempt,
    Received,
    Results,
    Sleep,
    attempt_of,
    json_of,
    plain_query,
    read_again,
    read_key,
    size_of,
    text_of,
    unreadable_result,
    with_retries,
    without_key,
)
from schemas.base import sha256_of
from schemas.chat import ModelRef
from schemas.image_search import (
    GOOGLE_ENDS_ON,
    GoogleSearch,
    SearchAnswer,
    SearchFailure,
    SearchHit,
    SearchOutcome,
    UnreadableResult,
)

# What Google's Custom Search JSON API says: its answers, and its errors.

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
    stated = item.get("image")
    image: dict[str, Any] = stated if isinstance(stated, dict) else {}
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


# How Google's client reaches the network: with the key, once a call, and under no other name.
#
# The client itself never has the key, so that neither the addresses that it logs nor its errors
# hold it. Its transport would send a request again when a connection breaks, without a word: here
# nothing is sent twice, since every request counts against a quota.


class _SentOnce:
    """A connection that is opened once: to send again, ask again."""

    _was_open = False

    def connect(self) -> None:
        """Opens it.

        Raises:
            ConnectionResetError: it was open before.
        """
        if self._was_open:
            raise ConnectionResetError("the server closed the connection without an answer")
        super().connect()  # type: ignore[misc]
        self._was_open = True


class _Http(_SentOnce, httplib2.HTTPConnectionWithTimeout):  # type: ignore[misc]
    pass


class _Https(_SentOnce, httplib2.HTTPSConnectionWithTimeout):  # type: ignore[misc]
    pass


class KeyedHttp(httplib2.Http):  # type: ignore[misc]
    """Adds the key to each address as it leaves; for one call, in one thread.

    A proxy that the environment names is used for https alone, where it sees no key. Redirects are
    not followed: the key is for this server. `received` is the type and the body of what
    came back; None before.
    """

    def __init__(self, base_url: str, key: str, timeout_seconds: float) -> None:
        self._is_secure = urlsplit(base_url).scheme == "https"
        proxy = {} if self._is_secure else {"proxy_info": None}
        super().__init__(timeout=timeout_seconds, **proxy)
        self.follow_redirects = False
        self._key = key
        self.received: tuple[str, bytes] | None = None

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: str | None = None,
        headers: dict[str, str] | None = None,
        **named: Any,
    ) -> tuple[Any, bytes]:
        """As `httplib2.Http` does; the parameters of a long query are in the body of a POST."""
        named["connection_type"] = _Https if self._is_secure else _Http
        key, headers = urlencode({"key": self._key}), dict(headers or {})
        if body:
            body = f"{body}&{key}"
            headers["content-length"] = str(len(body))
        else:
            uri = f"{uri}{'&' if urlsplit(uri).query else '?'}{key}"
        response, content = super().request(uri, method, body, headers, **named)
        self.received = str(response.get("content-type", "")), content
        return response, content


# Image search by Google's Custom Search JSON API.

_MOST_HITS = 10  # a request
_LAST_PLACE = 100  # the sum of `start` and `num`
_LONGEST_WAIT_SECONDS = 90.0  # where Google says when to ask again
_ENDED = (
    f"Google's Custom Search JSON API ended on {GOOGLE_ENDS_ON}; choose provider = 'openverse' or "
    f"'folder' in the profile's search"
)


def _now() -> datetime:
    return datetime.now(UTC)


class GoogleImageSearch:
    """Asks Google's Custom Search JSON API, through its own client.

    **The service is closed to new customers and ends on 2027-01-01**: from that day on every search
    says so, and what was found before is still in the store. It gives at most ten hits a request,
    and none whose place is beyond a hundred: later pages are empty, and not asked for. It tells
    neither licence nor author of an image: the licence of a hit is that of the filter.

    Raises:
        ConfigurationError: an environment variable that the profile names is not set.
    """

    def __init__(
        self,
        spec: GoogleSearch,
        clock: Callable[[], datetime] = _now,
        sleep: Sleep = time.sleep,
    ) -> None:
        import httplib2
        from googleapiclient.discovery import build

        self._spec = spec
        self._clock = clock
        self._sleep = sleep
        self._engine = read_key(spec.engine_variable, "engine id", spec.ref)
        self._key = read_key(spec.api_key_variable, "API key", spec.ref)
        # With an `http` of ours the client looks for no credentials of the user, and with an
        # endpoint and a universe it asks no environment variable where to go.
        self._service = build(
            "customsearch",
            "v1",
            http=httplib2.Http(),
            static_discovery=True,
            cache_discovery=False,
            client_options={
                "api_endpoint": f"{spec.base_url.rstrip('/')}/",
                "universe_domain": "googleapis.com",
            },
        )

    @property
    def ref(self) -> ModelRef:
        """The API and its version."""
        return self._spec.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """Filters, and a digest of the engine's id: engines find different things."""
        return {**self._spec.parameters, "engine_sha256": sha256_of(self._engine.encode())}

    def search(
        self, query: str, count: int, page: int = 1, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        """The hits of one request: see `ImageSearch`. Since its end it fails (`service_ended`)."""
        words = plain_query(query)
        if isinstance(words, SearchFailure):
            return words
        if self._clock().date() >= date.fromisoformat(GOOGLE_ENDS_ON):
            return SearchFailure(reason="service_ended", detail=_ENDED, retriable=True)
        first, number = _lot(count, page)
        if number < 1:
            return SearchAnswer(hits=(), raw="{}", seconds=0, requests=0, reader=READER)
        return with_retries(
            lambda: self._ask(words, first, number), self._spec.max_retries, may_retry, self._sleep
        )

    def read_again(self, outcome: SearchOutcome, count: int, page: int = 1) -> SearchOutcome:
        """See `ImageSearch`."""
        first, number = _lot(count, page)
        return read_again(outcome, READER, lambda raw: self._results(raw, first, max(0, number)))

    def _ask(self, query: str, first: int, number: int) -> Attempt:
        import httplib2
        from googleapiclient.errors import HttpError

        http_of_this = KeyedHttp(self._spec.base_url, self._key, self._spec.timeout_seconds)
        started = time.monotonic()
        try:
            self._request(query, first, number).execute(http=http_of_this)
        except HttpError as error:
            return self._refused(error.status_code, error.content, error.resp)
        except TimeoutError as error:
            return self._failed("timeout", f"did not answer in time: {error}")
        except (ConnectionRefusedError, httplib2.ServerNotFoundError) as error:
            return self._failed("unreachable", f"cannot be reached: {error}", counted=False)
        except (OSError, httplib2.HttpLib2Error, http.client.HTTPException) as error:
            return self._failed("unreachable", f"broke off: {error}")
        except (ValueError, RecursionError) as error:  # what it cannot read is read here
            if http_of_this.received is None:
                return self._failed("server_error", f"was not asked: {error}", counted=False)
        finally:
            http_of_this.close()
        seconds = time.monotonic() - started
        content_type, body = http_of_this.received or ("", b"")
        return self._read(content_type, body, first, number, seconds)

    def _request(self, query: str, first: int, number: int) -> Any:
        size = {"imgSize": self._spec.image_size} if self._spec.image_size else {}
        return self._service.cse().list(
            q=query,
            cx=self._engine,
            searchType="image",
            rights=self._spec.rights_filter,
            safe=self._spec.safe,
            num=number,
            start=first,
            **size,
        )

    def _read(
        self, content_type: str, body: bytes, first: int, number: int, seconds: float
    ) -> Attempt:
        """What came, as it came: Google's client gives up where a single name cannot be read."""
        received = Received(
            self._without_key(body.decode("utf-8", "replace")), content_type, seconds
        )
        return attempt_of(
            received, self._spec.base_url, READER, lambda raw: self._results(raw, first, number)
        )

    def _results(self, raw: str, first: int, number: int) -> Results:
        return read_results(raw, self._spec, first, number)

    def _refused(self, status: int, content: bytes, headers: Any) -> Attempt:
        body = self._without_key(content.decode("utf-8", "replace"))[:RAW_CHARACTERS]
        refusal = read_refusal(status, body)
        failure = SearchFailure(
            reason=refusal.reason,
            detail=f"{self._spec.base_url} answered with status {status}"
            + (f": {refusal.message}" if refusal.message else ""),
            retriable=refusal.retriable,
            raw=body,
        )
        after = str(headers.get("retry-after", ""))
        wait = float(after) if after.isascii() and after.isdigit() else None
        retry = refusal.retry and (wait or 0) <= _LONGEST_WAIT_SECONDS
        return Attempt(failure, refusal.counted, retry, wait)

    def _failed(self, reason: str, what: str, raw: str = "", *, counted: bool = True) -> Attempt:
        failure = SearchFailure(
            reason=reason,
            detail=self._without_key(f"{self._spec.base_url} {what}"),
            retriable=True,
            raw=raw[:RAW_CHARACTERS],
        )
        return Attempt(failure, counted=counted, retry=True)

    def _without_key(self, text: str) -> str:
        return without_key(text, self._key)


def _lot(count: int, page: int) -> tuple[int, int]:
    """The place of the first hit of a page, and how many it has: none beyond the last place."""
    size = min(count, _MOST_HITS)
    first = (page - 1) * size + 1
    return first, min(size, _LAST_PLACE - first)
