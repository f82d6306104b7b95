from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.sources.web.addresses import parsed, public_addresses

V4 = st.ip_addresses(v=4)
ANY_32_BITS = st.integers(0, 2**32 - 1)


def test_public_addresses_are_public(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "8.8.8.8",
        "93.184.216.34",
        "2606:4700::6810:84e5",
        "2a00:1450:4001:82a::200e",
    ]
    for text in cases:
        with subtests.test(text=text):
            assert public_addresses(ip_address(text))


def test_reserved_and_translated_addresses_are_not_public(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "0.0.0.0",  # noqa: S104
        "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "100.100.100.200",
        "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254", "172.16.0.1",
        "172.31.255.255", "192.0.0.8", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1",
        "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
        "255.255.255.255",
        "::", "::1", "::7f00:1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1",
        "ff02::1", "ff0e::1", "2001:db8::1", "3fff::1", "100::1", "5f00::1", "4000::1",
        "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:0:7f00:1",  # mapped, translated
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808",  # NAT64
        "2002:7f00:1::", "2002:a00:1::1", "2002:808:808::1",  # 6to4
        "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe",  # Teredo
        "2606:4700::5efe:a00:1", "2606:4700::200:5efe:7f00:1",  # ISATAP
        "2606:4700::1%eth0",
    ]  # fmt: skip
    for text in cases:
        with subtests.test(text=text):
            assert not public_addresses(ip_address(text))


@given(V4)
def test_an_embedded_ipv4_address_decides(address: IPv4Address) -> None:
    public = public_addresses(address)
    assert public_addresses(IPv6Address(f"::ffff:{address}")) == public
    assert public_addresses(IPv6Address(f"64:ff9b::{address}")) == public
    assert public_addresses(IPv6Address(f"2606:4700::5efe:{address}")) == public


@given(ANY_32_BITS, st.integers(0, 2**64 - 1))
def test_tunnel_addresses_are_never_public(high: int, low: int) -> None:
    for prefix in (0x2002 << 112, 0x2001_0000 << 96):
        assert not public_addresses(IPv6Address(prefix | high << 64 | low))


def test_only_the_usual_form_of_an_address_is_parsed() -> None:
    assert parsed("127.0.0.1") == IPv4Address("127.0.0.1")
    assert [parsed(text) for text in ("127.1", "0x7f000001", "2130706433", "0177.0.0.1", "a")] == [
        None
    ] * 5
