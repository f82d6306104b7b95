"""Connections that end nowhere but at addresses which a rule allows.

A name is looked up once for a connection; what it leads to is checked and connected to as it is, so
that a name which leads elsewhere a moment later (DNS rebinding) gains nothing. TLS is verified for
the name. What is about to be connected to is checked again where sockets are made.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final, Protocol

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from schemas.download import DownloadSettings
from sources.web.addresses import AddressRule
from sources.web.refusal import DownloadRefusedError
from sources.web.urls import check_address

_ACCEPT: Final = "image/jpeg, image/png, image/webp, image/bmp, image/*;q=0.5"


class NameLookup(Protocol):
    """Says where a name leads to."""

    async def __call__(self, host: str, port: int) -> Iterable[str]:
        """The IP addresses of `host`. Raises OSError where there are none."""
        ...


class ForbiddenAddressError(OSError):
    """A socket was about to be opened to an address that is not allowed."""


async def system_lookup(host: str, port: int) -> Iterable[str]:
    """What the system's resolver says."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def open_session(
    settings: DownloadSettings,
    allow: AddressRule,
    lookup: NameLookup,
    trusted: ssl.SSLContext,
) -> aiohttp.ClientSession:
    """A session for requests; to be made and closed in a running event loop.

    It takes no proxy and no password from the environment, keeps no cookies, and leaves redirects
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
    """Looks a name up; one forbidden address among its addresses forbids it as a whole."""

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
            raise socket.gaierror(socket.EAI_NONAME, "is no host name") from fault
        addresses = [ip_address(text) for text in found]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "has no address")
        for address in addresses:
            try:
                check_address(address, self._allow)
            except DownloadRefusedError as refusal:  # waiters share it: each gets one of its own
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
        """Nothing: nothing is open."""


def _checked_socket(info: tuple[Any, ...], allow: AddressRule) -> socket.socket:
    family, kind, protocol, _, endpoint = info
    try:
        check_address(ip_address(endpoint[0]), allow)
    except DownloadRefusedError as refusal:
        raise ForbiddenAddressError(refusal.what) from refusal
    return socket.socket(family=family, type=kind, proto=protocol)
