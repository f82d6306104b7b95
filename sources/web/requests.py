"""Send requests to permitted addresses at a rate that hosts allow.

A name is resolved once per connection. Its addresses are checked and connected to directly, so a
name that resolves differently a moment later (DNS rebinding) has no effect. TLS is verified for the
name. Each address is checked again when its socket is opened.
"""

import asyncio
import socket
import ssl
import time
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDictProxy
from protego import Protego
from yarl import URL

from loupe.models.retrying import wait_of
from loupe.schemas.image_search import TRANSIENT_STATUSES, DownloadSettings
from loupe.sources.web.addresses import AddressRule, DownloadRefusedError, check_address

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
        retry=status in TRANSIENT_STATUSES,
        retry_after_seconds=wait_of(response.headers.get("Retry-After")) or 0,
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


class _Host:
    def __init__(self, settings: DownloadSettings) -> None:
        self.interval = 1 / settings.requests_per_second
        self.free_at = 0.0  # in monotonic time
        self.connections = asyncio.Semaphore(settings.connections_per_host)
        self.line = asyncio.Lock()  # in order of arrival


class Hosts:
    """Schedules requests to hosts in one event loop.

    Waiting for a slow host does not occupy one of the `in_flight` slots.
    """

    def __init__(self, settings: DownloadSettings) -> None:
        self._settings = settings
        self._hosts: defaultdict[str, _Host] = defaultdict(lambda: _Host(settings))
        self._places = asyncio.Semaphore(settings.in_flight)

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for a turn to make one request to a host; its rate counts from start to start.

        Raises:
            DownloadRefusedError: the host asks for a longer pause than is permitted.
        """
        host = self._hosts[name]
        async with host.connections:
            async with host.line:
                await self._rest(host)
                await self._places.acquire()
                host.free_at = time.monotonic() + host.interval
            try:
                yield
            finally:
                self._places.release()

    def slow_down(self, name: str, interval_seconds: float) -> None:
        """Set the seconds between requests, if slower than before."""
        host = self._hosts[name]
        host.interval = max(host.interval, interval_seconds)
        host.free_at = max(host.free_at, time.monotonic() + host.interval)

    def leave_alone(self, name: str, seconds: float) -> None:
        """Pause requests to the host for some seconds."""
        host = self._hosts[name]
        host.free_at = max(host.free_at, time.monotonic() + seconds)

    async def _rest(self, host: _Host) -> None:
        while (pause := host.free_at - time.monotonic()) > 0:
            longest = self._settings.longest_wait_seconds
            if pause > max(longest, 1 / self._settings.requests_per_second):
                what = f"asks for a pause of {pause:,.0f} seconds, wanted at most {longest:g}"
                raise DownloadRefusedError("asked_to_wait", what, retry_after_seconds=pause)
            await asyncio.sleep(pause)


_REMEMBERED_HOSTS: Final = 10_000
MAX_BYTES: Final = 500 * 1024  # RFC 9309, section 2.5, permits ignoring the rest
_TOO_MUCH_WORK: Final = 500_000
_FAILURE_SECONDS: Final = 300
_TAGS: Final = frozenset({"noai", "noimageai", "noindex", "noimageindex", "none"})


_Rules = Protego | DownloadRefusedError | None
"""The rules of an origin: parsed, or an error for all of it; None allows all."""


class Robots:
    """Checks addresses against robots.txt, in one event loop.

    Args:
        settings: the name of this client in robots.txt, and how long rules are cached.
        ask: fetches a robots.txt, with redirects and retries.
        slow_down: receives the host and the requested seconds between requests.
    """

    def __init__(
        self,
        settings: DownloadSettings,
        ask: Callable[[str], Awaitable[Answer]],
        slow_down: Callable[[str, float], None],
    ) -> None:
        self._settings = settings
        self._ask = ask
        self._slow_down = slow_down
        self._cached: OrderedDict[str, tuple[float, asyncio.Task[_Rules]]] = OrderedDict()

    async def check(self, url: URL) -> None:
        """Raise unless the address may be fetched.

        Raises:
            DownloadRefusedError: it is disallowed, or the rules are unavailable.
        """
        rules = await self._rules(url)
        if isinstance(rules, DownloadRefusedError):
            raise DownloadRefusedError(rules.reason, rules.what, **rules.facts)
        if rules and not rules.can_fetch(str(url), self._settings.user_agent):
            raise DownloadRefusedError("forbidden_by_robots", "is forbidden by its robots.txt")

    async def _rules(self, url: URL) -> _Rules:
        origin = str(url.origin())
        expires, loading = self._cached.get(origin, (0.0, None))
        if loading is None or expires < time.monotonic():
            loading = asyncio.create_task(self._load(origin))
            self._cached[origin] = (time.monotonic() + self._settings.robots_cache_seconds, loading)
            while len(self._cached) > _REMEMBERED_HOSTS:
                self._cached.popitem(last=False)
        rules = await asyncio.shield(loading)  # other waiters share it
        if isinstance(rules, DownloadRefusedError):
            soon = time.monotonic() + _FAILURE_SECONDS
            expires = min(self._cached.get(origin, (soon, loading))[0], soon)
            self._cached[origin] = (expires, loading)
        return rules

    async def _load(self, origin: str) -> _Rules:
        try:
            answer = await self._ask(f"{origin}/robots.txt")
        except DownloadRefusedError as refusal:
            return _without_rules(refusal)
        text = answer.body.decode("utf-8-sig", errors="replace")
        if _work(text) > _TOO_MUCH_WORK:
            what = "has a robots.txt that is too large to be read, so downloads are forbidden"
            return DownloadRefusedError("forbidden_by_robots", what)
        parsed = await asyncio.to_thread(Protego.parse, text)
        delay = parsed.crawl_delay(self._settings.user_agent)
        if delay:
            self._slow_down(str(URL(origin).raw_host), delay)
        return parsed


def _without_rules(refusal: DownloadRefusedError) -> _Rules:
    """Handle a missing robots.txt: absence allows all, failure forbids all (RFC 9309, 2.3.1)."""
    status = refusal.facts.get("status")
    if refusal.reason == "too_many_redirects":
        return None
    if status is None:
        what = f"did not return its robots.txt: it {refusal.what}"
        return DownloadRefusedError(refusal.reason, what, **refusal.facts)
    if 400 <= status < 500 and not refusal.retry:
        return None
    what = f"answers with status {status} for its robots.txt, so downloads are forbidden"
    return DownloadRefusedError("forbidden_by_robots", what, status=status)


def _work(text: str) -> int:
    """Return how many rules a parser stores: each rule once for each agent of its group."""
    agents = rules = kept = 0
    for line in text.splitlines():
        if line.lstrip()[:4].lower() == "user":
            agents, rules = (1, 0) if rules else (agents + 1, 0)
        elif line.strip():
            rules += 1
            kept += agents
    return kept


def check_tags(headers: Iterable[str], user_agent: str) -> None:
    """Raise if an `X-Robots-Tag` header of an image forbids collecting it.

    Raises:
        DownloadRefusedError: a header forbids it for all clients or for this one.
    """
    name = user_agent.partition("/")[0].lower()
    for header in headers:
        tags = [tag.strip() for tag in header.lower().split(",")]
        agent, colon, first = tags[0].partition(":")
        if colon and agent.strip() != "unavailable_after":
            if agent.strip() not in (name, "*"):
                continue  # for another client
            tags[0] = first.strip()
        if found := sorted(_TAGS.intersection(tags)):
            what = f"is sent with X-Robots-Tag {found[0]}, which forbids collecting it"
            raise DownloadRefusedError("forbidden_by_robots", what)
