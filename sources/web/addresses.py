"""Check addresses on the web, and describe why a download failed."""

import re
import socket
from collections.abc import Callable, Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

from yarl import URL

from loupe.schemas.records import Rejection
from loupe.schemas.wording import storable

STAGE = "download_image"


class DownloadRefusedError(Exception):
    """An address breaks a rule or does not respond; becomes the `Rejection` of that address.

    Args:
        reason: a stable snake_case word for counting.
        what: rest of the sentence that begins with the address.
        retry: whether the error may be transient.
        retry_after_seconds: pause that the host asks for.
        facts: details for diagnosing the error.
    """

    def __init__(
        self,
        reason: str,
        what: str,
        *,
        retry: bool = False,
        retry_after_seconds: float = 0,
        **facts: Any,
    ) -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what
        self.retry = retry
        self.retry_after_seconds = retry_after_seconds
        self.facts = facts
        if retry_after_seconds:
            self.facts["retry_after_seconds"] = round(retry_after_seconds, 1)

    def as_rejection(self, url: str) -> Rejection:
        """Return the error as a rejection; `url` is the address for messages (`urls.shown`)."""
        return Rejection(
            stage=STAGE,
            reason=self.reason,
            detail=storable(f"{url} {self.what}"),
            context={"url": url, **self.facts},
        )


# IP addresses.

IPAddress = IPv4Address | IPv6Address

# Addresses that `ipaddress` of some supported Python versions takes for global, and global
# addresses that are internal in a cloud.
_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(block)
    for block in (
        "100.64.0.0/10",  # carrier-grade NAT, RFC 6598
        "168.63.129.16/32",  # Azure's platform services, reachable from its machines
        "192.0.0.0/24",  # protocol assignments, RFC 6890
        "192.88.99.0/24",  # 6to4 relays, RFC 7526
    )
)
_GLOBAL_UNICAST_6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, including Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation, RFC 9637
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)


AddressRule = Callable[[IPAddress], bool]
"""Returns whether an address may be connected to."""


def public_addresses(address: IPAddress) -> bool:
    """Return whether the address belongs to the public internet.

    IPv6 addresses with an embedded IPv4 address are public if that is (mapped, NAT64, ISATAP), or
    never (6to4, Teredo and IPv4-compatible, which are obsolete).
    """
    if isinstance(address, IPv4Address):
        return _is_public_4(address)
    if address.scope_id is not None:
        return False
    if address.ipv4_mapped is not None:
        return _is_public_4(address.ipv4_mapped)
    if address in _NAT64:
        return _is_public_4(_last_32_bits(address))
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP and not _is_public_4(_last_32_bits(address)):
        return False
    return (
        address in _GLOBAL_UNICAST_6
        and address.is_global
        and not any(address in block for block in _NOT_PUBLIC_6)
    )


def _is_public_4(address: IPv4Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in block for block in _NOT_PUBLIC_4)
    )


def _last_32_bits(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)


def parsed(text: str) -> IPAddress | None:
    """Return the address that `text` has in standard notation, or None."""
    try:
        return ip_address(text)
    except ValueError:
        return None


# Addresses as text: which are valid, and how messages show them.

_LONGEST_URL: Final = 8000
_SHOWN_CHARACTERS: Final = 200
_LONGEST_HOST: Final = 254
_HOST_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")


def shown(url: URL | str) -> str:
    """Return the address for messages: shortened, without credentials, query and fragment.

    A query may contain a signature or a key; its question mark is kept to show that there is one.
    """
    try:
        url = url if isinstance(url, URL) else URL(url)
        bare = url.with_user(None) if url.raw_host else url
        text = str(bare.with_query(None).with_fragment(None))
    except (ValueError, TypeError):
        return "an address that cannot be read"
    if url.scheme not in ("http", "https"):  # a `data:` or `javascript:` address is all content
        text = f"{url.scheme[:20]}:…" if url.scheme else "an address without a scheme"
    elif url.raw_query_string:
        text += "?…"
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}…"
    return storable(text)


def checked(text: str, ports: Collection[int], allow: AddressRule) -> URL:
    """Return the address if its text is permitted.

    The addresses that a host name resolves to are checked on connection (`connecting`).

    Raises:
        DownloadRefusedError: the address is not permitted.
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
        raise DownloadRefusedError("invalid_url", "is not a valid web address") from None
    if url.scheme not in ("http", "https"):
        what = "has another scheme than http or https"
        raise DownloadRefusedError("scheme_not_allowed", what)
    if not url.raw_host:
        raise DownloadRefusedError("invalid_url", "names no host")
    if url.raw_user is not None or url.raw_password is not None:
        what = "contains a user name or a password, wanted a public address"
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
            raise DownloadRefusedError(
                "invalid_url", "has an IP address in unusual notation as its host"
            )
    elif _looks_like_a_number(host):
        if (meant := _meant(host)) is not None:
            check_address(meant, allow)
        what = "has a number as its host, wanted a name or an IP address in standard notation"
        raise DownloadRefusedError("invalid_url", what)
    elif not _HOST_NAME.fullmatch(host) or len(host) > _LONGEST_HOST:
        raise DownloadRefusedError("invalid_url", "has an invalid host name")


def check_address(address: IPAddress, allow: AddressRule) -> None:
    """Raise unless `address` may be connected to.

    Raises:
        DownloadRefusedError: it may not.
    """
    if not allow(address):
        what = f"leads to {address}, which is not an address of the public internet"
        raise DownloadRefusedError("private_address", what)


def _looks_like_a_number(host: str) -> bool:
    """Return whether browsers and C libraries read the host as IPv4: its last label is a number."""
    last = host.rstrip(".").rpartition(".")[2].lower()
    hexadecimal = last.startswith("0x") and all(c in "0123456789abcdef" for c in last[2:])
    return last.isdecimal() or hexadecimal


def _meant(host: str) -> IPv4Address | None:
    """Return the address that the C library reads: decimal, octal, hexadecimal or shortened."""
    try:
        return IPv4Address(socket.inet_aton(host.rstrip(".")))
    except (OSError, ValueError):
        return None
