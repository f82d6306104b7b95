import time
from itertools import pairwise

import pytest

from loupe.sources.web.addresses import DownloadRefusedError
from loupe.sources.web.requests import check_tags
from tests.sources.pictures import encoded
from tests.sources.web.adversary import (
    Adversary,
    Downloads,
    Reply,
    answer,
    drip,
    hang_up,
    quick,
    redirect,
    serving,
)

JPEG = encoded(size=(120, 90))
FORBIDDEN = "forbidden_by_robots"


def reasons(adversary: Adversary, *paths: str, **changes: object) -> list[str]:
    settings = quick(adversary.port, **changes)
    with Downloads(adversary, settings) as web:
        results = web.each(*[adversary.url(path) for path in paths])
    return [getattr(result, "reason", "image") for result in results]


def robots(text: str) -> bytes:
    return answer(text.encode(), Content_Type="text/plain")


@pytest.fixture
def host(adversary: Adversary) -> Adversary:
    adversary.replies |= {f"/{name}.jpg": answer(JPEG) for name in "abcd"}
    adversary.replies["/private/a.jpg"] = answer(JPEG)
    return adversary


def test_forbidden_paths_are_not_requested(host: Adversary) -> None:
    host.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private/\n")
    assert reasons(host, "/private/a.jpg", "/a.jpg") == ["forbidden_by_robots", "image"]
    assert host.paths() == ["/a.jpg"]


def test_rules_for_our_user_agent_take_precedence(host: Adversary) -> None:
    host.replies["/robots.txt"] = robots(
        "User-agent: *\nDisallow:\n\nUser-agent: loupe-datasets\nDisallow: /\nAllow: /b.jpg$\n"
    )
    assert reasons(host, "/a.jpg") == ["forbidden_by_robots"]
    assert reasons(host, "/a.jpg", user_agent="somebody/1.0") == ["image"]


def test_robots_txt_is_fetched_once(host: Adversary) -> None:
    host.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /b\n")
    assert reasons(host, *["/a.jpg", "/b.jpg"] * 5) == ["image", "forbidden_by_robots"] * 5
    assert len(host.requests) - len(host.paths()) == 1


def test_robots_txt_is_fetched_again_when_its_cache_expires(host: Adversary) -> None:
    host.replies["/robots.txt"] = [robots("User-agent: *\nDisallow: /\n"), robots("")]
    with Downloads(host, quick(host.port, robots_cache_seconds=0.05)) as web:
        assert web.refusal(host.url()).reason == "forbidden_by_robots"
        time.sleep(0.1)
        web.image(host.url())


def test_robots_txt_is_not_fetched_when_disabled(host: Adversary) -> None:
    host.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
    with Downloads(host, quick(host.port, robots=False)) as web:
        assert web.image(host.url()).robots == "not_asked"
    assert [request.path.partition("?")[0] for request in host.requests] == ["/a.jpg"]


def test_a_redirect_is_checked_against_robots_txt_of_its_target(host: Adversary) -> None:
    with serving() as other:
        other.replies |= {
            "/robots.txt": robots("User-agent: *\nDisallow: /\n"),
            "/b.jpg": answer(JPEG),
        }
        host.replies["/a.jpg"] = redirect(other.url("/b.jpg"))
        settings = quick(host.port, other.port)
        with Downloads(host, settings) as web:
            found = web.refusal(host.url())
    assert found.reason == "forbidden_by_robots"
    assert other.paths() == []


ROBOTS: dict[str, tuple[Reply, str]] = {
    "404": (answer(status="404 Not Found"), "image"),
    "403": (answer(status="403 Forbidden"), "image"),
    "500": (answer(status="500 Oh"), FORBIDDEN),
    "429": (answer(status="429 Slowly"), FORBIDDEN),
    "a loop": (redirect("/robots.txt"), "image"),
    "led inside": (redirect("http://10.0.0.1/robots.txt"), "port_not_allowed"),
    "broken off": (hang_up(), "interrupted"),
    "a drip": (drip(answer(Content_Length="999")), "timed_out"),
    "behind a byte order mark": (robots("\ufeffUser-agent: *\nDisallow: /\n"), FORBIDDEN),
    "garbage": (answer(b"\xff\xfe\x00garbage\x00" * 100), "image"),
    "a page": (answer(b"<html>" * 1000), "image"),
    "very long": (robots("User-agent: *\nDisallow: /\n" + "# x\n" * 200_000), FORBIDDEN),
    "a slow pattern": (robots("User-agent: *\nDisallow: /" + "a*" * 5000 + "b$\n"), "image"),
}
"""Replies for robots.txt and the result for an image."""


def test_unusual_replies_for_robots_txt(host: Adversary) -> None:
    for name, (reply, reason) in ROBOTS.items():
        host.replies["/robots.txt"] = reply
        assert reasons(host, "/a.jpg", timeout_seconds=0.4) == [reason], name


def test_an_explosive_robots_txt_is_not_parsed(host: Adversary) -> None:
    """A file with 10,000 rules for each of 10,000 user agents."""
    agents = "".join(f"User-agent: {number}\n" for number in range(10_000))
    host.replies["/robots.txt"] = robots(agents + "Disallow: /x\n" * 10_000)
    started = time.monotonic()
    assert reasons(host, "/a.jpg") == ["forbidden_by_robots"]
    assert time.monotonic() - started < 2


def test_a_failure_to_fetch_robots_txt_is_cached(host: Adversary) -> None:
    host.replies["/robots.txt"] = answer(status="500 Oh")
    assert reasons(host, "/a.jpg", "/b.jpg", "/c.jpg") == ["forbidden_by_robots"] * 3
    assert len(host.requests) == 1


def test_the_crawl_delay_is_respected(host: Adversary) -> None:
    host.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.15\n")
    assert reasons(host, "/a.jpg", "/b.jpg", "/c.jpg") == ["image"] * 3
    times = [request.at for request in host.requests]
    assert min(b - a for a, b in pairwise(times)) > 0.1


def test_an_excessive_crawl_delay_rejects_the_url(host: Adversary) -> None:
    host.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 86400\n")
    with Downloads(host, quick(host.port)) as web:
        found = web.refusal(host.url())
    assert found.reason == "asked_to_wait"
    assert found.context["retry_after_seconds"] == pytest.approx(86400, abs=2)


def forbids(*headers: str) -> bool:
    try:
        check_tags(headers, "loupe-datasets/1.0 (somebody)")
    except DownloadRefusedError as refusal:
        return refusal.reason == "forbidden_by_robots"
    return False


def test_forbidding_x_robots_tags(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "noai", "NoImageAI", "noindex, nofollow", "nofollow,noimageindex", "none", "*: noai",
        "loupe-datasets: noindex", "unavailable_after: 25 Jun 2030 15:00:00 PST, noai",
    ]  # fmt: skip
    for header in cases:
        with subtests.test(header=header):
            assert forbids(header)
            assert forbids("nofollow", header)


def test_permitting_x_robots_tags(subtests: pytest.Subtests) -> None:
    cases: list[str] = [
        "",
        "nofollow",
        "all",
        "googlebot: noindex",
        "noaircraft",
        "max-image-preview: large",
    ]
    for header in cases:
        with subtests.test(header=header):
            assert not forbids(header)


def test_x_robots_tags_of_the_image_response_are_checked(host: Adversary) -> None:
    host.replies["/a.jpg"] = answer(JPEG, X_Robots_Tag="noai, noimageai")
    assert reasons(host, "/a.jpg") == ["forbidden_by_robots"]
    assert reasons(host, "/a.jpg", robots=False) == ["image"]
