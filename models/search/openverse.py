"""Image search by Openverse, the index of openly licensed images."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
from pydantic import BaseModel, Field, ValidationError

from loupe.models.retrying import wait_of
from loupe.models.search.web import Attempt, Sleep, WebSearch, size_of, text_of
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.image_search import OpenverseSearch, SearchHit
from loupe.schemas.licences import licence_name

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
_RENEWED_BEFORE_SECONDS = 60.0
_QUERY_CHARACTERS = 200  # longer queries are cut off by the service, within a word


class _TokenRefusedError(Exception):
    """The server issued no token; the message is the server's."""

    def __init__(self, what: str, raw: str, *, is_passing: bool) -> None:
        super().__init__(what)
        self.raw = raw
        self.is_passing = is_passing


class _Token(BaseModel):
    access_token: str = Field(min_length=1)
    expires_in: float = Field(gt=0)


class OpenverseImageSearch(WebSearch[OpenverseSearch]):
    """Client of Openverse's API, version 1: anonymous, with a token, or as an application.

    A request returns at most 20 hits, or 50 for a registered application. Only the first 200
    characters of a query count, and it is cut at a word. The licence of a hit is what Openverse
    states, which it takes from the site of the image. An application's token is requested once, and
    renewed before it expires.

    Raises:
        ConfigurationError: an environment variable is not set, or only one of id and secret is
            given.
    """

    def __init__(
        self,
        spec: OpenverseSearch,
        sleep: Sleep = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(spec, sleep)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._token = ""
        self._ends = float("inf")
        self._application: dict[str, str] | None = None
        if bool(spec.client_id_variable) != bool(spec.client_secret_variable):
            raise ConfigurationError(
                "openverse wants client_id_variable and client_secret_variable, or neither; got one"
            )
        if spec.token_variable:
            self._token = self._read_key(spec.token_variable, "token")
            self._secrets.append(self._token)
        elif spec.client_id_variable and spec.client_secret_variable:
            secret = self._read_key(spec.client_secret_variable, "client secret")
            self._secrets.append(secret)
            self._application = {
                "grant_type": "client_credentials",
                "client_id": self._read_key(spec.client_id_variable, "client id"),
                "client_secret": secret,
            }

    @property
    def _most_hits(self) -> int:
        return 50 if self._spec.is_registered else 20

    def _ask(self, client: httpx.Client, query: str, size: int) -> Attempt:
        try:
            return super()._ask(client, query, size)
        except _TokenRefusedError as error:
            reason = "server_error" if error.is_passing else "misconfigured"
            return self._failed(
                reason, str(error), error.raw, counted=False, retry=error.is_passing
            )

    def _send(self, client: httpx.Client, query: str, size: int) -> httpx.Response:
        parameters = {
            "q": _cut(query),
            "license": ",".join(sorted(set(self._spec.licences))),
            "mature": str(self._spec.include_mature).lower(),
            "page_size": str(size),
            "page": "1",
        }
        with self._lock:
            if self._application and (not self._token or self._monotonic() >= self._ends):
                self._renew_token(client, self._application)
            header = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return client.get("v1/images/", params=parameters, headers=header)

    def _renew_token(self, client: httpx.Client, application: dict[str, str]) -> None:
        """Request a token.

        Raises:
            _TokenRefusedError: the server issues none.
            httpx.HTTPError: the request fails.
        """
        response = client.post("v1/auth_tokens/token/", data=application)
        if response.status_code != httpx.codes.OK:
            what = f"issued no token, status {response.status_code}"
            is_passing = response.status_code >= 500 or response.status_code == 429
            raise _TokenRefusedError(what, response.text, is_passing=is_passing)
        try:
            token = _Token.model_validate_json(response.content)
        except ValidationError as fault:
            raise _TokenRefusedError("responds without a token", "", is_passing=True) from fault
        self._secrets.append(token.access_token)
        self._token = token.access_token
        self._ends = self._monotonic() + max(0.0, token.expires_in - _RENEWED_BEFORE_SECONDS)

    def _refused(self, response: httpx.Response) -> Attempt:
        """Classify an error; throttled and refused requests are not counted."""
        status = response.status_code
        raw = response.text
        what = f"answered with status {status}"
        if status == httpx.codes.TOO_MANY_REQUESTS:
            return self._throttled(response, what)
        if status == httpx.codes.UNAUTHORIZED and self._application:
            with self._lock:
                self._token = ""  # the next request renews it
            return self._failed("misconfigured", what, raw, counted=False)
        if status in (401, 403, 404) or status < 400:
            return self._failed("misconfigured", what, raw, counted=False, retry=False)
        if status >= 500 or status == httpx.codes.REQUEST_TIMEOUT:
            return self._failed("server_error", what, raw)
        return self._failed("refused_query", what, raw, retry=False, retriable=False)

    def _throttled(self, response: httpx.Response, what: str) -> Attempt:
        wait = wait_of(response.headers.get("retry-after"))
        raw = response.text
        if wait is None and (found := _AVAILABLE_IN.search(raw)):
            wait = float(found[1])
        is_long = wait is not None and wait > self._spec.longest_wait_seconds
        if _is_day_over(response) or is_long:
            when = "" if wait is None else f"; it asks to wait for {wait:.0f} seconds"
            return self._failed("quota_exhausted", what + when, raw, counted=False, retry=False)
        return self._failed("rate_limited", what, raw, counted=False, wait_seconds=wait)

    def _listed(self, answer: Any) -> Any:
        return answer.get("results") if isinstance(answer, dict) else None

    def _hit(self, rank: int, result: dict[str, Any]) -> SearchHit | None:
        if (url := text_of(result.get("url"))) is None:
            return None
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
            flags=() if self._spec.include_mature else _flags(result),
        )


def _flags(result: dict[str, Any]) -> tuple[str, ...]:
    """Return what Openverse says of a result's content: `mature`, and its words for why."""
    stated = result.get("unstable__sensitivity")
    words = [text_of(one) for one in stated] if isinstance(stated, list) else []
    is_mature = result.get("mature") is True
    return (*(["mature"] if is_mature else []), *sorted(one for one in words if one))


def _licence(result: dict[str, Any]) -> str | None:
    """Return the licence's name, or None if a stated field of it cannot be read."""
    version = result.get("license_version")
    if isinstance(version, int | float) and not isinstance(version, bool):
        result = {**result, "license_version": str(version)}
    terms = {
        name: text_of(result.get(name)) for name in ("license", "license_version", "license_url")
    }
    if any(value is None and result.get(name) not in (None, "") for name, value in terms.items()):
        return None
    stated = f"{terms['license']} {terms['license_version'] or ''}".strip()
    return licence_name(stated if terms["license"] else None, terms["license_url"])


def _is_day_over(response: httpx.Response) -> bool:
    """Return whether a daily limit is used up."""
    for header, value in response.headers.items():
        name = header.casefold()
        is_left = name.startswith("x-ratelimit-available-") and "sustained" in name
        if is_left and value.strip().lstrip("-").isdigit() and int(value) <= 0:
            return True
    return False


def _cut(query: str) -> str:
    """Return the words of the query that the service reads."""
    if len(query) <= _QUERY_CHARACTERS:
        return query
    start, _, _ = query[: _QUERY_CHARACTERS + 1].rpartition(" ")
    return start or query[:_QUERY_CHARACTERS]
