"""One request, and what can go wrong with it in one sentence each."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, NamedTuple

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from sources.web.bodies import read_body
from sources.web.connecting import ForbiddenAddressError
from sources.web.refusal import DownloadRefusedError
from sources.web.waits import retry_after_seconds

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_WORLDS_FAULTS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class Answer(NamedTuple):
    """What a host answers: a body, or the place that it redirects to."""

    url: URL
    headers: CIMultiDictProxy[str]
    body: bytes
    location: str | None


class Clock:
    """Seconds that remain for the requests of one address; it runs inside `running` only."""

    def __init__(self, seconds: float) -> None:
        self._wanted = seconds
        self._left = seconds

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises `timed_out` when nothing remains."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, self._left)):
                yield
        except TimeoutError as fault:
            if isinstance(fault, aiohttp.ServerTimeoutError):
                what = "does not accept a connection in time"
                raise DownloadRefusedError("timed_out", what, retry=True) from None
            what = f"takes longer than {self._wanted:g} seconds"
            raise DownloadRefusedError("timed_out", what) from None
        finally:
            self._left -= time.monotonic() - started


async def ask(
    session: aiohttp.ClientSession, url: URL, max_bytes: int, *, cut: bool = False
) -> Answer:
    """The answer to one GET request; redirects are reported, not followed.

    Raises:
        DownloadRefusedError: there is no answer, or none with a body that may be kept.
        TimeoutError: the connection takes too long.
    """
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status in REDIRECTS:
                location = response.headers.get("Location", "").strip()
                if not location:
                    raise DownloadRefusedError("bad_answer", "redirects without saying where to")
                return Answer(url, response.headers, b"", location)
            if response.status != HTTPStatus.OK:
                raise _wrong_status(response)
            body = await read_body(response, max_bytes, cut=cut)
            return Answer(url, response.headers, body, None)
    except aiohttp.ClientError as fault:
        if isinstance(fault, TimeoutError):
            raise
        raise _refusal_of(fault) from None


def _wrong_status(response: aiohttp.ClientResponse) -> DownloadRefusedError:
    status = response.status
    try:
        phrase = f" ({HTTPStatus(status).phrase})"
    except ValueError:
        phrase = ""
    return DownloadRefusedError(
        "http_status",
        f"answers with status {status}{phrase}, wanted 200",
        retry=status in _WORLDS_FAULTS,
        retry_after_seconds=retry_after_seconds(response.headers.get("Retry-After")),
        status=status,
    )


def _refusal_of(fault: aiohttp.ClientError) -> DownloadRefusedError:
    """What libraries say is not repeated: it may hold the address with its query."""
    if isinstance(fault, aiohttp.ClientSSLError):
        why = getattr(getattr(fault, "certificate_error", None), "verify_message", "")
        what = f"has no TLS that can be trusted{f': {why}' if why else ''}"
        return DownloadRefusedError("tls_failed", what)
    if isinstance(fault, aiohttp.ClientConnectorError):
        if isinstance(fault.os_error, ForbiddenAddressError):
            return DownloadRefusedError("private_address", str(fault.os_error))
        if isinstance(fault, aiohttp.ClientConnectorDNSError):
            later = getattr(fault.os_error, "errno", None) == socket.EAI_AGAIN
            what = "names a host that is not found"
            return DownloadRefusedError("unreachable", what, retry=later)
        return DownloadRefusedError("unreachable", "accepts no connection", retry=True)
    if isinstance(fault, aiohttp.InvalidURL):
        return DownloadRefusedError("invalid_url", "is no address of the web")
    if isinstance(fault, aiohttp.ClientResponseError):
        return DownloadRefusedError("bad_answer", "does not answer as HTTP demands")
    return DownloadRefusedError("interrupted", "breaks the connection off", retry=True)
