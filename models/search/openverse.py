"""Image search by Openverse, the index of openly licensed images."""

import time
from collections.abc import Callable
from typing import Any

import httpx

from models.image_search import always
from models.search.asking import RAW_CHARACTERS, Attempt, Sleep, plain_query, with_retries
from models.search.keys import without_key
from models.search.openverse_answers import READER, is_day_over, read_results, wait_of
from models.search.openverse_token import OpenverseTokens, TokenRefusedError
from models.search.reading import Received, attempt_of, read_again
from schemas.chat import ModelRef
from schemas.image_search import OpenverseSearch, SearchAnswer, SearchFailure, SearchOutcome

_MOST_HITS = 20  # a request of somebody who is not registered
_MOST_HITS_REGISTERED = 50
_LAST_PLACE = 240
_NOTHING = '{"results": []}'
_QUERY_CHARACTERS = 200  # what is beyond is cut off by the service itself, within a word


class OpenverseImageSearch:
    """Asks Openverse's API, version 1.

    It gives at most 20 hits a request (50 to a registered application) and none whose place is
    beyond 240: later pages are empty, and not asked for. Of a query only the first 200 characters
    count; it is cut at a word. The licence of a hit is what Openverse states of it, which Openverse
    has from the site that shows the image.

    Raises:
        ConfigurationError: an environment variable that the profile names is not set.
    """

    def __init__(self, spec: OpenverseSearch, sleep: Sleep = time.sleep) -> None:
        self._spec = spec
        self._sleep = sleep
        self._tokens = OpenverseTokens(spec)

    @property
    def ref(self) -> ModelRef:
        """The API and its version."""
        return self._spec.ref

    @property
    def parameters(self) -> dict[str, Any]:
        """The licences asked for."""
        return self._spec.parameters

    def search(
        self, query: str, count: int, page: int = 1, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        """The hits of one request: see `ImageSearch`."""
        words = plain_query(query)
        if isinstance(words, SearchFailure):
            return words
        first, size = self._lot(count, page)
        if page * size > _LAST_PLACE:
            return SearchAnswer(hits=(), raw=_NOTHING, seconds=0, requests=0, reader=READER)
        parameters = self._parameters_of(words, size, page)
        with self._client() as client:
            return with_retries(
                lambda: self._ask(client, parameters, first, size),
                self._spec.max_retries,
                may_retry,
                self._sleep,
            )

    def read_again(self, outcome: SearchOutcome, count: int, page: int = 1) -> SearchOutcome:
        """See `ImageSearch`."""
        first, size = self._lot(count, page)
        return read_again(outcome, READER, lambda raw: read_results(raw, first, size))

    def _lot(self, count: int, page: int) -> tuple[int, int]:
        """The rank of the first hit of a page, and how many hits it has."""
        most = _MOST_HITS_REGISTERED if self._spec.is_registered else _MOST_HITS
        size = min(count, most)
        return (page - 1) * size + 1, size

    def _client(self) -> httpx.Client:
        base_url = f"{self._spec.base_url.rstrip('/')}/"
        return httpx.Client(
            base_url=base_url,
            timeout=self._spec.timeout_seconds,
            headers={"Accept": "application/json", "User-Agent": "loupe-datasets"},
            follow_redirects=False,
            # A proxy of the environment is used for https alone, where it sees no token.
            trust_env=base_url.startswith("https://"),
        )

    def _parameters_of(self, query: str, size: int, page: int) -> dict[str, str]:
        return {
            "q": _cut(query),
            "license": ",".join(sorted(set(self._spec.licences))),
            "mature": str(self._spec.include_mature).lower(),
            "page_size": str(size),
            "page": str(page),
        }

    def _ask(
        self, client: httpx.Client, parameters: dict[str, str], first: int, size: int
    ) -> Attempt:
        started = time.monotonic()
        try:
            header = self._tokens.header(client)
            response = client.get("v1/images/", params=parameters, headers=header)
        except TokenRefusedError as error:
            reason = "server_error" if error.is_passing else "misconfigured"
            return self._failed(
                reason, str(error), error.raw, counted=False, retry=error.is_passing
            )
        except httpx.TimeoutException as error:
            is_sent = not isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            return self._failed("timeout", "did not answer in time", counted=is_sent)
        except httpx.ConnectError as error:
            return self._failed("unreachable", f"cannot be reached: {error}", counted=False)
        except httpx.HTTPError as error:
            return self._failed("unreachable", f"broke off: {error}")
        if response.status_code != httpx.codes.OK:
            return self._refused(response)
        return self._read(response, first, size, time.monotonic() - started)

    def _read(self, response: httpx.Response, first: int, size: int, seconds: float) -> Attempt:
        raw = self._without_secrets(response.text)
        received = Received(raw, response.headers.get("content-type", ""), seconds)
        return attempt_of(
            received, self._spec.base_url, READER, lambda text: read_results(text, first, size)
        )

    def _refused(self, response: httpx.Response) -> Attempt:
        """What a status other than 200 means; who is throttled or turned away is not counted."""
        status, raw = response.status_code, response.text
        what = f"answered with status {status}"
        if status == httpx.codes.TOO_MANY_REQUESTS:
            return self._throttled(response, what)
        if status == httpx.codes.UNAUTHORIZED and self._tokens.forget():
            return self._failed("misconfigured", what, raw, counted=False, retry=True)
        if status in (401, 403, 404) or status < 400:
            return self._failed("misconfigured", what, raw, counted=False, retry=False)
        if status >= 500 or status == httpx.codes.REQUEST_TIMEOUT:
            return self._failed("server_error", what, raw)
        return self._failed("refused_query", what, raw, retry=False, retriable=False)

    def _throttled(self, response: httpx.Response, what: str) -> Attempt:
        wait = wait_of(response)
        is_long = wait is not None and wait > self._spec.longest_wait_seconds
        if is_day_over(response) or is_long:
            when = "" if wait is None else f"; it wants to be asked again in {wait:.0f} seconds"
            return self._failed(
                "quota_exhausted", what + when, response.text, counted=False, retry=False
            )
        return self._failed("rate_limited", what, response.text, counted=False, wait_seconds=wait)

    def _failed(
        self,
        reason: str,
        what: str,
        raw: str = "",
        *,
        counted: bool = True,
        retry: bool = True,
        retriable: bool = True,
        wait_seconds: float | None = None,
    ) -> Attempt:
        failure = SearchFailure(
            reason=reason,
            detail=self._without_secrets(f"{self._spec.base_url} {what}"),
            retriable=retriable,
            raw=self._without_secrets(raw)[:RAW_CHARACTERS],
        )
        return Attempt(failure, counted, retry, wait_seconds)

    def _without_secrets(self, text: str) -> str:
        for secret in self._tokens.secrets:
            text = without_key(text, secret)
        return text


def _cut(query: str) -> str:
    """The words of the query that the service reads."""
    if len(query) <= _QUERY_CHARACTERS:
        return query
    start, _, _ = query[: _QUERY_CHARACTERS + 1].rpartition(" ")
    return start or query[:_QUERY_CHARACTERS]
