"""Addresses of the web as text: what may be asked for, and what may be shown to people."""

import re
import socket
from collections.abc import Collection
from ipaddress import IPv4Address
from typing import Final

from yarl import URL

from sources.records import storable
from sources.web.addresses import AddressRule, IPAddress, parsed
from sources.web.refusal import DownloadRefusedError

_LONGEST_URL: Final = 8000
_SHOWN_CHARACTERS: Final = 200
_LONGEST_HOST: Final = 254
_HOST_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")


def shown(url: URL | str) -> str:
    """The address for messages: without credentials, query and fragment, and not too long.

    A query may hold a signature or a key; its question mark shows that there is one.
    """
    try:
        url = url if isinstance(url, URL) else URL(url)
        bare = url.with_user(None) if url.raw_host else url
        text = str(bare.with_query(None).with_fragment(None))
    except (ValueError, TypeError):
        return "an address that cannot be read"
    if url.scheme not in ("http", "https"):  # a `data:` or `javascript:` is all content
        text = f"{url.scheme[:20]}:…" if url.scheme else "an address without a scheme"
    elif url.raw_query_string:
        text += "?…"
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}…"
    return storable(text)


def checked(text: str, ports: Collection[int], allow: AddressRule) -> URL:
    """The address, if it may be asked for as far as its text tells.

    Where its host is a name, what that leads to is checked when it is known (`connecting`).

    Raises:
        DownloadRefusedError: the address may not be asked for.
    """
    text = text.strip()
    if any(character < " " or character == "\x7f" for character in text):
        raise DownloadRefusedError("invalid_url", "holds control characters")
    if len(text) > _LONGEST_URL:
        what = f"has {len(text):,} characters, wanted at most {_LONGEST_URL:,}"
        raise DownloadRefusedError("invalid_url", what)
    try:
        url = URL(text)
        port = url.port
    except (ValueError, TypeError):
        raise DownloadRefusedError("invalid_url", "is no address of the web") from None
    if url.scheme not in ("http", "https"):
        what = "is neither http nor https, wanted one of these"
        raise DownloadRefusedError("scheme_not_allowed", what)
    if not url.raw_host:
        raise DownloadRefusedError("invalid_url", "names no host")
    if url.raw_user is not None or url.raw_password is not None:
        what = "holds a user name or a password, wanted an address that anybody may ask for"
        raise DownloadRefusedError("credentials_in_url", what)
    if port not in ports:
        wanted = ", ".join(map(str, sorted(ports)))
        what = f"asks for port {port}, wanted one of {wanted}"
        raise DownloadRefusedError("port_not_allowed", what, port=port)
    _check_host(url.raw_host, allow)
    return url.with_fragment(None)


def _check_host(host: str, allow: AddressRule) -> None:
    literal = parsed(host.rstrip("."))
    if literal is not None:
        check_address(literal, allow)
        if getattr(literal, "scope_id", None) is not None or host.endswith("."):
            raise DownloadRefusedError("invalid_url", "has an address as its host, oddly written")
    elif _looks_like_a_number(host):
        if (meant := _meant(host)) is not None:
            check_address(meant, allow)
        what = "has a number as its host, wanted a name or an address in its usual form"
        raise DownloadRefusedError("invalid_url", what)
    elif not _HOST_NAME.fullmatch(host) or len(host) > _LONGEST_HOST:
        raise DownloadRefusedError("invalid_url", "has a host that is no name of the internet")


def check_address(address: IPAddress, allow: AddressRule) -> None:
    """Nothing, if `address` may be connected to.

    Raises:
        DownloadRefusedError: it may not.
    """
    if not allow(address):
        what = f"leads to {address}, which is not an address of the public internet"
        raise DownloadRefusedError("private_address", what)


def _looks_like_a_number(host: str) -> bool:
    """Whether browsers and C libraries read the host as IPv4: its last label is a number."""
    last = host.rstrip(".").rpartition(".")[2].lower()
    hexadecimal = last.startswith("0x") and all(c in "0123456789abcdef" for c in last[2:])
    return last.isdecimal() or hexadecimal


def _meant(host: str) -> IPv4Address | None:
    """What the C library takes decimal, octal, hexadecimal and shortened forms for."""
    try:
        return IPv4Address(socket.inet_aton(host.rstrip(".")))
    except (OSError, ValueError):
        return None
