"""Send one request to permitted addresses, with an error in one sentence for each failure.

A name is resolved once per connection. Its addresses are checked and connected to directly, so a
name that resolves differently a moment later (DNS rebinding) has no effect. TLS is verified for the
name. Each address is checked again when its socket is opened.
"""

import asyncio
import math
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy
from yarl import URL

from schemas.download import DownloadSettings
from sources.web.addresses import AddressRule, DownloadRefusedError, check_address

_ACCEPT: Final = "image/jpeg, image/png, image/webp, image/bmp, image/*;q=0.5"


NameLookup = Callable[[str, int], Awaitable[Iterable[str]]]
"""Returns the IP addresses of a host and a port; raises OSError if there are none."""


class ForbiddenAddressError(OSError):
    """A socket was about to be opened to a forbidden address."""


async def system_lookup(host: str, port: int) -> Iterable[str]:
    """Resolve a host with the system's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def open_session(
    settings: DownloadSettings,
    allow: AddressRule,
    lookup: NameLookup,
    trusted: ssl.SSLContext,
) -> aiohttp.ClientSession:
    """Return a session; to be created and closed in a running event loop.

    It uses no proxy and no password from the environment, keeps no cookies, and leaves redirects
    and decompression to its callers.
    """
    connector = aiohttp.TCPConnector(
        resolver=_CheckedResolver(lookup, allow),
        socket_factory=lambda info: _checked_socket(info, allow),
        ssl=trusted,
        limit=settings.in_flight,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "User-Agent": settings.user_agent,
            "Accept": _ACCEPT,
            "Accept-Encoding": "identity",
        },
        timeout=aiohttp.ClientTimeout(total=None, connect=settings.connect_timeout_seconds),
        auto_decompress=False,
        trust_env=False,
    )


class _CheckedResolver(AbstractResolver):
    """Resolves names; one forbidden address forbids the whole name."""

    def __init__(self, lookup: NameLookup, allow: AddressRule) -> None:
        self._lookup = lookup
        self._allow = allow

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - all are looked up
    ) -> list[ResolveResult]:
        try:
            found = list(dict.fromkeys(await self._lookup(host, port)))
        except UnicodeError as fault:  # Python's own encoding of host names
            raise socket.gaierror(socket.EAI_NONAME, "is not a host name") from fault
        addresses = [ip_address(text) for text in found]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "has no address")
        for address in addresses:
            try:
                check_address(address, self._allow)
            except DownloadRefusedError as refusal:  # waiters share the result: each gets a copy
                raise ForbiddenAddressError(refusal.what) from refusal
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing, as there is nothing to close."""


def _checked_socket(info: tuple[Any, ...], allow: AddressRule) -> socket.socket:
    family, kind, protocol, _, endpoint = info
    try:
        check_address(ip_address(endpoint[0]), allow)
    except DownloadRefusedError as refusal:
        raise ForbiddenAddressError(refusal.what) from refusal
    return socket.socket(family=family, type=kind, proto=protocol)


REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_WORLDS_FAULTS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class Answer(NamedTuple):
    """The response of a host: a body, or the target of a redirect."""

    url: URL
    headers: CIMultiDictProxy[str]
    body: bytes
    location: str | None


class Clock:
    """The seconds that remain for the requests of one address, counted only inside `running`."""

    def __init__(self, seconds: float) -> None:
        self._wanted = seconds
        self._left = seconds

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raise `timed_out` if no time remains."""
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
    """Return the answer to one GET request; redirects are returned, not followed.

    Raises:
        DownloadRefusedError: there is no response, or none with a usable body.
        TimeoutError: the connection takes too long.
    """
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status in REDIRECTS:
                location = response.headers.get("Location", "").strip()
                if not location:
                    raise DownloadRefusedError("bad_answer", "redirects without a location")
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
    """Convert an error of a library without its message, which may contain the address's query."""
    if isinstance(fault, aiohttp.ClientSSLError):
        why = getattr(getattr(fault, "certificate_error", None), "verify_message", "")
        what = f"has no trusted TLS certificate{f': {why}' if why else ''}"
        return DownloadRefusedError("tls_failed", what)
    if isinstance(fault, aiohttp.ClientConnectorError):
        if isinstance(fault.os_error, ForbiddenAddressError):
            return DownloadRefusedError("private_address", str(fault.os_error))
        if isinstance(fault, aiohttp.ClientConnectorDNSError):
            later = getattr(fault.os_error, "errno", None) == socket.EAI_AGAIN
            what = "has a host that is not found"
            return DownloadRefusedError("unreachable", what, retry=later)
        return DownloadRefusedError("unreachable", "accepts no connection", retry=True)
    if isinstance(fault, aiohttp.InvalidURL):
        return DownloadRefusedError("invalid_url", "is not a valid web address")
    if isinstance(fault, aiohttp.ClientResponseError):
        return DownloadRefusedError("bad_answer", "does not respond with valid HTTP")
    return DownloadRefusedError("interrupted", "closed the connection", retry=True)


# Bodies of responses, read in parts up to a limit.

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_COMPRESSED: Final = frozenset({"gzip", "x-gzip", "deflate"})


async def read_body(response: aiohttp.ClientResponse, max_bytes: int, *, cut: bool) -> bytes:
    """Return the decompressed body; the limit applies before and after decompression.

    A longer body is truncated if `cut` is set.

    Raises:
        DownloadRefusedError: it is too long, or its compression is not supported.
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
            what = f"is not valid in its content encoding ({coding})"
            raise DownloadRefusedError("bad_answer", what) from None
        if max(sent, len(body)) > max_bytes:
            if cut:
                return bytes(body[:max_bytes])
            raise _too_large("sends more bytes", max_bytes)
    if inflate is not None and sent and not inflate.eof:
        raise DownloadRefusedError("interrupted", "ends inside its compressed body")
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


# The pause that a host asks for.


def retry_after_seconds(header: str | None) -> float:
    """Return the seconds of a `Retry-After` header (a number or a date); 0 if invalid."""
    if header is None:
        return 0
    try:
        seconds = float(header)
    except ValueError:
        try:
            until = parsedate_to_datetime(header)
        except (ValueError, OverflowError):  # the second of the minute for a year with many digits
            return 0
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else 0
