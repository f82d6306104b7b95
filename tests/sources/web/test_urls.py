import pytest
from hypothesis import given
from hypothesis import strategies as st

from loupe.sources.web.addresses import DownloadRefusedError, checked, public_addresses, shown

PORTS = frozenset({80, 443})


def reason(text: str) -> str:
    with pytest.raises(DownloadRefusedError) as caught:
        checked(text, PORTS, public_addresses)
    return caught.value.reason


def test_plain_urls_are_accepted(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("http://example.com/a.jpg", "http://example.com/a.jpg"),
        ("HTTPS://Example.COM/a.jpg?size=2#part", "https://example.com/a.jpg?size=2"),
        ("https://münchen.example/ä.jpg", "https://xn--mnchen-3ya.example/%C3%A4.jpg"),
        ("http://93.184.216.34/a.jpg", "http://93.184.216.34/a.jpg"),
        ("http://a_b.example.com./a.jpg", "http://a_b.example.com./a.jpg"),
    ]
    for text, asked in cases:
        with subtests.test(text=text, asked=asked):
            assert str(checked(text, PORTS, public_addresses)) == asked


def test_only_http_and_https_are_accepted(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "file:///etc/passwd", "ftp://example.com/a.jpg", "gopher://example.com/", "javascript:1",
        "data:image/png;base64,AAAA", "//example.com/a.jpg", "/a.jpg", "a.jpg", "",
        "jar:http://example.com!/a", "unix:///run/docker.sock",
    ]  # fmt: skip
    for text in cases:
        with subtests.test(text=text):
            assert reason(text) == "scheme_not_allowed"


def test_private_addresses_are_refused_in_every_notation(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1",
        "017700000001", "0", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25eth0]", "169.254.169.254",
        "2852039166", "0xA9FEA9FE", "10.0.0.1", "1２7.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1",
    ]  # fmt: skip
    for host in cases:
        with subtests.test(host=host):
            assert reason(f"http://{host}/a.jpg") == "private_address"


def test_malformed_urls_are_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "http://134744072/", "http://8.8.2056/", "http://a.example.0x1f/", "http://8.8.8.8./",
        "http://", "http:///a.jpg", "http://?a", "http://[::1", "http://ex ample.com/",
        "http://example.com:99999/", "http://example.com:x/", "http://exa\r\nmple.com/",
        "http://a..b/", "http://*.example.com/", f"http://{'a.' * 200}com/", "http://\ud800/",
        f"http://example.com/{'a' * 8000}", "http://1.2.3.4.5/", "http://999.1.1.1/",
    ]  # fmt: skip
    for text in cases:
        with subtests.test(text=text):
            assert reason(text) == "invalid_url"


def test_urls_with_credentials_are_refused() -> None:
    for host in ("u:p@example.com", "u@example.com", "example.com@127.0.0.1"):
        assert reason(f"http://{host}/") == "credentials_in_url", host


def test_ports_that_are_not_allowed_are_refused(subtests: pytest.Subtests) -> None:
    for port in (0, 22, 25, 6379, 8080, 65535):
        with subtests.test(port=port):
            assert reason(f"http://example.com:{port}/") == "port_not_allowed"


def test_shown_urls_contain_no_secret() -> None:
    for url in (
        "https://key:s3cr3t@example.com/a.jpg?X-Signature=s3cr3t#s3cr3t",
        "data:text/plain,s3cr3t",
        "javascript:s3cr3t",
        "http://[s3cr3t?s3cr3t",
    ):
        assert "s3cr3t" not in shown(url)
    assert shown("https://a:b@example.com/a.jpg?k=v#f") == "https://example.com/a.jpg?…"
    assert len(shown("https://example.com/" + "a" * 5000)) <= 201


@given(st.text() | st.from_regex(r"https?://[^/]*/.*", fullmatch=True))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    shown(text).encode()
    try:
        url = checked(text, PORTS, public_addresses)
    except DownloadRefusedError as refusal:
        refusal.as_rejection(shown(text)).model_dump_json().encode()
    else:
        assert url.scheme in ("http", "https")
        assert url.port in PORTS
        assert not url.raw_user
        assert not url.raw_fragment
