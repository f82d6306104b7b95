"""Code shared by searches of web services: keys, requests, retries and parsing of answers."""

import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import httpx

from loupe.models.adapter import Adapter, always, secret_in
from loupe.models.image_search import plain_query
from loupe.models.retrying import backoff
from loupe.models.tls import trusted_authorities
from loupe.schemas.image_search import (
    GoogleSearch,
    OpenverseSearch,
    SearchAnswer,
    SearchFailure,
    SearchHit,
    SearchOutcome,
    UnreadableResult,
)
from loupe.schemas.wording import shortened

_RAW_CHARACTERS = 10_000  # of a failed response, kept for diagnosis
_LONGEST_PAUSE_SECONDS = 30.0
_MOST_PIXELS = 10**9  # the largest valid side
_SHOWN_CHARACTERS = 200
_UNREADABLE_ANSWER: Final = "unreadable_answer"
"""The reason of a failure with JSON but no results, which a retry does not change."""
_log = logging.getLogger(__name__)

SearchT = TypeVar("SearchT", bound=GoogleSearch | OpenverseSearch)
Sleep = Callable[[float], None]


class Attempt(NamedTuple):
    """The outcome of one request.

    `counted` is whether the service's quota counts it, `retry` whether to retry it, and
    `wait_seconds` the pause before, if the service stated one.
    """

    outcome: SearchOutcome
    counted: bool = True
    retry: bool = False
    wait_seconds: float | None = None


class WebSearch(Adapter[SearchT], ABC):
    """An image search by a web service: see `ImageSearch`.

    An adapter defines how requests are sent, and how errors and results are parsed.
    """

    def __init__(self, spec: SearchT, sleep: Sleep = time.sleep) -> None:
        super().__init__(spec)
        self.sleep = sleep
        self._secrets: list[str] = []
        self._base_url = f"{spec.base_url.rstrip('/')}/"
        # A proxy of the environment is only used for https, so that it sees no key.
        self._trust_env = self._base_url.startswith("https://")

    def search(
        self, query: str, count: int, may_retry: Callable[[], bool] = always
    ) -> SearchOutcome:
        """Return the hits of one request, and the number of all requests that were counted.

        `may_retry` is called after each pause, because a run may have been stopped meanwhile.
        """
        words = plain_query(query)
        if isinstance(words, SearchFailure):
            return words
        size = min(count, self._most_hits)
        counted = 0
        with httpx.Client(
            base_url=self._base_url,
            verify=trusted_authorities(),
            timeout=self._spec.timeout_seconds,
            headers={"Accept": "application/json", "User-Agent": "loupe-datasets"},
            follow_redirects=False,
            trust_env=self._trust_env,
        ) as client:
            for retries in range(self._spec.max_retries + 1):
                made = self._ask(client, words, size)
                counted += made.counted
                if not made.retry or retries == self._spec.max_retries:
                    break
                pause = made.wait_seconds
                if pause is None:
                    pause = backoff(retries, _LONGEST_PAUSE_SECONDS)
                _log.info("asking again in %.1f s: %s", pause, getattr(made.outcome, "detail", ""))
                self.sleep(pause)
                if not may_retry():
                    break
        return made.outcome.model_copy(update={"requests": counted})

    @property
    @abstractmethod
    def _most_hits(self) -> int:
        """The most hits of a request."""

    @abstractmethod
    def _send(self, client: httpx.Client, query: str, size: int) -> httpx.Response:
        """Send one request for the first `size` hits."""

    @abstractmethod
    def _refused(self, response: httpx.Response) -> Attempt:
        """Classify a status other than 200."""

    @abstractmethod
    def _listed(self, answer: Any) -> Any:
        """Return the value in an answer that should be the list of results."""

    @abstractmethod
    def _hit(self, rank: int, result: dict[str, Any]) -> SearchHit | None:
        """Convert a result to a hit; None if it names no image."""

    def _ask(self, client: httpx.Client, query: str, size: int) -> Attempt:
        """Send one request and parse the response.

        A response that is not JSON is a transient error, such as a proxy's page or a truncated
        answer, and so is an error with a status of success. Other JSON without results is the
        service's answer, and a retry does not change it.
        """
        started = time.monotonic()
        try:
            response = self._send(client, query, size)
        except httpx.TimeoutException as error:
            is_sent = not isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            return self._failed("timeout", "did not answer in time", counted=is_sent)
        except httpx.ConnectError as error:
            return self._failed("unreachable", f"cannot be reached: {error}", counted=False)
        except httpx.HTTPError as error:
            return self._failed("unreachable", f"broke off: {error}")
        if response.status_code != httpx.codes.OK:
            return self._refused(response)
        raw = self._without_secrets(response.text)
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError) as error:
            what = f"answered with something other than JSON ({error})"
            return self._failed("server_error", what, raw)
        if isinstance(found, dict) and found.get("error"):
            said = shortened(json.dumps(found["error"], ensure_ascii=False), _SHOWN_CHARACTERS)
            return self._failed("server_error", f"answered with an error: {said}", raw)
        try:
            return Attempt(self._read(found, raw, time.monotonic() - started, size))
        except ValueError as error:
            failure = SearchFailure(
                reason=_UNREADABLE_ANSWER,
                detail=f"{self._spec.base_url} answered with no search result: {error}",
                retriable=False,
                raw=raw,
            )
            return Attempt(failure)

    def _read(self, found: Any, raw: str, seconds: float, size: int) -> SearchAnswer:
        """Parse an answer.

        Raises:
            ValueError: it is not an answer to a search.
        """
        results = self._listed(found)
        if not isinstance(results, list):
            raise ValueError("it has no list of results")  # noqa: TRY004
        hits: list[SearchHit] = []
        unreadable: list[UnreadableResult] = []
        for rank, result in enumerate(results[:size], start=1):
            hit = self._hit(rank, result) if isinstance(result, dict) else None
            if hit is not None:
                hits.append(hit)
                continue
            reason = "no_address" if isinstance(result, dict) else "no_object"
            shown = json.dumps(result, ensure_ascii=False)[:_SHOWN_CHARACTERS]
            unreadable.append(UnreadableResult(rank=rank, reason=reason, shown=shown))
        return SearchAnswer(
            hits=tuple(hits),
            raw=raw,
            seconds=seconds,
            unreadable=tuple(unreadable),
        )

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
            raw=self._without_secrets(raw)[:_RAW_CHARACTERS],
        )
        return Attempt(failure, counted, retry, wait_seconds)

    def _read_key(self, variable: str, what: str) -> str:
        return secret_in(variable, f"{self.ref.name} takes its {what}")

    def _without_secrets(self, text: str) -> str:
        """Return `text` with secrets masked, in case a server repeats one."""
        for secret in self._secrets:
            for spelling in {secret, quote(secret, safe="")}:
                text = text.replace(spelling, "***")
        return text


def text_of(value: Any) -> str | None:
    """Return a text that is not blank; None for anything else."""
    return value if isinstance(value, str) and value.strip() else None


def size_of(value: Any) -> int | None:
    """Return a number of pixels; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value <= _MOST_PIXELS and value == int(value) else None
