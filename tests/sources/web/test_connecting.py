"""Host names are looked up once, checked, connected to by address and verified by TLS."""

import socket
import ssl
import threading

import pytest
import trustme

from loupe.sources.web.addresses import public_addresses
from loupe.sources.web.downloading import ImageDownloader
from loupe.sources.web.requests import system_lookup
from tests.sources.pictures import encoded
from tests.sources.web.adversary import (
    Adversary,
    Downloads,
    Names,
    answer,
    only_loopback,
    quick,
    redirect,
    serving,
)

JPEG = encoded(size=(120, 90))


def downloads(adversary: Adversary, names: Names) -> Downloads:
    return Downloads(adversary, quick(adversary.port), lookup=names)


def test_dns_rebinding_does_not_reach_an_internal_server(adversary: Adversary) -> None:
    """DNS rebinding: a second lookup would return the address of an internal server."""
    with serving("127.0.0.2", adversary.port) as inside:
        inside.replies["/a.jpg"] = answer(JPEG)
        adversary.replies["/a.jpg"] = answer(JPEG, Connection="close")
        names = Names({"rebinding.example": [["127.0.0.1"], ["127.0.0.2"]]})
        with downloads(adversary, names) as web:
            web.image(adversary.url(host="rebinding.example"))
        names = Names({"rebinding.example": [["127.0.0.2"], ["127.0.0.1"]]})
        with downloads(adversary, names) as web:
            found = web.refusal(adversary.url(host="rebinding.example"))
        assert found.reason == "private_address"
        assert names.asked == ["rebinding.example"]
        assert inside.connections == 0


def test_the_lookup_of_a_redirect_is_checked(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = redirect(f"http://b.example:{adversary.port}/a.jpg")
    names = Names({"a.example": [["127.0.0.1"]], "b.example": [["127.0.0.1", "127.0.0.2"]]})
    with downloads(adversary, names) as web:
        found = web.refusal(adversary.url(host="a.example"))
    assert found.reason == "private_address"
    assert "127.0.0.2" in found.detail


def test_one_private_address_makes_a_name_private(subtests: pytest.Subtests) -> None:
    cases: list[list[str]] = [
        ["10.0.0.1"], ["169.254.169.254"], ["93.184.216.34", "10.0.0.1"], ["::1"], ["0.0.0.0"],  # noqa: S104

        ["fe80::1%lo"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["100.64.0.1"],
    ]  # fmt: skip
    for case, addresses in enumerate(cases):
        with subtests.test(case=case):
            settings = quick(80, robots=False)
            names = Names({"a.example": [addresses]})
            with ImageDownloader(settings, allow=public_addresses, lookup=names) as downloader:
                ((_, result),) = downloader.download(["http://a.example/a.jpg"])
            assert getattr(result, "reason", None) == "private_address"


def test_addresses_are_checked_again_when_a_socket_is_created() -> None:
    """An address that the resolver admits by mistake is refused when its socket is created."""
    asked = []

    def allow_only_the_first_check(address: object) -> bool:
        asked.append(address)
        return len(asked) == 1

    names = Names({"a.example": [["127.0.0.1"]]})
    with serving() as inside:
        settings = quick(inside.port, robots=False)
        with ImageDownloader(
            settings, allow=allow_only_the_first_check, lookup=names
        ) as downloader:
            ((_, result),) = downloader.download([inside.url(host="a.example")])
        assert inside.connections == 0
    assert getattr(result, "reason", None) == "private_address"


def test_an_unknown_name_is_unreachable(adversary: Adversary) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        host.encode("idna")
        raise socket.gaierror(socket.EAI_NONAME, "s3cr3t")

    settings = quick(adversary.port, attempts=3)
    with Downloads(adversary, settings, lookup=lookup) as web:
        for host in ("nowhere.example", f"{'a' * 64}.example", "xn--a.example"):
            found = web.refusal(adversary.url(host=host))
            assert found.reason == "unreachable", host
            assert "has a host that is not found" in found.detail, host


def test_the_system_lookup_resolves_localhost(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG)

    async def only_four(host: str, port: int) -> list[str]:
        return [address for address in await system_lookup(host, port) if "." in address]

    with Downloads(adversary, quick(adversary.port), lookup=only_four) as web:
        assert web.image(adversary.url(host="localhost")).data == JPEG


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_the_tls_certificate_must_match_the_name(authority: trustme.CA) -> None:
    names = Names({name: [["127.0.0.1"]] for name in ("good.example", "bad.example")})
    with serving(tls=server_context(authority, "good.example")) as server:
        server.replies["/a.jpg"] = answer(JPEG)
        settings = quick(server.port)
        with Downloads(server, settings, lookup=names, trusted=trusting(authority)) as web:
            assert web.image(server.url(host="good.example")).data == JPEG
            refused = [web.refusal(server.url(host=host)) for host in ("bad.example", "127.0.0.1")]
        with Downloads(server, settings, lookup=names) as web:  # without the test authority
            refused.append(web.refusal(server.url(host="good.example")))
    assert [found.reason for found in refused] == ["tls_failed"] * 3
    assert server.paths() == ["/a.jpg"]


def test_no_request_is_sent_to_a_server_without_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_in_plain() -> None:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(10_000))
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        heard: list[bytes] = []
        thread = threading.Thread(target=answer_in_plain)
        thread.start()
        port = server.getsockname()[1]
        with ImageDownloader(quick(port, robots=False), allow=only_loopback) as downloader:
            ((_, result),) = downloader.download([f"https://127.0.0.1:{port}/s3cr3t"])
        thread.join()
    assert getattr(result, "reason", None) == "tls_failed"
    assert b"s3cr3t" not in heard[0]
