"""Downloads from hostile hosts; only loopback is contacted."""

import asyncio
import gzip
import threading
import time
import zlib
from collections.abc import Iterator

import pytest

from loupe.schemas.base import sha256_of
from loupe.schemas.image_search import DownloadedImage
from loupe.schemas.records import Rejection
from loupe.sources.web.downloading import ImageDownloader
from tests.sources.pictures import encoded
from tests.sources.web.adversary import (
    Adversary,
    Downloads,
    answer,
    drip,
    hang_up,
    only_loopback,
    quick,
    redirect,
    serving,
)

JPEG = encoded(size=(120, 90))


def downloads(adversary: Adversary, **changes: object) -> Downloads:
    return Downloads(adversary, quick(adversary.port, **changes))


def refused(adversary: Adversary, path: str = "/a.jpg", **changes: object) -> Rejection:
    with downloads(adversary, **changes) as web:
        return web.refusal(adversary.url(path))


def test_an_image_without_metadata_keeps_its_bytes(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG, Content_Type="text/html")  # is ignored
    with downloads(adversary) as web:
        image = web.image(adversary.url())
    assert image.data == JPEG
    assert image.sha256 == image.source_sha256 == sha256_of(JPEG)
    assert (image.width_px, image.height_px, image.media_type) == (120, 90, "image/jpeg")
    assert image.url == f"http://127.0.0.1:{adversary.port}/a.jpg?…"
    assert (image.redirects, image.robots) == (0, "allowed")
    asked = adversary.requests[-1]
    assert asked.path == "/a.jpg?key=s3cr3t"
    assert asked.headers["User-Agent"] == "loupe-datasets"
    assert asked.headers["Accept-Encoding"] == "identity"
    assert "Cookie" not in asked.headers


def test_loopback_is_refused_by_default(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG)
    with ImageDownloader(quick(adversary.port)) as downloader:
        urls = [adversary.url(host=host) for host in ("127.0.0.1", "localhost", "[::1]", "0")]
        results = [result for _, result in downloader.download(urls)]
    assert [getattr(result, "reason", None) for result in results] == ["private_address"] * 4
    assert adversary.connections == 0


# Targets of redirects and the reason of the rejection.
TARGETS = {
    "http://127.0.0.2:{port}/a.jpg": "private_address",
    "http://169.254.169.254:{port}/latest/meta-data": "private_address",
    "http://2130706434:{port}/a.jpg": "private_address",
    "http://[::1]:{port}/a.jpg": "private_address",
    "http://[::ffff:127.0.0.1]:{port}/": "private_address",
    "http://127.0.0.1:22/": "port_not_allowed",
    "http://u:s3cr3t@127.0.0.1:{port}/": "credentials_in_url",
    "file:///etc/passwd": "scheme_not_allowed",
    "data:image/png;base64,s3cr3t": "scheme_not_allowed",
    "gopher://127.0.0.1:{port}/": "scheme_not_allowed",
    "http://[s3cr3t": "invalid_url",
    "": "bad_answer",
    "/gone?s3cr3t": "http_status",
}


def test_every_redirect_is_checked(subtests: pytest.Subtests, adversary: Adversary) -> None:
    for target in TARGETS:
        with subtests.test(target=target):
            adversary.replies["/a.jpg"] = redirect(target.format(port=adversary.port))
            found = refused(adversary)
            assert found.reason == TARGETS[target]
            if target:
                assert "redirects to" in found.detail


def test_redirects_are_followed_to_the_image(adversary: Adversary) -> None:
    for status, (path, target) in zip(
        ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"),
        (("/a.jpg", "b"), ("/b", "/c?s3cr3t"), ("/c", "./d"), ("/d", "?x"), ("/d", "e.jpg")),
        strict=True,
    ):
        adversary.replies.setdefault(path, []).append(redirect(target, status))  # type: ignore[union-attr]
    adversary.replies["/e.jpg"] = answer(JPEG)
    with downloads(adversary) as web:
        image = web.image(adversary.url())
    assert image.redirects == 5
    assert image.url.endswith("/e.jpg")
    assert adversary.paths() == ["/a.jpg", "/b", "/c", "/d", "/d", "/e.jpg"]


def test_redirect_loops_end_at_the_limit(adversary: Adversary) -> None:
    adversary.replies |= {"/a.jpg": redirect("/b.jpg"), "/b.jpg": redirect("/a.jpg")}
    found = refused(adversary, max_redirects=3)
    assert found.reason == "too_many_redirects"
    assert found.detail.endswith("redirects more than 3 times")
    assert len(adversary.paths()) == 4


def test_a_body_with_a_too_large_content_length_is_not_read(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = drip(answer(Content_Length="200001"), 0.01)
    started = time.monotonic()
    found = refused(adversary)
    assert (found.reason, time.monotonic() - started < 0.5) == ("too_large", True)
    assert found.detail.endswith("announces 200,001 bytes, wanted at most 200,000")


def test_a_body_without_a_content_length_stops_at_the_limit(adversary: Adversary) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    adversary.replies["/a.jpg"] = drip(head, 0, b"2000\r\n" + JPEG[:2] * 4096 + b"\r\n")
    adversary.replies["/b.jpg"] = drip(b"HTTP/1.1 200 OK\r\n\r\n", 0, bytes(8192))
    with downloads(adversary, timeout_seconds=5) as web:
        results = web.each(adversary.url("/a.jpg"), adversary.url("/b.jpg"))
    assert [getattr(result, "reason", None) for result in results] == ["too_large"] * 2


def test_a_body_shorter_than_its_content_length_is_rejected(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = hang_up(answer(JPEG, Content_Length=str(len(JPEG) + 10)))
    assert refused(adversary).reason == "interrupted"


def test_a_body_longer_than_its_content_length_is_rejected(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = hang_up(answer(JPEG + b"more", Content_Length="100"))
    assert refused(adversary).reason in ("bad_answer", "truncated_image")


def gzip_bomb(megabytes: int) -> bytes:
    return gzip.compress(bytes(megabytes * 2**20), compresslevel=9)


def test_a_compressed_body_is_not_inflated_beyond_the_limit(adversary: Adversary) -> None:
    bombs = {"gzip": gzip_bomb(5), "deflate": zlib.compress(bytes(5 * 2**20), 9)}
    for coding, bomb in bombs.items():
        assert len(bomb) < 40_000
        adversary.replies["/a.jpg"] = answer(bomb, Content_Encoding=coding)
        assert refused(adversary).reason == "too_large", coding


def test_compressed_bodies_are_read_although_not_requested(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(gzip.compress(JPEG), Content_Encoding="GZIP")
    adversary.replies["/b.jpg"] = answer(zlib.compress(JPEG), Content_Encoding="deflate")
    with downloads(adversary) as web:
        for image in web.each(adversary.url("/a.jpg"), adversary.url("/b.jpg")):
            assert isinstance(image, DownloadedImage)
            assert image.data == JPEG


def test_unsupported_and_broken_encodings_are_refused(adversary: Adversary) -> None:
    cases = {
        "no gzip": (JPEG, "gzip", "bad_answer"),
        "cut gzip": (gzip.compress(JPEG)[:-100], "gzip", "interrupted"),
        "brotli": (JPEG, "br", "bad_answer"),
        "gzip in gzip": (gzip.compress(gzip.compress(JPEG)), "gzip, gzip", "bad_answer"),
        "hidden gzip": (gzip.compress(JPEG), "identity", "not_an_image"),
    }
    for name, (body, coding, reason) in cases.items():
        adversary.replies["/a.jpg"] = answer(body, Content_Encoding=coding)
        assert refused(adversary).reason == reason, name


DRIPS = {
    "the body": drip(answer(JPEG, Content_Length="100000")),
    "the headers": drip(b"HTTP/1.1 200 OK\r\n", piece=b"A: b\r\n", pause_seconds=0.02),
    "the first line": drip(b"", piece=b"H"),
    "nothing": drip(b"", piece=b""),
    "a compressed body": drip(
        answer(Content_Encoding="gzip", Content_Length="9999") + gzip.compress(JPEG)[:20], 0.02, b""
    ),
}


def test_slow_hosts_time_out(subtests: pytest.Subtests, adversary: Adversary) -> None:
    for what in DRIPS:
        with subtests.test(what=what):
            adversary.replies["/a.jpg"] = DRIPS[what]
            started = time.monotonic()
            found = refused(adversary, timeout_seconds=0.3)
            took = time.monotonic() - started
            assert found.reason in ("timed_out", "bad_answer")
            if found.reason == "timed_out":
                assert found.detail.endswith("takes longer than 0.3 seconds")
                assert 0.3 <= took < 1


def test_the_timeout_covers_all_redirects(adversary: Adversary) -> None:
    async def slow_redirect(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        writer.write(redirect("/a.jpg"))
        await writer.drain()

    adversary.replies["/a.jpg"] = slow_redirect
    assert refused(adversary, timeout_seconds=0.4, max_redirects=20).reason == "timed_out"
    assert len(adversary.paths()) <= 3


def test_malformed_responses_are_refused(adversary: Adversary) -> None:
    cases = [
        (b"garbage\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000 + b"\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", "bad_answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "bad_answer"),
        (answer(status="204 No Content"), "http_status"),
        (answer(status="206 Partial Content"), "http_status"),
        (answer(status="404 s3cr3t"), "http_status"),
        (answer(status="999 s3cr3t"), "http_status"),
        (answer(), "not_an_image"),
    ]
    for reply, reason in cases:
        adversary.replies["/a.jpg"] = hang_up(reply)
        assert refused(adversary).reason == reason, reply[:60]


def test_a_closed_connection_and_an_unreachable_host_are_rejections(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = hang_up()
    assert refused(adversary).reason == "interrupted"
    with serving() as gone:
        port = gone.port
    with Downloads(adversary, quick(port, robots=False)) as web:
        found = web.refusal(f"http://127.0.0.1:{port}/a.jpg")
    assert found.reason == "unreachable"


def test_proxies_and_netrc_of_the_environment_are_ignored(
    adversary: Adversary, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    (netrc := tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s3cr3t\n")  # type: ignore[operator]
    adversary.replies["/a.jpg"] = answer(JPEG)
    with serving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NETRC", str(netrc))
        with downloads(adversary) as web:
            web.image(adversary.url())
        assert proxy.connections == 0
    assert "Authorization" not in adversary.requests[-1].headers


def test_cookies_are_not_kept(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG, Set_Cookie="a=b")
    with downloads(adversary) as web:
        web.image(adversary.url())
        web.image(adversary.url())
    assert "Cookie" not in adversary.requests[-1].headers


def test_every_url_gets_one_result(adversary: Adversary) -> None:
    adversary.replies |= {
        "/a.jpg": answer(JPEG),
        "/page": answer(b"<!doctype html><title>s3cr3t</title>"),
        "/slow": drip(answer(Content_Length="9999")),
        "/bomb": answer(gzip_bomb(1), Content_Encoding="gzip"),
        "/loop": redirect("/loop"),
    }
    urls = [adversary.url(path) for path in ("/a.jpg", "/page", "/slow", "/bomb", "/loop", "/no")]
    others = ["", "file:///x", "http://10.0.0.1/a.jpg", urls[0], urls[0]]
    with downloads(adversary, timeout_seconds=1) as web:
        results = web.each(*urls, *others)
    assert [getattr(result, "reason", "image") for result in results] == [
        "image", "not_an_image", "timed_out", "too_large", "too_many_redirects", "http_status",
        "scheme_not_allowed", "scheme_not_allowed", "port_not_allowed", "image", "image",
    ]  # fmt: skip


def test_an_unexpected_error_rejects_only_its_own_url(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG)

    async def lookup(host: str, port: int) -> list[str]:
        if host == "odd.test":
            raise LookupError(f"s3cr3t {host}")
        return ["127.0.0.1"]

    urls = [adversary.url(host=host) for host in ("odd.test", "even.test")]
    with Downloads(adversary, quick(adversary.port, robots=False), lookup=lookup) as web:
        odd, even = web.each(*urls)
    assert isinstance(odd, Rejection)
    assert (odd.reason, odd.context["fault"]) == ("bad_answer", "LookupError")
    assert odd.detail.endswith("cannot be read: LookupError")
    assert isinstance(even, DownloadedImage)


def test_results_are_returned_as_they_finish(adversary: Adversary) -> None:
    adversary.replies |= {"/slow": drip(answer(Content_Length="9999")), "/a.jpg": answer(JPEG)}
    urls = [adversary.url("/slow"), *[adversary.url()] * 5]
    settings = quick(adversary.port, timeout_seconds=2)
    with ImageDownloader(settings, allow=only_loopback) as downloader:
        places = [place for place, _ in downloader.download(urls)]
    assert places[-1] == 0
    assert sorted(places) == list(range(6))


def test_urls_are_consumed_at_the_pace_of_the_results(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG)
    taken = 0

    def endless_urls() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield adversary.url()

    settings = quick(adversary.port, look_ahead=7, in_flight=2)
    with ImageDownloader(settings, allow=only_loopback) as downloader:
        results = downloader.download(endless_urls())
        for used, _ in enumerate(results, start=1):
            assert taken - used < 7
            if used == 40:
                break
        results.close()  # type: ignore[attr-defined]
        time.sleep(0.1)
        stopped = taken
        assert len(adversary.paths()) <= stopped <= 47


def test_the_limits_on_concurrent_downloads_hold(adversary: Adversary) -> None:
    now = most = 0

    async def counted(writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        writer.write(answer(JPEG, Connection="close"))
        await writer.drain()

    adversary.replies["/a.jpg"] = counted
    with downloads(adversary, in_flight=3, connections_per_host=10) as web:
        web.each(*[adversary.url()] * 20)
    assert most == 3
    most = 0
    with downloads(adversary, in_flight=30, connections_per_host=2) as web:
        web.each(*[adversary.url()] * 20)
    assert most == 2


def test_threads_share_one_downloader(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG)
    found: list[int] = []
    with ImageDownloader(quick(adversary.port), allow=only_loopback) as downloader:

        def work() -> None:
            found.append(sum(1 for _ in downloader.download([adversary.url()] * 20)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [20] * 4


def test_two_downloads_in_one_thread_do_not_wait_for_each_other(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG)
    settings = quick(adversary.port, in_flight=1, look_ahead=3)
    with ImageDownloader(settings, allow=only_loopback) as downloader:
        urls = [adversary.url()] * 10
        pairs = list(zip(downloader.download(urls), downloader.download(urls), strict=True))
    assert len(pairs) == 10


def test_errors_of_the_url_iterator_are_raised(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = answer(JPEG)

    def broken() -> Iterator[str]:
        yield adversary.url()
        raise LookupError("no more")

    with (
        ImageDownloader(quick(adversary.port), allow=only_loopback) as downloader,
        pytest.raises(LookupError, match="no more"),
    ):
        list(downloader.download(broken()))


def test_a_closed_downloader_ends_its_threads(adversary: Adversary) -> None:
    before = threading.active_count()
    downloader = ImageDownloader(quick(adversary.port), allow=only_loopback)
    adversary.replies["/a.jpg"] = answer(JPEG)
    assert len(list(downloader.download([adversary.url()] * 3))) == 3
    downloader.close()
    downloader.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="closed"):
        list(downloader.download([adversary.url()]))
