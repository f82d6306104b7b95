"""Which IP addresses may be connected to."""

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)
from typing import Final, Protocol

IPAddress = IPv4Address | IPv6Address

# What `ipaddress` of some supported Pythons takes for global, or what answers on machines of a
# cloud although it is global.
_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(block)
    for block in (
        "100.64.0.0/10",  # carrier-grade NAT, RFC 6598
        "168.63.129.16/32",  # Azure's own services, seen from its machines
        "192.0.0.0/24",  # protocol assignments, RFC 6890
        "192.88.99.0/24",  # relays of 6to4, RFC 7526
    )
)
_GLOBAL_UNICAST_6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, among them Teredo
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation, RFC 9637
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)


class AddressRule(Protocol):
    """Says which addresses may be connected to."""

    def __call__(self, address: IPAddress) -> bool:
        """Whether it may."""
        ...


def public_addresses(address: IPAddress) -> bool:
    """Whether the address is one of the public internet.

    IPv6 addresses that carry an IPv4 address are public if that is (mapped, NAT64, ISATAP), or
    never (6to4, Teredo, IPv4-compatible: nobody serves images there any more).
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
    """The address that `text` writes in the standard way; None where it is none."""
    try:
        return ip_address(text)
    except ValueError:
        return None
