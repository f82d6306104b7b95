"""Image search by Openverse, the index of openly licensed images."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
from pydantic import BaseModel, Field, ValidationError

from models.image_search import always
from models.search.asking import (
    RAW_CHARACTERS,
    Attempt,
    Received,
    Results,
    Sleep,
    attempt_of,
    json_of,
    number_text_of,
    plain_query,
    read_again,
    read_key,
    size_of,
    text_of,
    unreadable_result,
    with_retries,
    without_key,
)
from schemas.chat import ModelRef
from schemas.errors import ConfigurationError
from schemas.image_search import (
    OpenverseSearch,
    SearchAnswer,
    SearchFailure,
    SearchHit,
    SearchOutcome,
    UnreadableResult,
)
from schemas.licences import licence_name

# What Openverse says: its answers, and when it may be asked again.

_MEDIA_TYPES: Final = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
}
_AVAILABLE_IN: Final = re.compile(r"available in (\d+) second")


READER: Final = "2"
"""The version of `read_results`: answers that another one read are read again."""


def read_results(text: str, first: int, count: int) -> Results:
    """The results of an answer, of which the first has rank `first`; without an address it is none.

    Raises:
        ValueError: the text is no answer to a search.
    """
    page = json_of(text)
    results = page.get("results") if isinstance(page, dict) else None
    if not isinstance(results, list):
        raise ValueError("it has no list of results")  # noqa: TRY004
    hits: list[SearchHit] = []
    unreadable: list[UnreadableResult] = []
    for rank, result in enumerate(results[:count], start=first):
        if isinstance(result, dict) and (url := text_of(result.get("url"))):
            hits.append(_hit(rank, url, result))
        else:
            unreadable.append(unreadable_result(rank, result))
    return Results(tuple(hits), tuple(unreadable))


def _hit(rank: int, url: str, result: dict[str, Any]) -> SearchHit:
    return SearchHit(
        rank=rank,
        image_url=url,
        page_url=text_of(result.get("foreign_landing_url")),
        title=text_of(result.get("title")) or "",
        licence=_licence(result),
        licence_url=text_of(result.get("license_url")),
        creator=text_of(result.get("creator")),
        width_px=size_of(result.get("width")),
        height_px=size_of(result.get("height")),
        media_type=_MEDIA_TYPES.get((text_of(result.get("filetype")) or "").casefold()),
    )


def _licence(result: dict[str, Any]) -> str | None:
    """Its name; unknown where something is stated of it that cannot be read: a condition, maybe."""
    stated, version = text_of(result.get("license")), number_text_of(result.get("license_version"))
    address = text_of(result.get("license_url"))
    read = {"license": stated, "license_version": version, "license_url": address}
    if any(value is None and result.get(name) not in (None, "") for name, value in read.items()):
        return None
    return licence_name(f"{stated} {version or ''}".strip() if stated else None, address)


def wait_of(response: httpx.Response) -> float | None:
    """For how many seconds a server that refuses wants to be left alone, where it says so."""
    after = response.headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        return float(after)
    found = _AVAILABLE_IN.search(response.text)
    return float(found[1]) if found else None


def is_day_over(response: httpx.Response) -> bool:
    """Whether one of the limits that count a day is used up."""
    left = [
        value
        for name, value in response.headers.items()
        if name.casefold().startswith("x-ratelimit-available-") and "sustained" in name.casefold()
    ]
    return any(value.strip().lstrip("-").isdigit() and int(value) <= 0 for value in left)


# In whose name Openverse is asked: nobody's, that of a token, or of a registered application.

_RENEWED_BEFORE_SECONDS = 60.0


class TokenRefusedError(Exception):
    """No token was given; holds what the server said."""

    def __init__(self, what: str, raw: str, *, is_passing: bool) -> None:
        super().__init__(what)
        self.raw = raw
        self.is_passing = is_passing


class _Token(BaseModel):
    access_token: str = Field(min_length=1)
    expires_in: float = Field(gt=0)


class OpenverseTokens:
    """Gives the header that a request is sent with; a token is asked for once, and before it ends.

    Raises:
        ConfigurationError: an environment variable is not set, or one of id and secret is missing.
    """

    def __init__(
        self, spec: OpenverseSearch, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._token = ""
        self._ends = float("inf")
        self._application: tuple[str, str] | None = None
        self.secrets: list[str] = []
        if bool(spec.client_id_variable) != bool(spec.client_secret_variable):
            raise ConfigurationError(
                "openverse wants client_id_variable and client_secret_variable, or neither; got one"
            )
        if spec.token_variable:
            self._token = read_key(spec.token_variable, "token", spec.ref)
            self.secrets.append(self._token)
        elif spec.client_id_variable and spec.client_secret_variable:
            secret = read_key(spec.client_secret_variable, "client secret", spec.ref)
            self._application = read_key(spec.client_id_variable, "client id", spec.ref), secret
            self.secrets.append(secret)

    def header(self, client: httpx.Client) -> dict[str, str]:
        """`Authorization`, or nothing.

        Raises:
            TokenRefusedError: the server gives no token.
            httpx.HTTPError: it cannot be asked.
        """
        if self._application is None:
            return {"Authorization": f"Bearer {self._token}"} if self._token else {}
        with self._lock:
            if not self._token or self._monotonic() >= self._ends:
                self._renew(client, *self._application)
            return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> bool:
        """Lets the next request ask for another token; False where there can be no other."""
        if self._application is None:
            return False
        with self._lock:
            self._token = ""
        return True

    def _renew(self, client: httpx.Client, client_id: str, secret: str) -> None:
        form = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "client_secret": secret,
        }
        response = client.post("v1/auth_tokens/token/", data=form)
        if response.status_code != httpx.codes.OK:
            what = f"gives no token, status {response.status_code}"
            is_passing = response.status_code >= 500 or response.status_code == 429
            raise TokenRefusedError(what, response.text, is_passing=is_passing)
        try:
            token = _Token.model_validate_json(response.content)
        except ValidationError as fault:
            raise TokenRefusedError("answers with no token", "", is_passing=True) from fault
        self.secrets.append(token.access_token)
        self._token = token.access_token
        self._ends = self._monotonic() + max(0.0, token.expires_in - _RENEWED_BEFORE_SECONDS)


# Image search by Openverse, the index of openly licensed images.

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
