"""One request, and what can go wrong with it in one sentence each."""

import asyncio
import math
import socket
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, NamedTuple

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from sources.web.connecting import ForbiddenAddressError
from sources.web.refusal import DownloadRefusedError

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


# Bodies of answers, read as they come and never beyond a limit.

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_COMPRESSED: Final = frozenset({"gzip", "x-gzip", "deflate"})


async def read_body(response: aiohttp.ClientResponse, max_bytes: int, *, cut: bool) -> bytes:
    """The body, decompressed. The limit holds for what is sent and for what it inflates to.

    What is longer is cut where `cut` says so.

    Raises:
        DownloadRefusedError: it is longer, or compressed in a way that is not read.
        aiohttp.ClientError: the connection breaks.
    """
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    inflate = _inflater(coding)
    declared = response.content_length
    if declared is not None and declared > max_bytes and not cut:
        raise _too_large(f"announces {declared:,} bytes", max_bytes)
    body, sent = bytearray(), 0
    async for chunk in response.content.iter_any():
        sent += len(chunk)
        try:
            body += chunk if inflate is None else inflate.decompress(chunk, max_bytes + 1)
        except zlib.error:
            what = f"is not compressed as it says ({coding})"
            raise DownloadRefusedError("bad_answer", what) from None
        if max(sent, len(body)) > max_bytes:
            if cut:
                return bytes(body[:max_bytes])
            raise _too_large("sends more bytes", max_bytes)
    if inflate is not None and sent and not inflate.eof:
        raise DownloadRefusedError("interrupted", "breaks off inside its compressed body")
    return bytes(body)


def _inflater(coding: str) -> "zlib._Decompress | None":
    if coding in ("", "identity"):
        return None
    if coding in _COMPRESSED:
        return zlib.decompressobj(_GZIP_OR_ZLIB)
    what = f"is sent with the content encoding {coding[:40]!r}, wanted none, gzip or deflate"
    raise DownloadRefusedError("bad_answer", what)


def _too_large(what: str, max_bytes: int) -> DownloadRefusedError:
    return DownloadRefusedError("too_large", f"{what}, wanted at most {max_bytes:,}")


# How long a host asks to be left alone.


def retry_after_seconds(header: str | None) -> float:
    """The seconds of a `Retry-After` header, given as a number or as a date; 0 where it is none."""
    if header is None:
        return 0
    try:
        seconds = float(header)
    except ValueError:
        try:
            until = parsedate_to_datetime(header)
        except (ValueError, OverflowError):  # the second for a year of many digits
            return 0
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0
