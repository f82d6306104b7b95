"""Request rates, pauses and retries."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest

from loupe.schemas.records import Rejection
from tests.sources.pictures import encoded
from tests.sources.web.adversary import (
    Adversary,
    Downloads,
    Names,
    Reply,
    answer,
    drip,
    hang_up,
    quick,
)

JPEG = encoded(size=(120, 90))
GOOD = answer(JPEG)


def attempts(adversary: Adversary, *replies: Reply, **changes: object) -> tuple[str, list[float]]:
    """Result of a URL with these replies, and the seconds between its requests."""
    adversary.requests.clear()
    adversary.replies["/a.jpg"] = list(replies)
    settings = quick(adversary.port, attempts=3, robots=False, timeout_seconds=2, **changes)
    with Downloads(adversary, settings) as web:
        (result,) = web.each(adversary.url())
    times = [request.at for request in adversary.requests]
    pauses = [b - a for a, b in pairwise(times)]
    return result.reason if isinstance(result, Rejection) else "image", pauses


def test_transient_errors_are_retried(adversary: Adversary) -> None:
    faults: dict[str, Reply] = {
        status: answer(status=status) for status in ("429 Slowly", "500 Oh", "503 Later", "504 L")
    }
    faults["hung up"] = hang_up()
    faults["broken off"] = hang_up(answer(JPEG, Content_Length="99999"))
    for name, fault in faults.items():
        reason, pauses = attempts(adversary, fault, GOOD, longest_wait_seconds=0.1)
        assert reason == "image", name
        assert len(pauses) in (1, 2), (
            name
        )  # a request on a lost kept-alive connection is resent immediately


def test_pauses_grow_until_the_attempts_are_used_up(adversary: Adversary) -> None:
    reason, pauses = attempts(adversary, answer(status="500 Oh"))
    assert reason == "http_status"
    assert len(pauses) == 2
    assert 0.4 < pauses[0] < pauses[1]


def test_other_errors_are_not_retried(adversary: Adversary) -> None:
    faults = {status: answer(status=status) for status in ("404 No", "410 Gone", "501 Never")}
    faults["a page"] = answer(b"<html>")
    faults["too large"] = answer(Content_Length="999999")
    faults["no HTTP"] = b"garbage\r\n\r\n"
    for name, fault in faults.items():
        reason, pauses = attempts(adversary, fault, GOOD)
        assert reason != "image", name
        assert pauses == [], name


def test_a_timed_out_download_is_not_retried(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = [drip(answer(Content_Length="999")), GOOD]
    settings = quick(adversary.port, attempts=3, robots=False, timeout_seconds=0.2)
    with Downloads(adversary, settings) as web:
        assert web.refusal(adversary.url()).reason == "timed_out"
    assert len(adversary.requests) == 1


def test_a_pause_applies_to_all_urls_of_a_host(adversary: Adversary) -> None:
    adversary.replies |= {
        "/a.jpg": [answer(status="429 Slowly", Retry_After="0.7"), GOOD],
        "/b.jpg": GOOD,
    }
    settings = quick(adversary.port, attempts=2, robots=False, connections_per_host=1)
    with Downloads(adversary, settings) as web:
        web.each(adversary.url("/a.jpg"), adversary.url("/b.jpg"))
    first, second = (request.at for request in adversary.requests[:2])
    assert second - first >= 0.7


def test_a_pause_above_the_limit_rejects_the_urls_of_a_host(adversary: Adversary) -> None:
    tomorrow = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)
    adversary.replies |= {"/a.jpg": answer(status="503 Later", Retry_After=tomorrow)}
    adversary.replies["/b.jpg"] = GOOD
    started = time.monotonic()
    with Downloads(adversary, quick(adversary.port, attempts=3, robots=False)) as web:
        first = web.refusal(adversary.url("/a.jpg"))
        second = web.refusal(adversary.url("/b.jpg"))
    assert time.monotonic() - started < 1
    assert (first.reason, second.reason) == ("http_status", "asked_to_wait")
    assert first.context["status"] == 503
    assert first.context["retry_after_seconds"] == pytest.approx(86400, abs=5)
    assert adversary.paths() == ["/a.jpg"]


def test_the_request_rate_of_a_host_is_limited(adversary: Adversary) -> None:
    adversary.replies["/a.jpg"] = GOOD
    settings = quick(adversary.port, requests_per_second=20, robots=False)
    started = time.monotonic()
    with Downloads(adversary, settings) as web:
        web.each(*[adversary.url()] * 6)
    since = [request.at - started for request in adversary.requests]
    assert len(since) == 6
    assert all(at >= before / 20 for before, at in enumerate(sorted(since)))


def test_waiting_for_a_host_does_not_block_other_hosts(adversary: Adversary) -> None:
    """One download at a time, eight hosts, three requests each at 2 per second: 1 s, not 8 s."""
    adversary.replies["/a.jpg"] = GOOD
    hosts = [f"{letter}.example" for letter in "abcdefgh"]
    names = Names({host: [["127.0.0.1"]] for host in hosts})
    settings = quick(adversary.port, requests_per_second=2, in_flight=1, robots=False)
    started = time.monotonic()
    with Downloads(adversary, settings, lookup=names) as web:
        web.each(*[adversary.url(host=host) for host in hosts for _ in range(3)])
    assert 1 <= time.monotonic() - started < 7
